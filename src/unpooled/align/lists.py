"""Long lists on their way: cut into chunks, sent while the next are computed, put together and checked on arrival."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

import numpy as np

from unpooled.arrays import Bytes, Ints
from unpooled.errors import ProtocolError
from unpooled.session import Session

T = TypeVar("T")
R = TypeVar("R")


class Chunk(Protocol):
    """What the messages that carry a piece of a list have in common: a row of bytes for each value."""

    @property
    def exchange(self) -> bytes: ...
    @property
    def start(self) -> int: ...
    @property
    def values(self) -> Bytes: ...


def cut(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """A list in pieces of at most `size`."""
    return (values[start : start + size] for start in range(0, len(values), size))


def sending(
    session: Session,
    peer: str,
    kind: Callable[[bytes, int, Bytes], object],
    exchange: bytes,
    pieces: Iterable[Bytes],
    total: int,
) -> Iterator[int]:
    """Send a list of `total` values piece by piece as the pieces become ready; each step says how many are sent."""
    start = 0
    for piece in pieces:
        session.send(peer, kind(exchange, start, piece))
        start += len(piece)
        session.progress(start, total)
        yield start


def receiving(
    session: Session, peer: str, kind: type[Any], exchange: bytes, total: int, width: int, size: int
) -> Iterator[Bytes]:
    """A peer's list of `total` values in pieces of `size`; one that is not the next of this exchange is refused."""
    start = 0
    while start < total:
        rows = min(size, total - start)
        piece: Chunk = session.recv(peer, kind)
        values = piece.values
        if piece.exchange != exchange:
            raise ProtocolError(
                f"{peer} sent {kind.__name__} that belongs to another exchange (scope '{session.where}')"
            )
        if piece.start != start:
            raise ProtocolError(
                f"{peer} sent {kind.__name__} from position {_short(piece.start)}, expected {start} "
                f"(scope '{session.where}'): it was sent twice, lost or put in another order"
            )
        if values.shape != (rows, width):
            raise ProtocolError(
                f"{peer} sent {kind.__name__} of the wrong shape: {values.shape}, expected {rows} rows of "
                f"{width} bytes (scope '{session.where}')"
            )
        start += len(values)
        session.progress(start, total)
        yield values


def counted(session: Session, pieces: Iterable[Bytes], total: int) -> Iterator[Bytes]:
    """The pieces of a list of `total` values as they come, with word of how far it is."""
    done = 0
    for piece in pieces:
        done += len(piece)
        session.progress(done, total)
        yield piece


def _short(number: int) -> str:
    """A peer's number, fit to be shown: Python refuses to write very long ones."""
    return str(number) if abs(number) < 2**63 else "out of range"


def by_turns(left: Iterable[T], right: Iterable[R]) -> tuple[list[T], list[R]]:
    """One step here, one step there, until both are done: two sides that send and receive so keep little waiting."""
    pairs = list(zip_longest(left, right))
    return [one for one, _ in pairs if one is not None], [other for _, other in pairs if other is not None]


def joined(pieces: Sequence[Bytes], width: int) -> Bytes:
    """Pieces as one list."""
    return np.concatenate(pieces) if pieces else np.empty((0, width), np.uint8)


def secret_order(count: int) -> Ints:
    """A random order that nobody can guess: positions sorted by 64 bits each from the system."""
    return np.argsort(np.frombuffer(os.urandom(8 * count), np.uint64), kind="stable").astype(np.int64)


def common_positions(lists: Sequence[Bytes], owners: Sequence[str]) -> list[Ints]:
    """Where in each list the values stand that are in all of them, in the values' own order.

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
            raise ProtocolError(f"{owner}'s list holds a value twice, but its ids are all different")
    common = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), ranked)
    return [
        order[np.searchsorted(column, common)].astype(np.int64) for column, order in zip(ranked, orders, strict=True)
    ]


def checked_positions(positions: Ints, total: int, sender: str) -> Ints:
    """Positions as a peer sent them: each within the list, none twice."""
    in_range = positions.ndim == 1 and (positions.size == 0 or (positions.min() >= 0 and positions.max() < total))
    if not in_range or len(np.unique(positions)) < len(positions):
        raise ProtocolError(f"{sender} sent positions that are not those of {total} different ids")
    return positions
