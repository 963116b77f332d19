"""What people do with jobs: draft, offer, approve, decline, pause, continue, cancel.

Each act is one transaction: what changes here, the letters to the other parties, and the entry in the audit log.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from unpooled.control import spoken
from unpooled.errors import InputError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.serve.accounts.people import Role, may
from unpooled.serve.context import Context
from unpooled.serve.jobs.changes import end_job, insert_job, set_decision, set_run, tell_others
from unpooled.serve.jobs.life import is_paused, latest_attempt, state_of
from unpooled.serve.jobs.offer import Offer, check_offer, read_plan, written
from unpooled.serve.jobs.records import Job, job_named
from unpooled.serve.messages import JobCancelled, JobDecision, JobOffer, JobPause
from unpooled.serve.peers import peer_names
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import now
from unpooled.serve.tables import Choices, digest_of_settings, private_of

USUAL_DAYS = 14
_MOST_REASON = 500


def draft(
    context: Context,
    by: str,
    *,
    purpose: str,
    plan: str,
    days: int = USUAL_DAYS,
    every: str = "",
    until: str = "",
    job: str = "",
) -> str:
    """Keep a draft, or a changed one, and return its id; nobody else sees it."""
    made = _offer(context, by, job or secrets.token_hex(16), purpose, plan, days, every, until)
    with context.database.transaction() as connection:
        check_offer(made, context.party, peer_names(connection))
        if job:
            _only(job_named(connection, job), "draft", what="changed")
            connection.execute("DELETE FROM jobs WHERE id = ?", (job,))
        insert_job(connection, made, offered="")
        note(connection, by, "changed a draft" if job else "drafted a job", made.purpose, made.id)
    return made.id


def remove_draft(context: Context, by: str, job: str) -> None:
    with context.database.transaction() as connection:
        found = job_named(connection, job)
        _only(found, "draft", what="removed")
        connection.execute("DELETE FROM jobs WHERE id = ?", (job,))
        note(connection, by, "removed a draft", found.offer.purpose, job)


def offer(context: Context, by: str, job: str) -> None:
    """Offer a draft to the other parties; from then on it does not change."""
    with context.database.transaction() as connection:
        found = job_named(connection, job)
        _only(found, "draft", what="offered")
        lasts = datetime.fromisoformat(found.offer.expires) - datetime.fromisoformat(found.offer.created)
        created = datetime.now(UTC)
        dates = {"created": created, "expires": created + lasts}
        made = replace(found.offer, drafted_by=by, **{key: _text(value) for key, value in dates.items()})
        check_offer(made, context.party, peer_names(connection))
        connection.execute("DELETE FROM jobs WHERE id = ?", (job,))
        insert_job(connection, made, offered=now())
        texts = (made.id, made.drafted_by, made.purpose, made.plan, made.created, made.expires, made.every, made.until)
        tell_others(connection, context.party, found.plan, JobOffer(*texts))
        note(connection, by, "offered a job", made.purpose, job)


def approve(context: Context, by: str, job: str, choices: Choices) -> bool:
    """Approve a job with these choices; returns whether that was the last approval that this party needs.

    The approval is for the offer and the settings as they are now. If another person approved with other settings, only
    the later approval counts.
    """
    with context.database.transaction() as connection:
        found = job_named(connection, job)
        _only(found, "offered", "waiting", what="approved")
        private = private_of(connection, context.folder, choices)
        checked(found.plan, context.party, private)
        digest = digest_of_settings(private)
        connection.execute("DELETE FROM approvals WHERE job = ? AND settings_digest <> ?", (job, digest))
        connection.execute(
            "INSERT INTO approvals (job, person, at, settings, settings_digest) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (job, person) DO UPDATE SET (at, settings) = (excluded.at, excluded.settings)",
            (job, by, now(), choices.model_dump_json(), digest),
        )
        note(connection, by, "approved a job", found.offer.purpose, job)
        approvals = connection.execute("SELECT count(*) FROM approvals WHERE job = ?", (job,)).fetchone()[0]
        enough = bool(approvals >= context.settings.approvals)
        if enough:
            set_decision(connection, job, context.party, "approved", by, "")
            tell_others(connection, context.party, found.plan, JobDecision(job, found.digest, "approved", by, ""))
    return enough


def decline(context: Context, by: str, job: str, reason: str) -> None:
    """Decline a job that has not begun; that ends it for all."""
    reason = _reason(reason)
    with context.database.transaction() as connection:
        found = job_named(connection, job)
        _only(found, "offered", "waiting", what="declined")
        connection.execute("DELETE FROM approvals WHERE job = ?", (job,))
        set_decision(connection, job, context.party, "declined", by, reason)
        tell_others(connection, context.party, found.plan, JobDecision(job, found.digest, "declined", by, reason))
        end_job(connection, job, "declined", f"{context.party}: {reason}")
        note(connection, by, "declined a job", reason, job)


def pause(context: Context, by: str, job: str) -> None:
    """Let a job pause at all parties; what is done so far is kept."""
    with context.database.transaction() as connection:
        found = job_named(connection, job)
        _only(found, "waiting", "running", what="paused")
        occurrence = max(found.occurrence, 1)
        attempt = latest_attempt(found, occurrence)
        connection.execute(
            "INSERT INTO pauses (job, occurrence, attempt, party, by, at) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (job, occurrence, attempt, context.party, by, now()),
        )
        tell_others(connection, context.party, found.plan, JobPause(job, occurrence, attempt, by))
        note(connection, by, "paused a job", found.offer.purpose, job)


def proceed(context: Context, by: str, job: str) -> None:
    """Let a job that was paused, or failed and can be resumed, go on at all parties."""
    with context.database.transaction() as connection:
        found = job_named(connection, job)
        _only(found, "paused", "failed", what="continued")
        occurrence = max(found.occurrence, 1)
        attempt = latest_attempt(found, occurrence) + 1
        if not is_paused(found, occurrence) and any(
            not run.resumable for run in found.runs_in(occurrence).values() if run.state == "failed"
        ):
            raise RefusedError("this run cannot be resumed: correct the cause, then offer the job again")
        set_run(connection, context.party, found, occurrence, attempt, "ready")
        note(connection, by, "let a job go on", found.offer.purpose, job)


def cancel(context: Context, by: str, job: str, reason: str, role: Role) -> None:
    """End a job for all; who only drafts jobs may cancel own ones."""
    reason = _reason(reason)
    with context.database.transaction() as connection:
        found = job_named(connection, job)
        own = found.offer.drafter == context.party and found.offer.drafted_by == by
        if not own and not may(role, "approver"):
            raise RefusedError("an analyst cancels only jobs that they have drafted; ask an approver")
        _only(found, "offered", "waiting", "running", "paused", "failed", what="cancelled")
        end_job(connection, job, "cancelled", f"{by} at {context.party}: {reason}")
        tell_others(connection, context.party, found.plan, JobCancelled(job, by, reason))
        note(connection, by, "cancelled a job", reason, job)


def _offer(context: Context, by: str, job: str, purpose: str, plan: str, days: int, every: str, until: str) -> Offer:
    created = datetime.now(UTC)
    expires = created + timedelta(days=days)
    text = written(read_plan(plan))
    return Offer(job, context.party, by, purpose.strip(), text, _text(created), _text(expires), every, until)


def _only(job: Job, *states: str, what: str) -> None:
    if (state := state_of(job)) not in states:
        raise InputError(f"a job that is {state} cannot be {what}")


def _reason(reason: str) -> str:
    if not reason.strip():
        raise InputError("a reason is needed: the other parties are told")
    return spoken(reason.strip()[:_MOST_REASON])


def _text(when: datetime) -> str:
    return when.isoformat(timespec="seconds")
