"""Long lists in chunks: sent while the next are computed, checked and joined on arrival."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Bytes, Ints
from unpooled.errors import ProtocolError
from unpooled.session import Session

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Chunk:
    """What messages with a piece of a list have in common: the exchange's name, its first position, a row per value."""

    exchange: bytes
    start: int
    values: Bytes


def cut(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def sending(
    session: Session,
    peer: str,
    kind: type[Chunk],
    exchange: bytes,
    pieces: Iterable[Bytes],
    total: int,
) -> Iterator[int]:
    """Send a list of `total` values piece by piece as pieces become ready; yields how many were sent."""
    start = 0
    for piece in pieces:
        session.send(peer, kind(exchange, start, piece))
        start += len(piece)
        session.progress(start, total)
        yield start


def receiving(
    session: Session, peer: str, kind: type[Chunk], exchange: bytes, total: int, width: int, size: int
) -> Iterator[Bytes]:
    """Receive a list of `total` values in pieces of `size`; any but the next piece of this exchange is refused."""
    start, wrong = 0, f"invalid {kind.__name__} from {peer}"
    while start < total:
        rows = min(size, total - start)
        piece = session.recv(peer, kind)
        values = piece.values
        if piece.exchange != exchange:
            raise ProtocolError(f"{wrong}: it belongs to another exchange (scope '{session.where}')")
        if piece.start != start:
            raise ProtocolError(
                f"{wrong}: it starts at position {_short(piece.start)}, expected {start} (scope '{session.where}'); a "
                "piece was repeated, lost or reordered"
            )
        if values.shape != (rows, width):
            raise ProtocolError(
                f"{wrong}: its shape is {values.shape}, expected {rows} rows of {width} bytes (scope '{session.where}')"
            )
        start += len(values)
        session.progress(start, total)
        yield values


def counted(session: Session, pieces: Iterable[Bytes], total: int) -> Iterator[Bytes]:
    """The pieces of a list of `total` values as they come, reporting progress."""
    done = 0
    for piece in pieces:
        done += len(piece)
        session.progress(done, total)
        yield piece


def _short(number: int) -> str:
    """A peer's number as text: Python refuses to write very long ones."""
    return str(number) if abs(number) < 2**63 else "out of range"


def by_turns(left: Iterable[T], right: Iterable[R]) -> tuple[list[T], list[R]]:
    """Alternate between two iterators until both are done, so that sending and receiving keep pace."""
    pairs = list(zip_longest(left, right))
    return [one for one, _ in pairs if one is not None], [other for _, other in pairs if other is not None]


def joined(pieces: Sequence[Bytes], width: int) -> Bytes:
    return np.concatenate(pieces) if pieces else np.empty((0, width), np.uint8)


def secret_order(count: int) -> Ints:
    """A random order that nobody can guess: positions sorted by 64 random bits each from the system."""
    return np.argsort(np.frombuffer(os.urandom(8 * count), np.uint64), kind="stable").astype(np.int64)


def common_positions(lists: Sequence[Bytes], owners: Sequence[str]) -> list[Ints]:
    """The positions in each list of the values that are in all lists, in the order of the values.

    >>> a, b = (np.array([[3, 1], [1, 2], [2, 5]], np.uint8), np.array([[1, 2], [9, 9], [3, 1]], np.uint8))
    >>> [positions.tolist() for positions in common_positions([a, b], ["bank", "telco"])]
    [[1, 0], [0, 2]]
    """
    # Fixed-length byte strings sort and compare fast; that numpy drops trailing zeros changes neither at equal length.
    tags = [np.ascontiguousarray(values).view(f"S{values.shape[1]}").ravel() for values in lists]
    orders = [np.argsort(column, kind="stable") for column in tags]
    ranked = [column[order] for column, order in zip(tags, orders, strict=True)]
    for owner, column in zip(owners, ranked, strict=True):
        if (column[1:] == column[:-1]).any():
            raise ProtocolError(f"invalid list of {owner}: it holds a value twice")
    common = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), ranked)
    return [
        order[np.searchsorted(column, common)].astype(np.int64) for column, order in zip(ranked, orders, strict=True)
    ]


def marked_in_all(lists: Mapping[str, Iterator[Bytes]], kind: type[Chunk]) -> dict[str, Bools]:
    """Of lists of increasing values, by their owner and in pieces, which values are in all of them.

    The lists are gone through side by side, and of each only a piece is in memory. An order other than increasing, and
    so a value that is there twice, is refused.

    >>> a, b = (np.array(values, np.uint8).reshape(-1, 1) for values in ([1, 4, 6, 9], [2, 4, 9]))
    >>> marks = marked_in_all({"bank": iter([a[:3], a[3:]]), "telco": iter([b])}, Chunk)
    >>> [column.tolist() for column in marks.values()]
    [[False, True, False, True], [False, True, True]]
    """
    pieces = {owner: _increasing(owner, kind, values) for owner, values in lists.items()}
    held = {owner: next(rest, _NOTHING) for owner, rest in pieces.items()}
    marks: dict[str, list[Bools]] = {owner: [] for owner in lists}
    while any(map(len, held.values())):
        bound = min(values[-1] for values in held.values() if len(values))
        ends = {owner: int(np.searchsorted(values, bound, side="right")) for owner, values in held.items()}
        places = _places_in_all([held[owner][:end] for owner, end in ends.items()])
        for (owner, end), found in zip(ends.items(), places, strict=True):
            marked = np.zeros(end, bool)
            marked[found] = True
            marks[owner].append(marked)
            held[owner] = held[owner][end:] if end < len(held[owner]) else next(pieces[owner], _NOTHING)
    return {owner: np.concatenate([np.zeros(0, bool), *found]) for owner, found in marks.items()}


_NOTHING: NDArray[Any] = np.zeros(0, "S1")


def _increasing(owner: str, kind: type[Chunk], pieces: Iterable[Bytes]) -> Iterator[NDArray[Any]]:
    """Values as texts of bytes, which numpy compares fast, if each is above the one before it."""
    before = None
    for piece in pieces:
        values = np.ascontiguousarray(piece).view(f"S{piece.shape[1]}").ravel()
        if (values[1:] <= values[:-1]).any() or (before is not None and values[0] <= before):
            raise ProtocolError(f"invalid {kind.__name__} from {owner}: the values do not increase")
        before = values[-1]
        yield values


def _places_in_all(lists: Sequence[NDArray[Any]]) -> list[Ints]:
    """Where the values that are in all lists stand in each, all of them increasing."""
    common, places = lists[0], [np.arange(len(lists[0]))]
    for values in lists[1:]:
        if not len(values):
            return [np.zeros(0, np.int64)] * len(lists)
        where = np.minimum(np.searchsorted(values, common), len(values) - 1)
        found = values[where] == common
        common, places = common[found], [*(one[found] for one in places), where[found]]
    return places


def checked_positions(positions: Ints, total: int, sender: str) -> Ints:
    """Positions that a peer sent, if each is within the list and none is repeated."""
    in_range = positions.ndim == 1 and (positions.size == 0 or (positions.min() >= 0 and positions.max() < total))
    if not in_range or len(np.unique(positions)) < len(positions):
        raise ProtocolError(f"invalid positions from {sender}: repeated, or outside the list of {total} ids")
    return positions
