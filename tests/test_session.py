"""One party's side of a conversation: what it sends, receives, draws and leaves in the ledger."""

from __future__ import annotations

import copy
import pickle
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from unpooled.arrays import Floats
from unpooled.control import Abort, Goodbye
from unpooled.errors import (
    InputError,
    LedgerError,
    PeerFailed,
    PeerLost,
    PeerSilent,
    ProtocolError,
    RefusedError,
    UnpooledError,
    WireError,
)
from unpooled.ledger import Ledger, read_ledger, reconcile
from unpooled.session import Session
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.memory import MemoryTransport, mailboxes
from unpooled.wire import Frame, encode, kind_of, message

TIMEOUT = 0.05


@message(discloses="a number", to="the receiver")
class Number:
    value: int


@message(discloses="nothing: made for this test")
class Secrets:
    text: str
    number: int
    array: Floats


Sessions = dict[str, Session]
Opener = Callable[..., Sessions]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Sessions of several parties in one thread: sending never waits here, receiving finds what was sent before."""
    opened_ledgers: list[Ledger] = []

    def open_sessions(
        *parties: str, seed: int = 1, guard: Callable[[type, int], None] | None = None, into: str = ""
    ) -> Sessions:
        (tmp_path / into).mkdir(exist_ok=True)
        ledgers = {party: Ledger(tmp_path / into / f"{party}.jsonl", party, "abc") for party in parties}
        opened_ledgers.extend(ledgers.values())
        boxes = mailboxes(ledgers)
        return {
            party: Session(
                MemoryTransport(party, boxes, TIMEOUT), ledgers[party], seed=seed, timeout=TIMEOUT, guard=guard
            )
            for party in parties
        }

    yield open_sessions
    for ledger in opened_ledgers:
        ledger.close()


def kinds_in(folder: Path, party: str) -> list[str]:
    return [entry.kind for entry in read_ledger(folder / f"{party}.jsonl").entries]


# sending and receiving


def test_messages_arrive_in_order_under_their_scope_and_both_ledgers_tell_the_same(
    opened: Opener, tmp_path: Path
) -> None:
    s = opened("bank", "telco")
    for number in range(3):
        with s["bank"].scope("fit"), s["bank"].scope("tree", number):
            s["bank"].send("telco", Number(number))
    assert [s["telco"].recv("bank", Number).value for _ in range(3)] == [0, 1, 2]
    bank, telco = (read_ledger(tmp_path / f"{party}.jsonl") for party in ("bank", "telco"))
    assert [(e.way, e.peer, e.kind, e.scope) for e in telco.entries] == [
        ("received", "bank", kind_of(Number), f"fit/tree {number}") for number in range(3)
    ]
    assert [(e.discloses, e.to) for e in bank.entries] == [("a number", "the receiver")] * 3
    assert reconcile(bank, telco) == []


def test_scopes_nest_and_end_even_by_an_error(opened: Opener) -> None:
    session = opened("bank")["bank"]

    def fail_inside() -> None:
        with session.scope("fit"), session.scope("tree", 3):
            assert session.where == "fit/tree 3"
            raise ValueError

    with pytest.raises(ValueError):
        fail_inside()
    assert session.where == ""


def test_what_another_message_follows_is_on_its_way_when_a_party_waits(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = opened("bank", "telco")
    did: list[object] = []
    send = MemoryTransport.send

    def noting(self: MemoryTransport, peer: str, frame: Frame, *, more: bool = False) -> None:
        did.append(more)
        send(self, peer, frame, more=more)

    monkeypatch.setattr(MemoryTransport, "send", noting)
    monkeypatch.setattr(MemoryTransport, "flush", lambda self: did.append(f"{self.mailbox.party} flushes"))
    s["telco"].send("bank", Number(1))
    s["bank"].send("telco", Number(2), more=True)
    s["bank"].send("telco", Number(3))
    assert [s["bank"].recv("telco", Number).value, *(s["telco"].recv("bank", Number).value for _ in "23")] == [1, 2, 3]
    assert did == [False, True, False, "bank flushes"]
    with pytest.raises(PeerSilent):
        s["bank"].recv("telco", Number)
    assert "bank flushes" not in did[4:]  # nothing was held


def test_one_of_several_kinds_may_be_awaited(opened: Opener) -> None:
    s = opened("bank", "telco")
    s["bank"].send("telco", Number(7))
    match s["telco"].recv("bank", Secrets, Number):
        case Number(value=value):
            assert value == 7
        case other:
            pytest.fail(f"a {type(other).__name__} was received")


def test_a_message_of_another_kind_is_a_protocol_error_naming_both_kinds_and_scopes(opened: Opener) -> None:
    s = opened("bank", "telco")
    with s["bank"].scope("align"):
        s["bank"].send("telco", Number(7))
    with s["telco"].scope("fit", 2), pytest.raises(ProtocolError) as caught:
        s["telco"].recv("bank", Secrets, Abort)
    assert re.search(f"telco.*Secrets or Abort.*fit 2.*bank.*{kind_of(Number)}.*align", str(caught.value))


def test_a_message_that_does_not_come_is_named_with_party_and_scope(opened: Opener) -> None:
    s = opened("bank", "telco")
    with s["telco"].scope("fit", 2), pytest.raises(PeerSilent) as caught:
        s["telco"].recv("bank", Number)
    assert re.search(r"telco.*0\.05 s.*Number.*fit 2.*bank", str(caught.value))
    assert caught.value.origin == "bank"


def test_fields_that_are_not_those_of_the_kind_are_a_wire_error(opened: Opener) -> None:
    s = opened("bank", "telco")
    broken = encode(Number(7)).joined()[:-1]
    s["bank"]._transport.send("telco", Frame((broken,), len(broken)))
    with pytest.raises(WireError, match=r"Number\.value"):
        s["telco"].recv("bank", Number)


def test_what_was_sent_is_a_copy_and_what_arrives_is_read_only(opened: Opener) -> None:
    s = opened("bank", "telco")
    array = np.zeros(3)
    s["bank"].send("telco", Secrets("", 0, array))
    array += 1
    received = s["telco"].recv("bank", Secrets).array
    np.testing.assert_array_equal(received, np.zeros(3))
    assert not received.flags.writeable


def test_what_is_not_a_message_is_neither_sent_nor_recorded(opened: Opener, tmp_path: Path) -> None:
    s = opened("bank", "telco")
    for wrong in ("a text", Number("seven")):  # type: ignore[arg-type]
        with pytest.raises(WireError):
            s["bank"].send("telco", wrong)
    assert kinds_in(tmp_path, "bank") == kinds_in(tmp_path, "telco") == []


def test_nothing_is_sent_that_the_ledger_cannot_record(opened: Opener, tmp_path: Path) -> None:
    s = opened("bank", "telco")
    s["bank"]._ledger.close()
    with pytest.raises(LedgerError, match=r"bank\.jsonl"):
        s["bank"].send("telco", Number(7))
    assert kinds_in(tmp_path, "telco") == []


def test_a_guard_stops_a_message_before_it_leaves(opened: Opener, tmp_path: Path) -> None:
    asked = []

    def guard(kind: type, size: int) -> None:
        asked.append((kind, size))
        raise RefusedError("bank never sends Number")

    s = opened("bank", "telco", guard=guard)
    with pytest.raises(RefusedError, match="bank never sends Number"):
        s["bank"].send("telco", Number(7))
    assert asked == [(Number, encode(Number(7)).size)]
    assert kinds_in(tmp_path, "bank") == kinds_in(tmp_path, "telco") == []


def test_no_value_is_in_a_ledger(opened: Opener, tmp_path: Path) -> None:
    s = opened("bank", "telco")
    number, real = 9081726354, 0.987654321
    s["bank"].send("telco", Secrets("customer-4711", number, np.array([real])))
    assert s["telco"].recv("bank", Secrets).text == "customer-4711"
    for party in ("bank", "telco"):
        content = (tmp_path / f"{party}.jsonl").read_text(encoding="utf-8")
        assert kind_of(Secrets) in content
        for trace in ("4711", str(number), f"{number:x}", str(real)[2:], np.array([real]).tobytes().hex()):
            assert trace not in content


# the end of a conversation


def test_who_finishes_has_said_goodbye_heard_it_and_closed_the_ledger(opened: Opener, tmp_path: Path) -> None:
    s = opened("bank", "telco")
    s["telco"].send("bank", Goodbye())
    s["bank"].finish()
    assert kinds_in(tmp_path, "bank") == ["Goodbye"] * 2
    assert read_ledger(tmp_path / "bank.jsonl").closed
    assert not read_ledger(tmp_path / "telco.jsonl").closed


def test_a_party_that_stays_without_a_goodbye_is_waited_for_in_vain(opened: Opener) -> None:
    with pytest.raises(PeerSilent, match=r"bank.*0\.05 s.*goodbye.*telco"):
        opened("bank", "telco")["bank"].finish()


def test_a_message_that_nobody_took_is_a_protocol_error(opened: Opener) -> None:
    s = opened("bank", "telco")
    with s["telco"].scope("fit"):
        s["telco"].send("bank", Number(7))
    s["telco"].send("bank", Goodbye())
    with pytest.raises(ProtocolError) as caught:
        s["bank"].finish()
    assert re.search(f"telco.*{kind_of(Number)}.*fit", str(caught.value))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InputError("column income, row 17: secret"), "stopped: its input was refused"),
        (ValueError("could not convert 'secret 17'"), "stopped: internal error"),
        (KeyboardInterrupt("secret 17"), "was interrupted"),
        (RefusedError("fewer rows than min_rows"), "fewer rows than min_rows"),
    ],
)
def test_peers_are_told_the_text_of_an_error_only_if_it_holds_no_data(
    opened: Opener, tmp_path: Path, error: BaseException, told: str
) -> None:
    s = opened("bank", "telco")
    s["bank"].abort(error)
    for act in (lambda: s["telco"].recv("bank", Number), lambda: s["telco"].send("bank", Number(1))):
        with pytest.raises(PeerFailed, match=rf"bank.*{told}.*telco") as caught:
            act()
        assert caught.value.origin == "bank"
    for party in ("bank", "telco"):
        assert kinds_in(tmp_path, party) == ["Abort"]
        assert "secret" not in (tmp_path / f"{party}.jsonl").read_text(encoding="utf-8")


def test_a_failure_that_is_passed_on_keeps_its_origin(opened: Opener) -> None:
    s = opened("bank", "telco", "shop")
    s["telco"].abort(PeerFailed("shop failed: ValueError", "shop"))
    with pytest.raises(PeerFailed, match=r"telco.*shop.*ValueError") as caught:
        s["bank"].recv("telco", Number)
    assert caught.value.origin == "shop"


def test_who_aborted_takes_nothing_more(opened: Opener, tmp_path: Path) -> None:
    s = opened("bank", "telco")
    s["bank"].abort(ValueError())
    assert read_ledger(tmp_path / "bank.jsonl").closed
    with pytest.raises(PeerLost, match="bank"):
        s["bank"]._transport.mailbox.deliver("telco", encode(Number(1)).joined())


def test_peers_hear_of_a_failure_that_the_ledger_has_no_room_for(opened: Opener) -> None:
    s = opened("bank", "telco")
    s["bank"]._ledger.close()
    s["bank"].abort(RefusedError("fewer rows than min_rows"))
    with pytest.raises(PeerFailed, match=r"bank.*fewer rows than min_rows"):
        s["telco"].recv("bank", Number)


def test_abort_never_fails_for_want_of_peers(opened: Opener) -> None:
    s = opened("bank", "telco")
    s["telco"].abort(ValueError())
    s["bank"].abort(UnpooledError())
    with pytest.raises(PeerFailed, match=r"telco.*internal error"):
        s["bank"].send("telco", Number(1))


# randomness


def test_the_same_seed_and_party_draw_the_same_and_others_draw_otherwise(opened: Opener) -> None:
    def draws(seed: int, party: str, into: str) -> list[int]:
        session = opened("bank", "telco", seed=seed, into=into)[party]
        session.secret.random()  # must not move the other source
        return [int(n) for n in session.rng.integers(0, 2**63, 5)]

    first = draws(1, "bank", "a")
    assert draws(1, "bank", "b") == first
    assert draws(1, "telco", "c") != first
    assert draws(2, "bank", "d") != first


def test_the_secret_source_is_the_systems_and_has_no_state_to_store(opened: Opener) -> None:
    secret = opened("bank")["bank"].secret
    assert isinstance(secret, random.SystemRandom)
    before = secret.getrandbits(128)
    secret.seed(1)
    assert secret.getrandbits(128) != before
    for store in (secret.getstate, lambda: pickle.dumps(secret), lambda: copy.copy(secret)):
        with pytest.raises(NotImplementedError):
            store()


def test_a_failing_party_waits_for_nobody_to_tell_of_it(tmp_path: Path) -> None:
    """One peer takes nothing any more: the others are told, and the party leaves."""
    sent: list[str] = []
    ledger = Ledger(tmp_path / "bank.jsonl", "bank", "plan")

    class Stuck:
        networked = True
        mailbox = Mailbox("bank", ("telco", "shop"), ledger)

        def open(self) -> None: ...

        def send(self, peer: str, frame: Frame, *, more: bool = False) -> None:
            sent.append(peer)

        def flush(self) -> None: ...

        def can_send(self, peer: str) -> bool:
            return peer != "telco"

        def close(self) -> None: ...

    Session(Stuck(), ledger, seed=1, timeout=60).abort(InputError("row 7"))
    assert sent == ["shop"]
    assert [entry.peer for entry in read_ledger(tmp_path / "bank.jsonl").entries] == ["shop"]


# progress


class Clock:
    """A time that stands still until it is moved on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("unpooled.session.time", self)

    def monotonic(self) -> float:
        return self.now


