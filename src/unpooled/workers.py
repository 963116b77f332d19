"""Heavy arithmetic on all cores: a function over many items, in processes that stay for the next call.

The processes are started, not forked, and import only what the function needs, so they work with threads and with
scripts that have no main guard. ``LOKY_MAX_CPU_COUNT`` in the environment limits their number. Compiled loops, which
release Python's lock, do the same in threads of this process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

import loky

from unpooled.errors import WorkerLost

T = TypeVar("T")
R = TypeVar("R")

_IDLE_SECONDS = 30.0
_AHEAD = 2
_GLANCE_SECONDS = 0.5

_pools: dict[int, Any] = {}
_pools_lock = threading.Lock()
"""One pool of each size for all threads; loky's own reusable pool belongs to one thread."""


def cores() -> int:
    """The number of worker processes."""
    count: int = loky.cpu_count()
    return count


def in_order(
    function: Callable[[T], R], items: Iterable[T], most_ahead: int | None = None, *, threads: bool = False
) -> Iterator[R]:
    """The function's result for each item, in the items' order; a few items ahead are computed in parallel.

    A single item is computed in this process. `most_ahead` limits how many items are taken before the first result is
    returned, for items that depend on earlier results. With `threads` the function releases Python's lock.
    """
    remaining = iter(items)
    first = list(islice(remaining, 2)) if most_ahead is None or most_ahead > 1 else []
    workers = cores()
    if len(first) < 2 or workers == 1:
        yield from map(function, chain(first, remaining))
        return
    ahead = min(_AHEAD * workers, most_ahead or _AHEAD * workers)
    pending: deque[Future[R]] = deque()
    try:
        for item in chain(first, remaining):
            pending.append(_submit(function, item, threads=threads))
            if len(pending) >= ahead:
                yield _result(pending.popleft())
        while pending:
            yield _result(pending.popleft())
    finally:
        for future in pending:
            future.cancel()


def submit_all(function: Callable[[T], R], items: Iterable[T], *, threads: bool = False) -> Iterator[R]:
    """The same with all items submitted at once, computed while the caller continues."""
    if cores() == 1:
        return map(function, items)
    return _Submitted(_submit(function, item, threads=threads) for item in items)


class _Submitted(Iterator[R]):
    """Results to come; items that nobody waits for any more are cancelled."""

    def __init__(self, futures: Iterable[Future[R]]) -> None:
        self._pending = deque(futures)

    def __next__(self) -> R:
        if not self._pending:
            raise StopIteration
        return _result(self._pending.popleft())

    def __del__(self) -> None:
        for future in self._pending:
            future.cancel()


def _submit(function: Callable[[T], R], item: T, *, threads: bool) -> Future[R]:
    workers = cores()
    if threads:
        return _threads(workers).submit(function, item)
    with _pools_lock:
        if workers not in _pools:
            _pools[workers] = _new_pool(workers)
        try:
            future: Future[R] = _pools[workers].submit(function, item)
        except BrokenProcessPool:  # broken by an earlier call, which has reported it
            _pools[workers] = _new_pool(workers)
            future = _pools[workers].submit(function, item)
    return future


@cache
def _threads(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "unpooled-worker")


def _new_pool(workers: int) -> Any:
    return loky.ProcessPoolExecutor(workers, timeout=_IDLE_SECONDS, initializer=_begin_worker, initargs=(os.getpid(),))


def _begin_worker(parent: int) -> None:
    """In a worker: Ctrl-C is the parent's matter, and a parent that was killed takes its workers with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_GLANCE_SECONDS)
    os._exit(1)


def _result(future: Future[R]) -> R:
    try:
        return future.result()
    except BrokenProcessPool:
        raise WorkerLost("a worker process ended before its work was done; perhaps it ran out of memory") from None
