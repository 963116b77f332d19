"""What other parties' services say about jobs, checked and kept.

A letter is handled in the transaction that counts it as received. One that is refused (RefusedError) changes nothing.
Letters of different parties may arrive in any order: what is about a job that has not been offered yet waits for it.
"""

from __future__ import annotations

import sqlite3
from typing import Any, get_args

from unpooled.control import spoken
from unpooled.errors import RefusedError
from unpooled.serve.context import Context
from unpooled.serve.jobs.changes import end_job, insert_job, keep_run, set_decision, tell_others
from unpooled.serve.jobs.life import state_of
from unpooled.serve.jobs.offer import Offer, check_offer
from unpooled.serve.jobs.records import Choice, Job, RunState, find_job, jobs_in
from unpooled.serve.messages import JOB_MESSAGES, JobCancelled, JobDecision, JobOffer, JobPause, JobRun
from unpooled.serve.peers import peer_names
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import now
from unpooled.wire import encode, kind_of, read_body, read_header

MOST_OPEN = 200
"""Jobs of one peer that may be open at the same time; further offers are refused."""
_MOST_EARLY = 400
_MOST_ATTEMPTS, _MOST_OCCURRENCES = 10_000, 1_000


def handle(context: Context, connection: sqlite3.Connection, peer: str, message: Any) -> None:
    """Keep what a peer says; RefusedError if it cannot be accepted."""
    if isinstance(message, JobOffer):
        _offered(context, connection, peer, message)
        return
    job = find_job(connection, message.job)
    if job is None:
        _keep_for_later(connection, peer, message)
        return
    _handle_known(connection, peer, job, message)


def cancel_open(context: Context, connection: sqlite3.Connection, reason: str, peer: str = "") -> None:
    """Cancel all jobs that were offered and have not ended; those with a peer, if it is named, which is not told.

    After a restore two services may remember different approvals and runs of a job, so none of these may go on.
    """
    for job in jobs_in(connection, only_open=True):
        if job.offered and (not peer or peer in job.plan.parties):
            end_job(connection, job.id, "cancelled", reason)
            told = JobCancelled(job.id, "service", reason)
            tell_others(connection, context.party, job.plan, told, without=peer)
            note(connection, "service", "cancelled a job", reason, job.id)


def begun_anew(context: Context, connection: sqlite3.Connection, peer: str) -> None:
    """A peer's service was restored from a backup, or has removed and added this party."""
    cancel_open(context, connection, f"{peer}'s service was restored or began anew: offer the job again", peer)


def _handle_known(connection: sqlite3.Connection, peer: str, job: Job, message: Any) -> None:
    if peer not in job.plan.parties or not job.offered:
        raise RefusedError(f"invalid {kind_of(type(message))} from {peer}: it has no part in job {job.id}")
    if job.ended:
        return  # letters that crossed
    match message:
        case JobDecision():
            _decided(connection, peer, job, message)
        case JobRun():
            _runs(connection, peer, job, message)
        case JobPause():
            _paused(connection, peer, job, message)
        case JobCancelled():
            by, reason = spoken(message.by), spoken(message.reason)
            end_job(connection, job.id, "cancelled", f"{by} at {peer}: {reason}")
            note(connection, f"peer {peer}", "cancelled a job", f"{by}: {reason}", job.id)


def _offered(context: Context, connection: sqlite3.Connection, peer: str, message: JobOffer) -> None:
    offer = Offer(
        id=message.job,
        drafter=peer,
        drafted_by=message.drafted_by,
        purpose=message.purpose,
        plan=message.plan,
        created=message.created,
        expires=message.expires,
        every=message.every,
        until=message.until,
    )
    check_offer(offer, context.party, peer_names(connection))
    digest = offer.digest
    known = find_job(connection, offer.id)
    if known is not None:
        if known.digest != digest:
            raise RefusedError(f"invalid JobOffer from {peer}: job {offer.id} was offered with other content before")
        return
    count = "SELECT count(*) FROM jobs WHERE drafter = ? AND ended = ''"
    if connection.execute(count, (peer,)).fetchone()[0] >= MOST_OPEN:
        raise RefusedError(f"{peer} has {MOST_OPEN} open jobs here, no more are accepted")
    insert_job(connection, offer, offered=now())
    note(connection, f"peer {peer}", "offered a job", f"{offer.drafted_by}: {offer.purpose}", offer.id)
    _handle_early(connection, offer.id)


