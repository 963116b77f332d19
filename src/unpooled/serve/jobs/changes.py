"""Changes of a job that people, peers and the keeper of runs all make, within a transaction of theirs."""

from __future__ import annotations

import sqlite3

from unpooled.jobs.plan import Plan
from unpooled.serve.jobs.offer import Offer
from unpooled.serve.jobs.records import Choice, Ended, Job, RunState
from unpooled.serve.messages import JobRun
from unpooled.serve.peering.post import put
from unpooled.serve.state.database import now


def tell_others(connection: sqlite3.Connection, party: str, plan: Plan, message: object, *, without: str = "") -> None:
    """Put a letter to every other party of a plan into the outbox, or to all but one."""
    for peer in plan.parties:
        if peer not in (party, without):
            put(connection, peer, message)


def insert_job(connection: sqlite3.Connection, offer: Offer, offered: str) -> None:
    """Keep an offer, or a draft of one, which has not been offered."""
    columns = {**vars(offer), "digest": offer.digest, "offered": offered}
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    connection.execute(f"INSERT INTO jobs ({names}) VALUES ({places})", tuple(columns.values()))  # noqa: S608


def set_decision(connection: sqlite3.Connection, job: str, party: str, choice: Choice, by: str, reason: str) -> None:
    connection.execute(
        "INSERT INTO decisions (job, party, choice, by, reason, at) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (job, party) DO UPDATE SET (choice, by, reason, at) = "
        "(excluded.choice, excluded.by, excluded.reason, excluded.at)",
        (job, party, choice, by, reason, now()),
    )


def keep_run(
    connection: sqlite3.Connection,
    job: str,
    party: str,
    occurrence: int,
    attempt: int,
    state: RunState,
    error: str = "",
    *,
    resumable: bool = True,
) -> None:
    """Keep how far a party's run is."""
    at = now()
    ended = at if state in ("finished", "failed") else ""
    connection.execute(
        "INSERT INTO runs (job, occurrence, party, attempt, state, error, resumable, started, ended) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, occurrence, party) DO UPDATE SET "
        "(attempt, state, error, resumable, ended) = "
        "(excluded.attempt, excluded.state, excluded.error, excluded.resumable, excluded.ended)",
        (job, occurrence, party, attempt, state, error, resumable, at, ended),
    )


def set_run(
    connection: sqlite3.Connection,
    party: str,
    job: Job,
    occurrence: int,
    attempt: int,
    state: RunState,
    error: str = "",
    *,
    told: str = "",
    resumable: bool = True,
) -> None:
    """Keep how far this party's own run is, and tell the others; `told` is what they hear of an error."""
    keep_run(connection, job.id, party, occurrence, attempt, state, error, resumable=resumable)
    tell_others(connection, party, job.plan, JobRun(job.id, occurrence, attempt, state, told, resumable))


def end_job(connection: sqlite3.Connection, job: str, how: Ended, reason: str = "") -> None:
    """End a job, unless it has ended."""
    connection.execute("UPDATE jobs SET ended = ?, reason = ? WHERE id = ? AND ended = ''", (how, reason, job))
