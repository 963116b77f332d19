"""A party's progress: its process writes it to a file, and the process that started it reads the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter

from unpooled import atomic
from unpooled.jobs.work import WORKING

_FILE = "progress.json"
_PAUSE_SECONDS = 0.25
_WITHIN = "/product "
"""Scopes of single products are too short to be shown."""


@dataclass(frozen=True)
class Progress:
    """How much of a scope is done, and how many bytes were sent.

    `step` is the outermost scope of which it is known how much there is, and `fraction` how much of that is done.
    """

    where: str
    done: int
    total: int
    sent: int = 0
    step: str = ""
    fraction: float = 0.0


class Told(Protocol):
    """What is asked of a session besides the progress that it reports."""

    sent: int
    weights: dict[str, Sequence[int]]


Watcher = Callable[[Progress], None]
"""Called with a party's own progress."""

Watch = Callable[[Mapping[str, Progress]], None]
"""Called with the latest progress of each party that has reported any."""

_AS_JSON = TypeAdapter(Progress)


def nested(watcher: Watcher, session: Callable[[], Told]) -> Callable[[str, int, int], None]:
    """Turns the progress of scopes, as a session reports it, into progress within the outer scopes.

    The steps of a scope count alike, or by the session's weights. Within a step the fraction never falls.

    >>> from types import SimpleNamespace
    >>> told = nested(print, lambda: SimpleNamespace(sent=7, weights={"find": (5, 10, 10)}))
    >>> told("find", 1, 3)
    Progress(where='find', done=1, total=3, sent=7, step='find', fraction=0.2)
    >>> told("find/second step", 5, 10)
    Progress(where='find/second step', done=5, total=10, sent=7, step='find', fraction=0.4)
    """
    scopes: dict[str, tuple[int, int]] = {}
    step, reached = "", 0.0

    def tell(where: str, done: int, total: int) -> None:
        nonlocal step, reached
        for other in [scope for scope in scopes if not where.startswith(f"{scope}/")]:
            del scopes[other]
        scopes[where] = done, total
        fraction = 0.0
        for scope, (steps_done, steps) in reversed(scopes.items()):
            fraction = _done(steps_done, steps, fraction, session().weights.get(scope, ()))
        outermost = next(iter(scopes))
        reached = max(fraction, reached) if outermost == step else fraction
        step = outermost
        named = [scope for scope in scopes if _WITHIN not in scope] or [where]
        watcher(Progress(named[-1], *scopes[named[-1]], session().sent, step, reached))

    return tell


def _done(done: int, total: int, of_next: float, weights: Sequence[int]) -> float:
    """How much of a scope is done, with a fraction of the next step.

    >>> _done(1, 2, 0.5, ()), _done(1, 2, 0.5, (1, 3))
    (0.75, 0.625)
    """
    if len(weights) != total or not weights:
        return min((done + of_next) / max(total, 1), 1.0)
    return min((sum(weights[:done]) + sum(weights[done : done + 1]) * of_next) / sum(weights), 1.0)


def keep_progress(folder: Path) -> Watcher:
    """A watcher that writes the latest progress to a party's working files.

    It writes a few times a second at most, but always the first and the last of a scope: what is missed in between
    is soon overtaken, whereas a long step that was never announced would look like the one before it.
    """
    path = folder / WORKING / _FILE
    last, due = "", 0.0

    def watcher(progress: Progress) -> None:
        nonlocal last, due
        now = time.monotonic()
        if progress.where == last and progress.done != progress.total and now < due:
            return
        last, due = progress.where, now + _PAUSE_SECONDS
        with suppress(OSError):  # no job fails for want of a progress bar
            atomic.write_bytes(path, _AS_JSON.dump_json(progress), lasting=False)

    return watcher


def read_progress(folder: Path) -> Progress | None:
    """The latest progress of a party; None if there is none, or none that can be read."""
    try:
        return _AS_JSON.validate_json((folder / WORKING / _FILE).read_bytes(), strict=True)
    except (OSError, ValueError):
        return None
