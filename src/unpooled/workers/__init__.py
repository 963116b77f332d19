"""Heavy arithmetic of one party: a function over many items, on all cores of this machine or of the party's cluster.

Whoever starts a party says where (`connected`); a protocol does not know. What is computed elsewhere must be
importable there, and results are the same to the bit wherever they are computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from unpooled.workers import local

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_AHEAD = 2
_FEW = 4
LEAST_CELLS = 2**20
"""From how many cells on arithmetic in memory is handed to a cluster: less takes no longer here than on its way."""


class Pending(Protocol[R_co]):
    """A result to come."""

    def result(self) -> R_co:
        """Wait for it; WorkerLost if who computed it ended before it was done."""
        ...

    def cancel(self) -> None:
        """Do not compute it, unless that has begun."""
        ...


class Cluster(Protocol):
    """The machines of a party, other than the one that it runs on."""

    cores: int

    def submit(self, function: Callable[[T], R], item: T) -> Pending[R]: ...


_cluster: ContextVar[Cluster | None] = ContextVar("_cluster", default=None)
"""The cluster of the party that runs in this thread; each party has a thread of its own, also in a simulation."""


@contextmanager
def connected(address: str | None, party: str) -> Iterator[None]:
    """Within the block, this thread's work goes to the party's Ray cluster; without an address it stays here."""
    if address is None:
        yield
        return
    from unpooled.workers.cluster import RayCluster

    with RayCluster(address, party) as cluster:
        before = _cluster.set(cluster)
        try:
            yield
        finally:
            _cluster.reset(before)


def cores() -> int:
    """How many items are worked on at the same time."""
    cluster = _cluster.get()
    return cluster.cores if cluster else local.cores()


def few_cores() -> bool:
    """Whether this party's work is done on a few cores of this machine."""
    return not has_cluster() and cores() <= _FEW


def has_cluster() -> bool:
    """Whether this party has a cluster."""
    return _cluster.get() is not None


def in_order(
    function: Callable[[T], R], items: Iterable[T], most_ahead: int | None = None, *, threads: bool = False
) -> Iterator[R]:
    """The function's result for each item, in the items' order; a few items ahead are computed in parallel.

    A single item is computed in this process. `most_ahead` limits how many items are taken before the first result is
    returned, for items that depend on earlier results. With `threads` the function releases Python's lock, and may work
    on memory of this process: it stays in it, cluster or not.
    """
    remaining = iter(items)
    first = list(islice(remaining, 2)) if most_ahead is None or most_ahead > 1 else []
    workers = cores()
    if len(first) < 2 or workers == 1:
        yield from map(function, chain(first, remaining))
        return
    ahead = min(_AHEAD * workers, most_ahead or _AHEAD * workers)
    pending: deque[Pending[R]] = deque()
    try:
        for item in chain(first, remaining):
            pending.append(_submit(function, item, threads=threads))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def on_cluster(function: Callable[[T], R], items: Iterable[T], cells: int = LEAST_CELLS) -> Iterator[R]:
    """The same for arithmetic in memory, which goes through so many cells: on a cluster if there is one, or else here.

    It never goes to another process of this machine, since handing it over takes as long as doing it.
    """
    return in_order(function, items) if has_cluster() and cells >= LEAST_CELLS else map(function, items)


def submit_all(function: Callable[[T], R], items: Iterable[T], *, threads: bool = False) -> Iterator[R]:
    """The same with all items submitted at once, computed while the caller continues."""
    if cores() == 1:
        return map(function, items)
    return _Submitted(_submit(function, item, threads=threads) for item in items)


class _Submitted(Iterator[R]):
    """Results to come; items that nobody waits for any more are cancelled."""

    def __init__(self, futures: Iterable[Pending[R]]) -> None:
        self._pending = deque(futures)

    def __next__(self) -> R:
        if not self._pending:
            raise StopIteration
        return self._pending.popleft().result()

    def __del__(self) -> None:
        for future in self._pending:
            future.cancel()


def _submit(function: Callable[[T], R], item: T, *, threads: bool) -> Pending[R]:
    cluster: Any = _cluster.get()
    if threads:
        return local.submit_to_thread(function, item, local.cores() if cluster else cores())
    return cluster.submit(function, item) if cluster else local.submit(function, item, cores())
