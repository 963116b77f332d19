"""How far a job is, and what this party does next: decided from what is known, without side effects.

An attempt starts at all parties once each has said that it is ready for it. When it ends anywhere without a result,
every party gets ready for the next one. So a party that was away for hours finds the others waiting, and none of them
counts attempts meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from unpooled.serve.jobs.offer import PERIODS, moment
from unpooled.serve.jobs.records import Job, PartyRun

State = Literal[
    "draft", "offered", "waiting", "running", "paused", "failed", "finished", "declined", "cancelled", "expired"
]
"""`waiting`: everybody has approved, and no attempt is running; `failed` may be resumed unless the job has ended."""

STATES: dict[State, str] = {
    "draft": "draft, not yet offered",
    "offered": "waiting for approvals",
    "waiting": "approved, waiting to start or to go on",
    "running": "running",
    "paused": "paused",
    "failed": "failed",
    "finished": "finished",
    "declined": "declined",
    "cancelled": "cancelled",
    "expired": "expired",
}


@dataclass(frozen=True)
class Step:
    """What this party does next.

    `ready`: say that it is ready for an attempt; `start`: start it; `stop`: end its process; `lost`: see what became of
    a process that is gone; `finish`, `fail`, `expire`: end the job.
    """

    what: Literal["nothing", "ready", "start", "stop", "lost", "finish", "fail", "expire"]
    occurrence: int = 0
    attempt: int = 0


NOTHING = Step("nothing")


def state_of(job: Job) -> State:
    """How far a job is, as this party sees it."""
    if job.ended:
        return job.ended
    if not job.offered:
        return "draft"
    if not all_approved(job) and not job.runs:
        return "offered"
    latest = latest_attempt(job, job.occurrence)
    states = {run.state for run in job.runs_in(job.occurrence).values() if run.attempt == latest}
    if is_paused(job, max(job.occurrence, 1)):
        return "paused"
    if "running" in states:
        return "running"
    return "failed" if "failed" in states else "waiting"


def all_approved(job: Job) -> bool:
    """Whether every party's latest decision is to take part."""
    return all(
        (decision := job.decisions.get(party)) is not None and decision.choice == "approved"
        for party in job.plan.parties
    )


def is_paused(job: Job, occurrence: int) -> bool:
    """Whether the latest attempt was to pause, and nobody is ready for another."""
    return job.pauses.get(occurrence, -1) >= latest_attempt(job, occurrence)


def latest_attempt(job: Job, occurrence: int) -> int:
    """The latest attempt that any party is or was ready for."""
    return max((run.attempt for run in job.runs_in(occurrence).values()), default=0)


def due_occurrence(job: Job, now: datetime) -> int:
    """Which run of the job is due; a job that is not repeated has one."""
    period = PERIODS.get(job.offer.every)  # type: ignore[call-overload]
    if period is None:
        return 1
    return 1 + max(0, int((now - moment(job.offer.created)) / period))


def next_step(job: Job, party: str, now: datetime, *, alive: bool, room: bool, resumes: int) -> Step:
    """What a party does next.

    `alive`: its process of this job is there; `room`: as drafter, it may begin another run; `resumes`: how often it
    gets ready again by itself.
    """
    if job.ended or not job.offered:
        return NOTHING
    running = next((run for (_, whose), run in job.runs.items() if whose == party and run.state == "running"), None)
    if running:
        return _while_running(job, running, alive=alive)
    occurrence = job.occurrence
    goes_on = occurrence > 0 and not _is_done(job, occurrence)
    if goes_on and not (due_occurrence(job, now) > occurrence and not _anybody_at_work(job, occurrence)):
        return _continued(job, party, occurrence, now, resumes=resumes)
    return _next_occurrence(job, party, now, room=room)


def _while_running(job: Job, running: PartyRun, *, alive: bool) -> Step:
    """A process is stopped if the attempt was to pause, or others have gone on to a later one."""
    number, attempt = running.occurrence, running.attempt
    if not alive:
        return Step("lost", number, attempt)
    others_failed = any(
        run.state == "failed" and run.attempt >= attempt and run.party != running.party
        for run in job.runs_in(number).values()
    )
    stale = others_failed or job.occurrence > number or latest_attempt(job, number) > attempt
    stale = stale or is_paused(job, number) or not all_approved(job)
    return Step("stop", number, attempt) if stale else NOTHING


def _is_done(job: Job, occurrence: int) -> bool:
    """Whether every party has finished, or one cannot go on."""
    runs = job.runs_in(occurrence)
    finished = len(runs) == len(job.plan.parties) and all(run.state == "finished" for run in runs.values())
    return finished or any(run.state == "failed" and not run.resumable for run in runs.values())


def _continued(job: Job, party: str, occurrence: int, now: datetime, *, resumes: int) -> Step:
    mine = job.runs.get((occurrence, party))
    if not _may_start(job, now):
        return NOTHING if _anybody_at_work(job, occurrence) else Step("expire")
    if is_paused(job, occurrence) or not all_approved(job) or occurrence > due_occurrence(job, now):
        return NOTHING
    latest = latest_attempt(job, occurrence)
    if mine is None or mine.attempt < latest:
        return Step("ready", occurrence, latest)
    if mine.state == "ready" and _all_ready(job, occurrence, mine.attempt):
        return Step("start", occurrence, mine.attempt)
    if mine.state == "failed" and mine.attempt <= resumes:
        return Step("ready", occurrence, mine.attempt + 1)
    return NOTHING


def _all_ready(job: Job, occurrence: int, attempt: int) -> bool:
    runs = job.runs_in(occurrence)
    return all(party in runs and runs[party].attempt >= attempt for party in job.plan.parties)


def _next_occurrence(job: Job, party: str, now: datetime, *, room: bool) -> Step:
    """The job's end, or its first or next run: the drafter gets ready for it, and the others follow."""
    occurrence = job.occurrence
    if occurrence and not job.offer.every:
        failed = any(run.state == "failed" for run in job.runs_in(occurrence).values())
        return Step("fail" if failed else "finish")
    if not _may_start(job, now):
        return Step("finish") if occurrence else Step("expire")
    due = due_occurrence(job, now)
    if due <= occurrence or not all_approved(job) or is_paused(job, due):
        return NOTHING
    return Step("ready", due, 1) if party == job.offer.drafter and room else NOTHING


def _may_start(job: Job, now: datetime) -> bool:
    """Whether the time for starting has not passed."""
    return now < moment(job.offer.until if job.offer.every and job.runs else job.offer.expires)


def _anybody_at_work(job: Job, occurrence: int) -> bool:
    return any(run.state == "running" for run in job.runs_in(occurrence).values())
