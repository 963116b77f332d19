"""Long lists in pieces: in order, whole and nothing else; and what several lists have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.align.ecdh import HiddenIds
from unpooled.align.lists import (
    by_turns,
    checked_positions,
    common_positions,
    counted,
    cut,
    joined,
    receiving,
    secret_order,
    sending,
)
from unpooled.arrays import Bytes
from unpooled.errors import ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session

NAME = b"this exchange"
WIDTH = 4


def values(start: int, count: int, width: int = WIDTH) -> Bytes:
    return np.arange(start, start + count, dtype=np.uint8).repeat(width).reshape(count, width)


def received(messages: list[HiddenIds], total: int) -> Bytes:
    """What bank makes of telco's messages as a list of `total` values."""

    def bank(session: Session) -> Bytes:
        return joined(list(receiving(session, "telco", HiddenIds, NAME, total, WIDTH, 3)), WIDTH)

    def telco(session: Session) -> None:
        for message in messages:
            session.send("bank", message)

    return simulate_roles({"bank": bank, "telco": telco}, timeout=120).results["bank"]  # type: ignore[return-value]


@given(st.integers(0, 40), st.integers(1, 12))
def test_a_list_in_pieces_is_the_list(count: int, size: int) -> None:
    pieces = list(cut(range(count), size))
    assert [item for piece in pieces for item in piece] == list(range(count))
    assert all(len(piece) == size for piece in pieces[:-1])


def test_what_is_sent_in_pieces_arrives_whole_and_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []

    def bank(session: Session) -> list[int]:
        session._watcher = lambda where, done, total: told.append((where, done, total))
        with session.scope("hide"):
            return list(sending(session, "telco", HiddenIds, NAME, [values(0, 3), values(3, 2)], 5))

    def telco(session: Session) -> list[Bytes]:
        return list(receiving(session, "bank", HiddenIds, NAME, 5, WIDTH, 3))

    results: dict[str, Any] = simulate_roles({"bank": bank, "telco": telco}, timeout=120).results
    assert results["bank"] == [3, 5]
    np.testing.assert_array_equal(joined(results["telco"], WIDTH), values(0, 5))
    assert told == [("hide", 3, 5), ("hide", 5, 5)]


class Busy:
    """A session that receives the pieces of a list, and notes what is said of progress."""

    party, where = "bank", "somewhere"

    def __init__(self) -> None:
        self.coming = [HiddenIds(NAME, start, values(start, 2)) for start in (0, 2, 4)]
        self.told: list[tuple[int, int]] = []

    def recv(self, peer: str, kind: type) -> HiddenIds:
        return self.coming.pop(0)

    def progress(self, done: int, total: int) -> None:
        self.told.append((done, total))


def test_who_only_receives_or_computes_is_heard_of_too() -> None:
    session: Any = Busy()
    assert len(list(receiving(session, "telco", HiddenIds, NAME, 6, WIDTH, 2))) == 3
    assert session.told == [(2, 6), (4, 6), (6, 6)]
    session.told.clear()
    assert len(list(counted(session, [values(0, 5), values(5, 1)], 6))) == 2
    assert session.told == [(5, 6), (6, 6)]


def test_only_the_last_piece_is_shorter() -> None:
    """Who cut its list smaller could make the other's ledger as long as its list."""
    pieces = [HiddenIds(NAME, start, values(start, count)) for start, count in ((0, 3), (3, 3), (6, 2))]
    np.testing.assert_array_equal(received(pieces, 8), values(0, 8))
    with pytest.raises(ProtocolError, match=r"HiddenIds.*telco.*\(1, 4\)"):
        received([HiddenIds(NAME, 0, values(0, 1))], 8)