def _decided(connection: sqlite3.Connection, peer: str, job: Job, message: JobDecision) -> None:
    if message.digest != job.digest:
        raise RefusedError(f"invalid JobDecision from {peer}: it is about a plan that was altered")
    if message.choice not in get_args(Choice):
        raise RefusedError(f"invalid JobDecision from {peer}: unknown choice")
    by, reason = spoken(message.by), spoken(message.reason)
    choice: Choice = message.choice  # type: ignore[assignment]
    if choice == "declined" and state_of(job) not in ("offered", "waiting"):
        raise RefusedError(f"invalid JobDecision from {peer}: the job has begun, it can be cancelled")
    set_decision(connection, job.id, peer, choice, by, reason)
    if choice == "declined":
        end_job(connection, job.id, "declined", f"{peer}: {reason}")
    about = f"{by}: {reason}" if reason else by
    note(
        connection,
        f"peer {peer}",
        {"lapsed": "has no valid approval any more"}.get(choice, f"{choice} a job"),
        about,
        job.id,
    )


def _runs(connection: sqlite3.Connection, peer: str, job: Job, message: JobRun) -> None:
    if message.state not in get_args(RunState):
        raise RefusedError(f"invalid JobRun from {peer}: unknown state")
    if not (1 <= message.attempt <= _MOST_ATTEMPTS and 1 <= message.occurrence <= _MOST_OCCURRENCES):
        raise RefusedError(f"invalid JobRun from {peer}: attempt or occurrence out of range")
    before = job.runs.get((message.occurrence, peer))
    if before and before.attempt > message.attempt:
        return
    state: RunState = message.state  # type: ignore[assignment]
    error = spoken(message.error)
    keep_run(connection, job.id, peer, message.occurrence, message.attempt, state, error, resumable=message.resumable)
    about = f"attempt {message.attempt}" + (f": {error}" if error else "")
    note(connection, f"peer {peer}", f"run {state}", about, job.id)


def _paused(connection: sqlite3.Connection, peer: str, job: Job, message: JobPause) -> None:
    if not (0 <= message.attempt <= _MOST_ATTEMPTS and 1 <= message.occurrence <= _MOST_OCCURRENCES):
        raise RefusedError(f"invalid JobPause from {peer}: attempt or occurrence out of range")
    by = spoken(message.by)
    connection.execute(
        "INSERT INTO pauses (job, occurrence, attempt, party, by, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (job.id, message.occurrence, message.attempt, peer, by, now()),
    )
    note(connection, f"peer {peer}", "paused a job", by, job.id)


def _keep_for_later(connection: sqlite3.Connection, peer: str, message: Any) -> None:
    kept = connection.execute("SELECT count(*) FROM early WHERE peer = ?", (peer,)).fetchone()[0]
    if kept >= _MOST_EARLY:
        raise RefusedError(f"{peer} has sent too much about jobs that nobody has offered")
    connection.execute(
        "INSERT INTO early (job, peer, frame) VALUES (?, ?, ?)", (message.job, peer, encode(message).joined())
    )


def _handle_early(connection: sqlite3.Connection, job: str) -> None:
    kinds = {kind_of(kind): kind for kind in JOB_MESSAGES}
    rows = connection.execute("SELECT peer, frame FROM early WHERE job = ? ORDER BY number", (job,)).fetchall()
    connection.execute("DELETE FROM early WHERE job = ?", (job,))
    for row in rows:
        header = read_header(row["frame"])
        found = find_job(connection, job)
        if found is not None:
            try:
                _handle_known(connection, row["peer"], found, read_body(header, kinds[header.kind]))
            except RefusedError as error:
                note(connection, f"peer {row['peer']}", "was refused", str(error), job)
