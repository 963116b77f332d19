"""Parties as threads: conversations that end well, badly, or not at all."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.errors import Deadlock, InputError, PeerError, PeerFailed, PeerLost, PeerSilent, ProtocolError
from unpooled.ledger import Ledger, Record, read_ledger, reconcile
from unpooled.session import Session
from unpooled.transport.mailbox import ROOM_BYTES
from unpooled.transport.memory import MemoryTransport, mailboxes
from unpooled.wire import message

LONG = 100.0
AT_ONCE = 60.0

Role = Callable[[Session], Any]


@message(discloses="a number", to="the receiver")
class Number:
    value: int


@message(discloses="nothing: made for this test")
class Token:
    pass


@dataclass(frozen=True)
class Outcome:
    results: dict[str, Any]
    errors: dict[str, BaseException]
    ledgers: dict[str, Record]
    seconds: float


def converse(folder: Path, room: int = ROOM_BYTES, timeout: float = LONG, **roles: Role) -> Outcome:
    """Let every party play its role in a thread of its own, say goodbye, or tell the others that it failed."""
    ledgers = {party: Ledger(folder / f"{party}.jsonl", party, "abc") for party in roles}
    boxes = mailboxes(ledgers, room)
    results: dict[str, Any] = {}
    errors: dict[str, BaseException] = {}

    def run(party: str) -> None:
        session = Session(MemoryTransport(party, boxes, timeout), ledgers[party], seed=1, timeout=timeout)
        try:
            results[party] = roles[party](session)
            session.finish()
        except BaseException as error:
            errors[party] = error
            session.abort(error)

    begin = time.monotonic()
    threads = [threading.Thread(target=run, args=(party,), daemon=True) for party in roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LONG)
        assert not thread.is_alive()
    seconds = time.monotonic() - begin
    return Outcome(results, errors, {p: read_ledger(ledger.path) for p, ledger in ledgers.items()}, seconds)


def send_all(s: Session, peer: str, count: int) -> None:
    for value in range(count):
        s.send(peer, Number(value))


def recv_all(s: Session, peer: str, count: int) -> list[int]:
    return [s.recv(peer, Number).value for _ in range(count)]


# conversations that end well


@pytest.mark.parametrize("room", [1, 100, ROOM_BYTES])
def test_messages_arrive_in_order_however_little_room_there_is(tmp_path: Path, room: int) -> None:
    count = 100

    def active(s: Session) -> list[list[int]]:
        return [recv_all(s, peer, count) for peer in ("telco", "shop")]

    outcome = converse(
        tmp_path,
        room,
        bank=active,
        telco=lambda s: send_all(s, "bank", count),
        shop=lambda s: send_all(s, "bank", count),
    )
    assert outcome.errors == {}
    assert outcome.results["bank"] == [list(range(count))] * 2
    bank, telco, shop = (outcome.ledgers[party] for party in ("bank", "telco", "shop"))
    assert bank.closed
    assert reconcile(bank, telco) == reconcile(bank, shop) == reconcile(telco, shop) == []


PARTIES = ("bank", "telco", "shop")
STEPS = st.lists(st.permutations(PARTIES).map(lambda order: (order[0], order[1])), max_size=30)


@settings(deadline=None)
@given(STEPS, st.sampled_from([1, ROOM_BYTES]))
def test_a_conversation_that_can_go_on_is_never_taken_for_a_deadlock(steps: list[tuple[str, str]], room: int) -> None:
    """Every party takes its steps in the one common order, so whoever comes next in it can always go on."""

    def role(s: Session) -> list[int]:
        received = []
        for number, (sender, receiver) in enumerate(steps):
            if s.party == sender:
                s.send(receiver, Number(number))
            elif s.party == receiver:
                received.append(s.recv(sender, Number).value)
        return received

    with tempfile.TemporaryDirectory() as folder:
        outcome = converse(Path(folder), room, **dict.fromkeys(PARTIES, role))
    assert outcome.errors == {}
    for party in PARTIES:
        assert outcome.results[party] == [n for n, (_, receiver) in enumerate(steps) if receiver == party]


# deadlocks


def assert_deadlock(outcome: Outcome, *waits: tuple[str, str, str]) -> None:
    """One party noticed the circle, and who waits there for what from whom; the others heard of it from that one."""
    [(noticed_by, deadlock)] = [(p, e) for p, e in outcome.errors.items() if isinstance(e, Deadlock)]
    told = sorted(str(deadlock).split("; "))
    assert len(told) == len(waits)
    for line, (waiting, awaited, other) in zip(told, sorted(waits), strict=True):
        assert re.match(f"{waiting} .*{awaited}.* {other}$", line), line
    others = [error for party, error in outcome.errors.items() if party != noticed_by]
    assert len(others) == len(outcome.ledgers) - 1
    for error in others:
        assert isinstance(error, PeerError)
        assert error.origin == noticed_by
    assert outcome.seconds < AT_ONCE


def test_two_parties_that_wait_for_each_other(tmp_path: Path) -> None:
    def role_towards(peer: str) -> Role:
        def role(s: Session) -> None:
            with s.scope("fit", 2):
                s.recv(peer, Number)

        return role

    outcome = converse(tmp_path, bank=role_towards("telco"), telco=role_towards("bank"))
    assert_deadlock(
        outcome,
        ("bank", "Number.*fit 2", "telco"),
        ("telco", "Number.*fit 2", "bank"),
    )
    heard = next(error for error in outcome.errors.values() if isinstance(error, PeerFailed))
    assert "Number" in str(heard)


def test_three_parties_in_a_circle(tmp_path: Path) -> None:
    outcome = converse(
        tmp_path,
        bank=lambda s: s.recv("telco", Number),
        telco=lambda s: s.recv("shop", Token),
        shop=lambda s: s.recv("bank", Number, Token),
    )
    assert_deadlock(
        outcome,
        ("bank", "Number", "telco"),
        ("telco", "Token", "shop"),
        ("shop", "Number or Token", "bank"),
    )


def test_two_parties_that_send_to_each_other_and_never_read(tmp_path: Path) -> None:
    outcome = converse(
        tmp_path,
        room=1,
        bank=lambda s: send_all(s, "telco", 10),
        telco=lambda s: send_all(s, "bank", 10),
    )
    kind = next(entry.kind for entry in outcome.ledgers["bank"].entries)
    assert_deadlock(outcome, ("bank", f"room.*{kind}", "telco"), ("telco", f"room.*{kind}", "bank"))


def test_a_party_that_sends_too_much_to_one_that_waits_for_a_third(tmp_path: Path) -> None:
    outcome = converse(
        tmp_path,
        room=1,
        bank=lambda s: send_all(s, "telco", 10),
        telco=lambda s: s.recv("shop", Token),
        shop=lambda s: s.recv("bank", Token),
    )
    kind = next(entry.kind for entry in outcome.ledgers["bank"].entries)
    assert_deadlock(
        outcome,
        ("bank", f"room.*{kind}", "telco"),
        ("telco", "Token", "shop"),
        ("shop", "Token", "bank"),
    )


# other bad ends


def test_a_party_that_finishes_too_early(tmp_path: Path) -> None:
    outcome = converse(tmp_path, bank=lambda s: None, telco=lambda s: s.recv("bank", Number))
    assert isinstance(outcome.errors["telco"], PeerLost)
    assert re.search("bank.*telco.*Number", str(outcome.errors["telco"]))
    assert isinstance(outcome.errors["bank"], PeerFailed)
    assert outcome.seconds < AT_ONCE


def test_a_message_that_nobody_takes(tmp_path: Path) -> None:
    outcome = converse(tmp_path, bank=lambda s: s.send("telco", Number(1)), telco=lambda s: None)
    assert isinstance(outcome.errors["telco"], ProtocolError)
    assert "Number" in str(outcome.errors["telco"])


def test_a_party_that_is_busy_too_long(tmp_path: Path) -> None:
    done = threading.Event()

    def wait_for_it(s: Session) -> None:
        try:
            s.recv("bank", Number)
        finally:
            done.set()

    outcome = converse(tmp_path, timeout=0.1, bank=lambda s: done.wait(LONG), telco=wait_for_it)
    assert isinstance(outcome.errors["telco"], PeerSilent)
    assert re.search(r"telco.*0\.1 s.*Number.*bank", str(outcome.errors["telco"]))
    assert isinstance(outcome.errors["bank"], PeerFailed)


def test_a_failure_reaches_a_party_that_waits_for_somebody_else_but_not_its_text(tmp_path: Path) -> None:
    told = threading.Event()

    def fail(s: Session) -> None:
        s.recv("shop", Token)
        raise InputError("secret row 17")

    def wait_for_telco(s: Session) -> None:
        s.send("bank", Token())
        try:
            s.recv("telco", Number)
        finally:
            told.set()

    outcome = converse(tmp_path, bank=fail, telco=lambda s: told.wait(LONG), shop=wait_for_telco)
    assert isinstance(outcome.errors["bank"], InputError)
    for party, when in (("shop", "Number.*telco"), ("telco", "Goodbye.*bank")):
        error = outcome.errors[party]
        assert isinstance(error, PeerFailed)
        assert re.search(f"bank.*input.*{party}.*{when}", str(error))
        assert "secret" not in str(error)
        assert error.origin == "bank"
    assert outcome.seconds < AT_ONCE
    for party in outcome.ledgers:
        assert "secret" not in (tmp_path / f"{party}.jsonl").read_text(encoding="utf-8")


def test_a_failure_reaches_a_party_that_waits_for_room(tmp_path: Path) -> None:
    def fail(s: Session) -> None:
        s.recv("telco", Number)
        raise ValueError

    outcome = converse(tmp_path, room=1, bank=fail, telco=lambda s: send_all(s, "bank", 10))
    assert isinstance(outcome.errors["telco"], PeerFailed)
    assert re.search("bank.*internal error.*telco", str(outcome.errors["telco"]))
    assert outcome.seconds < AT_ONCE
