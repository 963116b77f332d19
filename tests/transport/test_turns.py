"""Parties that are threads of one process take turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from unpooled.ledger import Ledger
from unpooled.transport import mailbox as mailbox_module
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.memory import MemoryTransport, mailboxes
from unpooled.wire import encode, message


@message(discloses="nothing: a word")
class Word:
    text: str


@pytest.fixture
def transports(tmp_path: Path) -> Iterator[dict[str, MemoryTransport]]:
    with ExitStack() as stack:
        ledgers = {
            party: stack.enter_context(closing(Ledger(tmp_path / f"{party}.jsonl", party, "plan")))
            for party in ("bank", "telco")
        }
        boxes = mailboxes(ledgers)
        yield {party: MemoryTransport(party, boxes, 10) for party in boxes}


def begun_in_a_thread(mailbox: Mailbox, begun: threading.Event) -> threading.Thread:
    def begin() -> None:
        mailbox.take_turn()
        begun.set()

    thread = threading.Thread(target=begin)
    thread.start()
    return thread


def test_a_party_begins_when_the_other_waits(
    transports: dict[str, MemoryTransport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox_module, "TURN_SECONDS", 60)
    bank, telco = transports["bank"], transports["telco"]
    bank.open()
    begun = threading.Event()

    def role() -> None:
        telco.open()
        begun.set()
        telco.send("bank", encode(Word("hello")))
        telco.close()

    thread = threading.Thread(target=role)
    thread.start()
    assert not begun.wait(0.1)
    assert bank.mailbox.take("telco", "Word", 10).kind.endswith("Word")
    assert begun.is_set()
    thread.join()
    bank.close()


def test_what_has_arrived_is_taken_without_ending_the_turn(
    transports: dict[str, MemoryTransport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox_module, "TURN_SECONDS", 60)
    bank, telco = transports["bank"], transports["telco"]
    bank.open()
    telco.send("bank", encode(Word("hello")))
    begun = threading.Event()
    thread = begun_in_a_thread(telco.mailbox, begun)
    bank.mailbox.take("telco", "Word", 10)
    assert not begun.wait(0.1)
    bank.close()
    assert begun.wait(10)
    thread.join()
    telco.close()


def test_nobody_waits_for_one_that_is_at_work_for_long(transports: dict[str, MemoryTransport]) -> None:
    transports["bank"].open()
    begun = threading.Event()
    thread = begun_in_a_thread(transports["telco"].mailbox, begun)
    assert begun.wait(10)
    thread.join()
    transports["telco"].close()
    transports["bank"].close()
