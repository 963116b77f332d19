"""Jobs by the JSON interface: the same acts as in the console."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import FileResponse

from unpooled.serve.accounts.tokens import Bearer
from unpooled.serve.console.console import Here
from unpooled.serve.console.interface.models import (
    Approval,
    Draft,
    Files,
    JobShown,
    Reason,
    ReviewShown,
    job_shown,
    review_shown,
)
from unpooled.serve.console.security import NeedsToken
from unpooled.serve.context import Context
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.life import State, state_of
from unpooled.serve.jobs.records import job_named, jobs_in
from unpooled.serve.reviewing.review import What
from unpooled.serve.running.results import hand_out, result_files

router = APIRouter(prefix="/api")

Viewer = Annotated[Bearer, Depends(NeedsToken("viewer"))]
Analyst = Annotated[Bearer, Depends(NeedsToken("analyst"))]
Approver = Annotated[Bearer, Depends(NeedsToken("approver"))]


@router.get("/jobs")
def list_jobs(console: Here, _bearer: Viewer, state: State | None = None, most: int = 100) -> list[JobShown]:
    """Jobs, the latest first."""
    with console.database.reading() as connection:
        jobs = jobs_in(connection, most=max(1, min(most, 500)))
    return [job_shown(job) for job in jobs if state is None or state_of(job) == state]


@router.post("/jobs", status_code=201)
def draft_job(console: Here, bearer: Analyst, draft: Draft) -> JobShown:
    """Draft a job; nobody else sees it until it is offered."""
    job = acts.draft(
        console.service.context,
        bearer.person,
        purpose=draft.purpose,
        plan=draft.plan,
        days=draft.days,
        every=draft.every,
        until=draft.until,
    )
    return _shown(console.service.context, job)


@router.get("/jobs/{job}")
def show_job(console: Here, _bearer: Viewer, job: str) -> JobShown:
    """One job."""
    return _shown(console.service.context, job)


@router.delete("/jobs/{job}", status_code=204)
def remove_draft(console: Here, bearer: Analyst, job: str) -> None:
    """Remove a draft."""
    acts.remove_draft(console.service.context, bearer.person, job)


@router.post("/jobs/{job}/offer")
def offer_job(console: Here, bearer: Analyst, job: str) -> JobShown:
    """Offer a draft to the other parties."""
    acts.offer(console.service.context, bearer.person, job)
    return _changed(console, job)


@router.post("/jobs/{job}/review/{what}")
def review_job(console: Here, _bearer: Approver, job: str, what: What, approval: Approval) -> ReviewShown:
    """What would leave this party, or what others could infer, with these choices; ask again until it is done."""
    with console.database.reading() as connection:
        found = job_named(connection, job)
    console.service.reviewer.request(found, approval.choices, what)
    return review_shown(console.service.reviewer.review(found, approval.choices, what))


@router.post("/jobs/{job}/approve")
def approve_job(console: Here, bearer: Approver, job: str, approval: Approval) -> JobShown:
    """Approve a job with these choices."""
    acts.approve(console.service.context, bearer.person, job, approval.choices)
    return _changed(console, job)


@router.post("/jobs/{job}/decline")
def decline_job(console: Here, bearer: Approver, job: str, given: Reason) -> JobShown:
    """Decline a job that has not begun."""
    acts.decline(console.service.context, bearer.person, job, given.reason)
    return _changed(console, job)


@router.post("/jobs/{job}/pause")
def pause_job(console: Here, bearer: Analyst, job: str) -> JobShown:
    """Let a job pause at all parties."""
    acts.pause(console.service.context, bearer.person, job)
    return _changed(console, job)


@router.post("/jobs/{job}/continue")
def continue_job(console: Here, bearer: Analyst, job: str) -> JobShown:
    """Let a job go on that was paused, or failed and can be resumed."""
    acts.proceed(console.service.context, bearer.person, job)
    return _changed(console, job)


@router.post("/jobs/{job}/cancel")
def cancel_job(console: Here, bearer: Analyst, job: str, given: Reason) -> JobShown:
    """End a job for all parties."""
    acts.cancel(console.service.context, bearer.person, job, given.reason, bearer.role)
    return _changed(console, job)


@router.get("/jobs/{job}/files")
def list_files(console: Here, _bearer: Viewer, job: str, occurrence: int = 0) -> Files:
    """The result files of a job's latest run, or of an earlier one."""
    context = console.service.context
    with context.database.reading() as connection:
        found = job_named(connection, job)
    return Files(files=[path.name for path in result_files(context, found, occurrence)])


@router.get("/jobs/{job}/files/{name}", response_class=FileResponse)
def fetch_file(console: Here, bearer: Viewer, job: str, name: str, occurrence: int = 0) -> FileResponse:
    """One of these files."""
    context = console.service.context
    with context.database.reading() as connection:
        found = job_named(connection, job)
    path = hand_out(context, bearer.person, found, name, occurrence)
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def _changed(console: Here, job: str) -> JobShown:
    console.service.wake()
    return _shown(console.service.context, job)


def _shown(context: Context, job: str) -> JobShown:
    with context.database.reading() as connection:
        return job_shown(job_named(connection, job))
