"""Long lists in chunks: sent while the next are computed, checked and joined on arrival."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import TypeVar

import numpy as np

from unpooled.arrays import Bytes, Ints
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


def checked_positions(positions: Ints, total: int, sender: str) -> Ints:
    """Positions that a peer sent, if each is within the list and none is repeated."""
    in_range = positions.ndim == 1 and (positions.size == 0 or (positions.min() >= 0 and positions.max() < total))
    if not in_range or len(np.unique(positions)) < len(positions):
        raise ProtocolError(f"invalid positions from {sender}: repeated, or outside the list of {total} ids")
    return positions
