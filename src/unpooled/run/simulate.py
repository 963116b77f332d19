"""All parties of a job as threads of this process, for trials, tests and research, without protection."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl

from unpooled import atomic
from unpooled.budget.places import Places
from unpooled.data.table import Table
from unpooled.errors import CAUSES, PeerLost, PlanError, cause_of
from unpooled.jobs.checks import checked
from unpooled.jobs.files import write_toml
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.plan import Plan, digest_of
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob, Result
from unpooled.ledger import Ledger, Record, read_ledger
from unpooled.run import folder as run_folder
from unpooled.run.conversation import converse, take_part
from unpooled.run.progress import Watcher
from unpooled.session import Observer, Session
from unpooled.transport.mailbox import ROOM_BYTES, Mailbox
from unpooled.transport.memory import MemoryTransport, mailboxes

T = TypeVar("T")

_GLANCE_SECONDS = 0.2


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What every party has at the end: its result, its ledger, and by name its tables with a row for each person."""

    results: dict[str, T]
    ledgers: dict[str, Record]
    tables: dict[str, dict[str, pl.DataFrame]] = field(default_factory=dict)


def simulate_job(
    plan: Plan,
    privates: Mapping[str, Private],
    tables: Mapping[str, Table] | None = None,
    folder: Path | None = None,
    *,
    books: Places | None = None,
    watchers: Mapping[str, Watcher] | None = None,
    observers: Mapping[str, Observer] | None = None,
) -> Outcome[Result]:
    """Run a plan with all its parties in this process; `tables` replace those of private settings.

    A party without private settings has the defaults. No book is kept of what is disclosed, except in `books`.
    `watchers` are told how far parties are, `observers` what they send, receive and are shown.
    """
    jobs = {p: checked(plan, p, privates.get(p, Private()), (tables or {}).get(p)) for p in plan.parties}
    for party, job in jobs.items():
        if job.private.workers.engine != "local":
            raise PlanError(f"{party}: workers.engine: a simulation works on this machine alone: leave it out")
    with _folder(folder) as root:
        for party in jobs:
            run_folder.create(root / party)
        write_toml(root / run_folder.PLAN, plan)
        meeting = _Meeting(tuple(jobs), plan.timeout)

        def part(party: str) -> Result:
            watcher, observer = (watchers or {}).get(party), (observers or {}).get(party)
            job, linked = jobs[party], partial(meeting.linked, party)
            return take_part(job, root / party, lambda: (job, linked), watcher, books=books, observer=observer)

        outcome = _all_together(part, meeting, root)
        return replace(outcome, tables={party: tables_of(job, root / party) for party, job in jobs.items()})


def simulate_roles(
    roles: Mapping[str, Callable[[Session], T]],
    *,
    fields: Mapping[str, str] | None = None,
    seeds: Mapping[str, int] | None = None,
    guards: Mapping[str, Callable[[type, int], None]] | None = None,
    watchers: Mapping[str, Callable[[str, int, int], None]] | None = None,
    observers: Mapping[str, Observer] | None = None,
    timeout: float = 60,
    room: int = ROOM_BYTES,
    folder: Path | None = None,
) -> Outcome[T]:
    """Run one function per party, each with a session of its own; if any fails, the original error is raised."""
    meeting = _Meeting(tuple(roles), timeout, room)
    with _folder(folder) as root:

        def part(party: str) -> T:
            atomic.make_folder(root / party)
            with Ledger(root / party / run_folder.LEDGER, party, digest_of(fields or {})) as ledger:
                session = Session(
                    meeting.linked(party, ledger),
                    ledger,
                    seed=(seeds or {}).get(party, 0),
                    timeout=timeout,
                    guard=(guards or {}).get(party),
                    watcher=(watchers or {}).get(party),
                    observer=(observers or {}).get(party),
                )
                return converse(session, fields or {}, roles[party])

        return _all_together(part, meeting, root)


def tables_of(job: CheckedJob[Any], folder: Path) -> dict[str, pl.DataFrame]:
    """What a party has written of single people into its run folder."""
    kind = kind_named(job.plan.kind)
    if not (source := job.table or kind.table(job)):
        return {}
    found = {name: file.read(folder, len(source.id)) for name, file in kind.tables.items()}
    return {name: frame for name, frame in found.items() if frame is not None}


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """The given folder, or a temporary one."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


class _Meeting:
    """Connects the parties of a simulation once all of them are there."""

    def __init__(self, parties: tuple[str, ...], timeout: float, room: int = ROOM_BYTES) -> None:
        self.parties, self._timeout, self._room = parties, timeout, room
        self._ledgers: dict[str, Ledger] = {}
        self._boxes: dict[str, Mailbox] = {}
        self._all_here = threading.Barrier(len(parties), self._begin)
        self._gone = ""

    def linked(self, party: str, ledger: Ledger) -> MemoryTransport:
        """Wait for the others; PeerLost if one of them does not come."""
        self._ledgers[party] = ledger
        try:
            self._all_here.wait()
        except threading.BrokenBarrierError:
            raise PeerLost(f"{self._gone} did not come", self._gone) from None
        return MemoryTransport(party, self._boxes, self._timeout)

    def leave(self, party: str) -> None:
        """Do not wait for a party that has failed; connected ones hear of it from its session."""
        self._gone = self._gone or party
        self._all_here.abort()

    def interrupt(self) -> None:
        """End all waiting."""
        self.leave("another party")
        for box in self._boxes.values():
            for peer in box.peers:
                box.lose(peer, "the simulation was interrupted")

    def _begin(self) -> None:
        self._boxes |= mailboxes({party: self._ledgers[party] for party in self.parties}, self._room)


def _all_together(part: Callable[[str], T], meeting: _Meeting, root: Path) -> Outcome[T]:
    """Run each party's part in a thread of its own, until all have ended."""
    results: dict[str, T] = {}
    errors: dict[str, BaseException] = {}

    def run(party: str) -> None:
        try:
            results[party] = part(party)
        except BaseException as error:
            errors[party] = error
            meeting.leave(party)

    threads = [
        threading.Thread(target=run, args=(party,), name=f"unpooled-{party}", daemon=True) for party in meeting.parties
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(_GLANCE_SECONDS)  # not for ever at once: an interrupt must get through
    except BaseException:
        meeting.interrupt()
        raise
    if errors:
        raise original(errors)
    return Outcome(results, {party: read_ledger(root / party / run_folder.LEDGER) for party in meeting.parties})


def original(errors: Mapping[str, BaseException]) -> BaseException:
    """The error that caused the others, which become its notes; of several, the first."""
    first = min(errors, key=lambda party: CAUSES.index(cause_of(errors[party])))
    for party, error in errors.items():
        if party != first:
            errors[first].add_note(f"then {party}: {error}")
    return errors[first]