def test_whoever_looks_on_is_told_every_step_with_its_scope(opened: Opener) -> None:
    session = opened("bank", "telco")["bank"]
    told: list[tuple[str, int, int]] = []
    session._watcher = lambda where, done, total: told.append((where, done, total))
    session.progress(1, 4)
    with session.scope("align"), session.scope("raise", 2):
        session.progress(4, 4)
    assert told == [("", 1, 4), ("align/raise 2", 4, 4)]


def test_progress_needs_nobody_to_look_on(opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    opened("bank", "telco")["bank"].progress(1, 4)
    assert kinds_in(tmp_path, "bank") == []


def test_peers_are_told_of_long_work_four_times_a_timeout_at_most(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    s = opened("bank", "telco", "shop")
    for step in range(80):
        clock.now += TIMEOUT / 16
        with s["bank"].scope("raise"):
            s["bank"].progress(step, 80)
    entries = read_ledger(tmp_path / "bank.jsonl").entries
    assert {(e.way, e.kind, e.scope) for e in entries} == {("sent", "Working", "raise")}
    for peer in ("telco", "shop"):
        assert 16 <= sum(e.peer == peer for e in entries) <= 20
        assert kinds_in(tmp_path, peer) == ["Working"] * sum(e.peer == peer for e in entries)
    s["bank"].send("telco", Number(7))
    assert s["telco"].recv("bank", Number).value == 7


def test_a_party_that_never_speaks_of_progress_never_says_that_it_works(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    s = opened("bank", "telco")
    clock.now += 100 * TIMEOUT
    s["bank"].send("telco", Number(7))
    assert kinds_in(tmp_path, "bank") == [kind_of(Number)]
