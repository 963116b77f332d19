"""What can be seen of a run while it goes on: its progress, its traffic and its log, read a few times a second at most
and shared by all who look."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from unpooled.run import folder as run_folder
from unpooled.run.progress import Progress, read_progress
from unpooled.serve.context import Context
from unpooled.serve.jobs.life import State, state_of
from unpooled.serve.jobs.records import Job, job_named
from unpooled.serve.running.process import folder_of

LOOK_SECONDS = 0.4
_MOST_JOBS = 64
_MOST_READ = 2**22
_LOG_TAIL = 2**13

Flows = Mapping[tuple[str, str], int | None]


@dataclass(frozen=True)
class Seen:
    """A job as it is now; `flows` are bytes from one party to another, None where only the others know."""

    job: Job
    state: State
    progress: Progress | None
    flows: Flows
    log: str
    home: Path


@dataclass
class Tail:
    """A ledger that grows: only what was added since the last look is read."""

    path: Path
    party: str
    flows: dict[tuple[str, str], int] = field(default_factory=dict)
    _offset: int = 0

    def look(self) -> None:
        """Add up what is new, a few megabytes at a time; a line that is not finished is left for the next look."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                added = file.read(_MOST_READ)
        except OSError:
            return
        whole = added.rfind(b"\n") + 1
        self._offset += whole
        for line in added[:whole].splitlines():
            self._count(line)

    def _count(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if "way" in entry:
            peer = entry["peer"]
            pair = (self.party, peer) if entry["way"] == "sent" else (peer, self.party)
            self.flows[pair] = self.flows.get(pair, 0) + entry["bytes"]


@dataclass
class _Watched:
    lock: threading.Lock = field(default_factory=threading.Lock)
    tail: Tail | None = None
    seen: Seen | None = None
    at: float = 0.0


class Watching:
    """Jobs that people look at, each read once for all of them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._watched: OrderedDict[str, _Watched] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, job: str, *, fresh: bool = False) -> Seen:
        """A job as it is now, or as it was a moment ago unless it must be fresh; InputError if there is none."""
        with self._lock:
            watched = self._watched.setdefault(job, _Watched())
            self._watched.move_to_end(job)
            if len(self._watched) > _MOST_JOBS:
                self._watched.popitem(last=False)
        with watched.lock:
            if fresh or watched.seen is None or time.monotonic() - watched.at > LOOK_SECONDS:
                watched.seen = self._read(job, watched)
                watched.at = time.monotonic()
            return watched.seen

    def _read(self, name: str, watched: _Watched) -> Seen:
        context = self._context
        with context.database.reading() as connection:
            job = job_named(connection, name)
        home = folder_of(context.folder, job.id, max(job.occurrence, 1)) / context.party
        ledger = home / run_folder.LEDGER
        if watched.tail is None or watched.tail.path != ledger:
            watched.tail = Tail(ledger, context.party)
        watched.tail.look()
        flows = dict.fromkeys(combinations(job.plan.parties, 2)) | watched.tail.flows
        return Seen(job, state_of(job), read_progress(home), flows, log_of(home), home)


def log_of(home: Path) -> str:
    """The last lines of a run's log."""
    try:
        with (home / run_folder.LOG).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_TAIL))
            text = file.read(_LOG_TAIL).decode(errors="replace")
    except OSError:
        return ""
    return text if size <= _LOG_TAIL else text.partition("\n")[2]
