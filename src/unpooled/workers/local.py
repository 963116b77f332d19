"""Processes of this machine that stay for the next call.

They are started, not forked, and import only what the function needs, so they work with threads and with scripts that
have no main guard. ``LOKY_MAX_CPU_COUNT`` in the environment limits their number. Compiled loops, which release
Python's lock, do the same in threads of this process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import loky

from unpooled.errors import WorkerLost

T = TypeVar("T")
R = TypeVar("R")

_IDLE_SECONDS = 30.0
_GLANCE_SECONDS = 0.5

_pools: dict[int, Any] = {}
_pools_lock = threading.Lock()
"""One pool of each size for all threads; loky's own reusable pool belongs to one thread."""


def cores() -> int:
    """The number of worker processes."""
    count: int = loky.cpu_count()
    return count


def submit(function: Callable[[T], R], item: T, workers: int) -> _Submitted[R]:
    """Have an item computed by one of so many processes."""
    with _pools_lock:
        if workers not in _pools:
            _pools[workers] = _new_pool(workers)
        try:
            future: Future[R] = _pools[workers].submit(function, item)
        except BrokenProcessPool:  # broken by an earlier call, which has reported it
            _pools[workers] = _new_pool(workers)
            future = _pools[workers].submit(function, item)
    return _Submitted(future)


def submit_to_thread(function: Callable[[T], R], item: T, workers: int) -> _Submitted[R]:
    """Have an item computed by one of so many threads."""
    return _Submitted(_threads(workers).submit(function, item))


@cache
def _threads(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "unpooled-worker")


@dataclass(frozen=True)
class _Submitted(Generic[R]):
    future: Future[R]

    def result(self) -> R:
        try:
            return self.future.result()
        except BrokenProcessPool:
            raise WorkerLost("a worker process ended before its work was done; perhaps it ran out of memory") from None

    def cancel(self) -> None:
        self.future.cancel()


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
