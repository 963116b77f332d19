"""What a service knows about a job, read from its database."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

from unpooled.errors import InputError
from unpooled.jobs.plan import Plan
from unpooled.serve.jobs.offer import Offer, read_plan

Choice = Literal["approved", "declined", "lapsed"]
RunState = Literal["ready", "running", "finished", "failed"]
Ended = Literal["", "declined", "cancelled", "expired", "finished", "failed"]


@dataclass(frozen=True)
class Decision:
    """What a party has decided, and which person."""

    party: str
    choice: Choice
    by: str
    reason: str
    at: str


@dataclass(frozen=True)
class PartyRun:
    """How far a party's run is; `occurrence` counts the runs of a job that is repeated, from 1."""

    party: str
    occurrence: int
    attempt: int
    state: RunState
    error: str
    resumable: bool
    started: str
    ended: str


@dataclass(frozen=True)
class Job:
    """A job: the offer, or a draft of one, what the parties have decided, and their runs.

    `pauses` has, for each occurrence, the last attempt that was to pause. `reason` tells why a job ended, if it did.
    """

    offer: Offer
    digest: str
    offered: str
    ended: Ended
    reason: str
    purged: bool
    decisions: Mapping[str, Decision]
    runs: Mapping[tuple[int, str], PartyRun]
    pauses: Mapping[int, int]

    @property
    def id(self) -> str:
        return self.offer.id

    @cached_property
    def plan(self) -> Plan:
        return read_plan(self.offer.plan)

    @cached_property
    def occurrence(self) -> int:
        """The latest occurrence that any party is or was ready for; 0 if there is none yet."""
        return max((occurrence for occurrence, _ in self.runs), default=0)

    def runs_in(self, occurrence: int) -> dict[str, PartyRun]:
        return {party: run for (number, party), run in self.runs.items() if number == occurrence}


def job_named(connection: sqlite3.Connection, job: str) -> Job:
    """A job by its id."""
    row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
    if row is None:
        raise InputError(f"there is no job {job[:40]}")
    return _job(connection, row)


def find_job(connection: sqlite3.Connection, job: str) -> Job | None:
    row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
    return _job(connection, row) if row else None


def jobs_in(connection: sqlite3.Connection, *, only_open: bool = False, most: int = 500) -> list[Job]:
    """The jobs, the latest first."""
    which = "WHERE ended = ''" if only_open else ""
    rows = connection.execute(
        f"SELECT * FROM jobs {which} ORDER BY created DESC, id LIMIT ?",  # noqa: S608
        (most,),
    ).fetchall()
    return [_job(connection, row) for row in rows]


def _job(connection: sqlite3.Connection, row: sqlite3.Row) -> Job:
    job = row["id"]
    decisions = connection.execute("SELECT * FROM decisions WHERE job = ?", (job,)).fetchall()
    runs = connection.execute("SELECT * FROM runs WHERE job = ?", (job,)).fetchall()
    pauses = connection.execute(
        "SELECT occurrence, max(attempt) AS attempt FROM pauses WHERE job = ? GROUP BY occurrence", (job,)
    ).fetchall()
    return Job(
        offer=Offer(**{field.name: row[field.name] for field in fields(Offer)}),
        digest=row["digest"],
        offered=row["offered"],
        ended=row["ended"],
        reason=row["reason"],
        purged=bool(row["purged"]),
        decisions={one["party"]: Decision(*(one[f.name] for f in fields(Decision))) for one in decisions},
        runs={(one["occurrence"], one["party"]): _run(one) for one in runs},
        pauses={one["occurrence"]: one["attempt"] for one in pauses},
    )


def _run(row: sqlite3.Row) -> PartyRun:
    return PartyRun(
        row["party"],
        row["occurrence"],
        row["attempt"],
        row["state"],
        row["error"],
        bool(row["resumable"]),
        row["started"],
        row["ended"],
    )