def test_an_empty_list_needs_no_message() -> None:
    assert received([], 0).shape == (0, WIDTH)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (HiddenIds(b"another", 3, values(3, 3)), "HiddenIds.*telco.*exchange"),
        (HiddenIds(b"", 3, values(3, 3)), "exchange"),
        (HiddenIds(NAME, 0, values(0, 3)), r"\b0\b.*\b3\b"),
        (HiddenIds(NAME, 4, values(4, 2)), r"\b4\b.*\b3\b"),
        (HiddenIds(NAME, -3, values(3, 3)), r"-3\b.*\b3\b"),
        (HiddenIds(NAME, 10**5000, values(3, 3)), r"range.*\b3\b"),
        (HiddenIds(NAME, 3, values(3, 4)), r"\(4, 4\).*\b3\b.*\b4\b"),
        (HiddenIds(NAME, 3, values(3, 2)), r"\(2, 4\).*\b3\b.*\b4\b"),
        (HiddenIds(NAME, 3, values(3, 0)), r"\(0, 4\)"),
        (HiddenIds(NAME, 3, values(3, 3, 5)), r"\(3, 5\)"),
        (HiddenIds(NAME, 3, values(3, 3).ravel()), r"\(12,\)"),
        (HiddenIds(NAME, 3, values(3, 3)[None]), r"\(1, 3, 4\)"),
    ],
)
def test_a_piece_that_is_not_the_next_one_is_refused(second: HiddenIds, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        received([HiddenIds(NAME, 0, values(0, 3)), second], 6)


def test_turns_are_taken_until_both_are_done() -> None:
    taken: list[str] = []

    def side(name: str, count: int) -> Iterator[str]:
        for number in range(count):
            taken.append(f"{name}{number}")
            yield taken[-1]

    assert by_turns(side("a", 1), side("b", 3)) == (["a0"], ["b0", "b1", "b2"])
    assert taken == ["a0", "b0", "b1", "b2"]
    assert by_turns(side("a", 0), side("b", 0)) == ([], [])


# order


def test_every_secret_order_is_as_likely_as_any_other() -> None:
    draws = 6000
    counts = Counter(tuple(secret_order(3).tolist()) for _ in range(draws))
    assert set(map(tuple, map(sorted, counts))) == {(0, 1, 2)}
    surprise = sum((counts[order] - draws / 6) ** 2 / (draws / 6) for order in counts) + (6 - len(counts)) * draws / 6
    assert surprise < 60  # chi-square with 5 degrees of freedom: beyond that once in 10^11


def test_a_secret_order_has_every_position_once() -> None:
    assert secret_order(0).tolist() == []
    assert sorted(secret_order(1000).tolist()) == list(range(1000))


# what lists have in common

lists_of_tags = st.lists(st.lists(st.binary(min_size=2, max_size=2), unique=True, max_size=12), min_size=1, max_size=4)


@given(lists_of_tags)
def test_common_positions_are_those_of_the_sets_in_the_values_order(lists: list[list[bytes]]) -> None:
    arrays = [np.frombuffer(b"".join(tags), np.uint8).reshape(-1, 2) for tags in lists]
    positions = common_positions(arrays, [f"party {number}" for number in range(len(lists))])
    common = sorted(set.intersection(*map(set, lists)))
    assert [[tags[place] for place in places] for tags, places in zip(lists, positions, strict=True)] == [common] * len(
        lists
    )


def test_values_that_end_with_zeros_stay_different() -> None:
    tags = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 0], [1, 1, 0]], np.uint8)
    positions = common_positions([tags, tags[::-1].copy()], ["bank", "telco"])
    assert [places.tolist() for places in positions] == [[2, 0, 1, 3], [1, 3, 2, 0]]


def test_a_value_that_is_there_twice_is_refused_naming_whose_it_is() -> None:
    tags = np.array([[1, 2], [3, 4], [1, 2]], np.uint8)
    with pytest.raises(ProtocolError, match="telco"):
        common_positions([tags[:2], tags], ["bank", "telco"])


@pytest.mark.parametrize("positions", [[-1], [3], [0, 1, 0], [[0, 1]], [0, 1, 2, 0]])
def test_positions_that_cannot_be_are_refused(positions: Any) -> None:
    with pytest.raises(ProtocolError, match=r"coordinator.*\b3\b"):
        checked_positions(np.array(positions, np.int64), 3, "coordinator")


@pytest.mark.parametrize("positions", [[], [2], [2, 0, 1]])
def test_positions_that_can_be_are_taken_as_they_are(positions: list[int]) -> None:
    assert checked_positions(np.array(positions, np.int64), 3, "coordinator").tolist() == positions
