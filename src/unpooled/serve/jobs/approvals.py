"""This party's own approval of a job: it holds as long as neither the offer nor the party's settings have changed."""

from __future__ import annotations

import sqlite3

from unpooled.errors import UnpooledError
from unpooled.jobs.private import Private
from unpooled.serve.context import Context
from unpooled.serve.jobs.changes import set_decision, tell_others
from unpooled.serve.jobs.records import Job, jobs_in
from unpooled.serve.messages import JobDecision
from unpooled.serve.state.audit_log import note
from unpooled.serve.tables import Choices, digest_of_settings, private_of


def approved_settings(connection: sqlite3.Connection, context: Context, job: Job) -> Private | str:
    """The settings that were approved, if they still hold; otherwise why they do not."""
    rows = connection.execute("SELECT * FROM approvals WHERE job = ? ORDER BY at", (job.id,)).fetchall()
    if len(rows) < context.settings.approvals:
        return "it needs the approval of more people"
    if job.offer.digest != job.digest:
        return "the offer was altered after it was approved"
    try:
        private = private_of(connection, context.folder, Choices.model_validate_json(rows[-1]["settings"]))
    except (UnpooledError, ValueError) as error:
        return f"the settings cannot be used any more: {error}"
    if any(row["settings_digest"] != digest_of_settings(private) for row in rows):
        return "the table's settings have changed since"
    return private


def jobs_with_table(connection: sqlite3.Connection, table: str) -> list[Job]:
    """The open jobs that somebody here has approved with this table: the approvals lapse when its settings change."""
    query = "SELECT DISTINCT job FROM approvals WHERE json_extract(settings, '$.table') = ?"
    using = {row["job"] for row in connection.execute(query, (table,))}
    return [job for job in jobs_in(connection, only_open=True) if job.id in using]


def lapse(connection: sqlite3.Connection, context: Context, job: Job, why: str) -> None:
    """Withdraw this party's approval, because it was for something else; the job waits for a new one."""
    connection.execute("DELETE FROM approvals WHERE job = ?", (job.id,))
    set_decision(connection, job.id, context.party, "lapsed", "service", why)
    told = JobDecision(job.id, job.digest, "lapsed", "service", "its approval does not hold any more")
    tell_others(connection, context.party, job.plan, told)
    note(connection, "service", "found that an approval does not hold any more", why, job.id)
