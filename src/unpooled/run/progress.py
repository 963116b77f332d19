"""How far a party is: kept in a file by its own process, read by the one that started it and looks on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from unpooled import atomic
from unpooled.jobs.work import WORKING

_FILE = "progress.json"
_PAUSE_SECONDS = 0.25


@dataclass(frozen=True)
class Progress:
    """So much of a scope is done."""

    where: str
    done: int
    total: int


Watcher = Callable[[str, int, int], None]
"""What a session tells of its own progress: the scope, how much of it is done, and how much there is."""

Watch = Callable[[Mapping[str, Progress]], None]
"""Whoever looks on: it is given what each party has said last, without those that have said nothing."""

_AS_JSON = TypeAdapter(Progress)


def keep_progress(folder: Path) -> Watcher:
    """A watcher that keeps the newest progress among a party's working files.

    It writes a few times a second at most, but always the first and the last of a scope: what is missed in between
    is soon overtaken, whereas a long step that was never announced would look like the one before it.
    """
    path = folder / WORKING / _FILE
    last, due = "", 0.0

    def watcher(where: str, done: int, total: int) -> None:
        nonlocal last, due
        now = time.monotonic()
        if where == last and done != total and now < due:
            return
        last, due = where, now + _PAUSE_SECONDS
        with suppress(OSError):  # no job fails for want of a progress bar
            atomic.write_bytes(path, _AS_JSON.dump_json(Progress(where, done, total)))

    return watcher


def read_progress(folder: Path) -> Progress | None:
    """What a party has said last; None if it has said nothing, or nothing that can be read."""
    try:
        return _AS_JSON.validate_json((folder / WORKING / _FILE).read_bytes(), strict=True)
    except (OSError, ValueError):
        return None
