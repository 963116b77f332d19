"""All parties as threads: results and ledgers of everybody, the original error, deadlocks, and no thread left."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from unpooled.errors import Deadlock, InputError, PeerFailed, PeerLost, PeerSilent, ProtocolError
from unpooled.ledger import reconcile
from unpooled.run.simulate import original, simulate_roles
from unpooled.session import Session
from unpooled.wire import message


@message(discloses="a number, for a test", to="the receiver")
class Number:
    value: int


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


def ask(session: Session) -> int:
    for peer in session.peers:
        session.send(peer, Number(10))
    return sum(session.recv(peer, Number).value for peer in session.peers)


def answer(session: Session) -> int:
    number = session.recv("a", Number).value
    session.send("a", Number(number + 1))
    return number


def test_everybody_has_a_result_and_a_ledger(tmp_path: Path) -> None:
    outcome = simulate_roles({"a": ask, "b": answer, "c": answer}, folder=tmp_path)
    assert outcome.results == {"a": 22, "b": 10, "c": 10}
    assert {party: record.party for party, record in outcome.ledgers.items()} == {"a": "a", "b": "b", "c": "c"}
    assert all(record.closed for record in outcome.ledgers.values())
    assert reconcile(outcome.ledgers["a"], outcome.ledgers["b"]) == []
    assert {path.parent.name for path in tmp_path.glob("*/ledger.jsonl")} == {"a", "b", "c"}


def test_seeds_belong_to_parties() -> None:
    def draw(session: Session) -> float:
        return float(session.rng.random())

    first = simulate_roles({"a": draw, "b": draw}, seeds={"a": 1, "b": 1}).results
    again = simulate_roles({"a": draw, "b": draw}, seeds={"a": 1, "b": 2}).results
    assert first["a"] != first["b"]
    assert first["a"] == again["a"]
    assert first["b"] != again["b"]


def test_the_original_error_is_raised_and_the_others_are_notes() -> None:
    def fail(session: Session) -> int:
        session.recv("a", Number)
        raise InputError("b: people.csv: there are no rows")

    with pytest.raises(InputError, match="there are no rows") as caught:
        simulate_roles({"a": ask, "b": fail, "c": answer})
    notes = sorted(caught.value.__notes__)
    assert len(notes) in (1, 2)  # c may have been done, but then waits for b's goodbye
    assert re.search(r"\ba: b stopped: its input was refused", notes[0])


def test_an_error_that_is_no_error_of_ours_comes_out_as_it_is() -> None:
    def divide(session: Session) -> int:
        return session.recv("a", Number).value // 0

    with pytest.raises(ZeroDivisionError) as caught:
        simulate_roles({"a": ask, "b": divide})
    (note,) = caught.value.__notes__
    assert re.search(r"\ba: b stopped: internal error.*Number", note)


def test_three_who_wait_in_a_circle_are_told_who_waits_for_what() -> None:
    order = {"a": "b", "b": "c", "c": "a"}

    def wait(session: Session) -> int:
        with session.scope("round", 3):
            return session.recv(order[session.party], Number).value

    with pytest.raises(Deadlock) as caught:
        simulate_roles(dict.fromkeys(order, wait), timeout=600)
    said = str(caught.value)
    for who, whom in order.items():
        assert re.search(rf"\b{who} waits for Number \(scope 'round 3'\) from {whom}\b", said)


def test_two_who_fill_each_others_queues_are_told() -> None:
    @message(discloses="nothing: a test")
    class Block:
        values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]

    def pour(session: Session) -> None:
        for _ in range(100):
            session.send(session.peers[0], Block(np.zeros(100)))

    with pytest.raises(Deadlock, match="room"):
        simulate_roles({"a": pour, "b": pour}, timeout=600, room=2_000)


def test_silence_is_an_error_after_the_timeout() -> None:
    release = threading.Event()

    def wait(session: Session) -> None:
        try:
            session.recv("b", Number)
        finally:
            release.set()

    with pytest.raises(PeerSilent, match=r"\ba .*0\.2 s .*Number .*\bb\b"):
        simulate_roles({"a": wait, "b": lambda session: release.wait(60)}, timeout=0.2)


def test_a_message_that_nobody_asked_for_is_an_error() -> None:
    def talk(session: Session) -> None:
        session.send("b", Number(1))

    with pytest.raises(ProtocolError, match=r"\ba .*Number"):
        simulate_roles({"a": talk, "b": lambda session: None})


@pytest.mark.parametrize("cause", [InputError("cause"), Deadlock("cause", "b"), PeerSilent("cause", "c")])
def test_the_original_is_what_nobody_was_told(cause: Exception) -> None:
    told = {"a": PeerFailed("b failed", "b"), "b": cause, "c": PeerLost("b has left", "b")}
    assert original(told) is cause
    first, second = cause.__notes__
    assert first.endswith("a: b failed")
    assert second.endswith("c: b has left")


def test_of_equals_the_first_is_the_original() -> None:
    first, second = PeerFailed("c failed", "c"), PeerFailed("a reports: c failed", "c")
    assert original({"a": first, "b": second}) is first


def test_the_blame_goes_to_the_one_that_is_silent_not_to_those_that_wait_for_it() -> None:
    over = threading.Event()

    def waits_for(peer: str) -> Callable[[Session], None]:
        def role(session: Session) -> None:
            try:
                session.recv(peer, Number)
            finally:
                over.set()

        return role

    with pytest.raises(PeerSilent) as caught:
        simulate_roles({"a": waits_for("b"), "b": waits_for("c"), "c": lambda _: over.wait(60)}, timeout=2)
    assert caught.value.origin == "c"
