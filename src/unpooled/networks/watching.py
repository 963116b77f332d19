"""Whoever starts a generator deep in a job can be told how far it is, to show that and to send keep-alives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Told = Callable[[str, int, int], None]
"""(what is done, how much of it is done, how much there is)"""


def _nobody(_: str, __: int, ___: int) -> None:
    """For what nobody asked about."""


_told: ContextVar[Told] = ContextVar("told", default=_nobody)


@contextmanager
def told(watch: Told) -> Iterator[None]:
    """Within the block, and this thread, tell how far generators are."""
    before = _told.set(watch)
    try:
        yield
    finally:
        _told.reset(before)


def tell(what: str, done: int, total: int) -> None:
    """Tell whoever wants to know."""
    _told.get()(what, done, total)
