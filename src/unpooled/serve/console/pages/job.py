"""One job: everything about it, kept up to date while somebody looks, and what people do with it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from unpooled.errors import UnpooledError
from unpooled.serve.accounts.sessions import Session
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.live import parts_of, stream, version_of
from unpooled.serve.console.pages.deciding import Deciding, deciding
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Analyst, Viewer
from unpooled.serve.console.static import address
from unpooled.serve.jobs import acts, drafting, views
from unpooled.serve.jobs.views import Looker
from unpooled.serve.running import results

router = APIRouter()

_DONE = {
    "drafted": "The draft was saved. Nobody outside this organisation sees it until it is offered.",
    "changed": "The draft was changed.",
    "offered": "The job is on its way to the other parties. It needs the approval of each, also of this one.",
    "approved": "This party has approved the job.",
    "more": "Your approval was noted. Another person of this party must approve it too.",
    "declined": "The job was declined, and the other parties are told why.",
    "paused": "The job pauses at all parties.",
    "proceeded": "The job goes on.",
    "cancelled": "The job was cancelled for all parties.",
}


@router.get("/jobs/{job}")
def show(request: Request, console: Here, session: Viewer, job: str, done: str = "") -> Response:
    console.job(job)
    return job_page(request, console, session, job, done=_DONE.get(done, ""))


@router.get("/jobs/{job}/events")
async def events(console: Here, session: Viewer, job: str, version: str = "") -> Response:
    await run_in_threadpool(console.job, job)
    return StreamingResponse(stream(console, job, session.person, version), media_type="text/event-stream")


@router.post("/jobs/{job}/pause")
def pause(request: Request, console: Here, session: Analyst, job: str) -> Response:
    console.job(job)
    try:
        acts.pause(console.context, session.person, job)
    except UnpooledError as error:
        return job_page(request, console, session, job, problem=f"The job was not paused: {error}.")
    return _done(console, job, "paused")


@router.post("/jobs/{job}/proceed")
def proceed(request: Request, console: Here, session: Analyst, job: str) -> Response:
    console.job(job)
    try:
        acts.proceed(console.context, session.person, job)
    except UnpooledError as error:
        return job_page(request, console, session, job, problem=f"The job does not go on: {error}.")
    return _done(console, job, "proceeded")


@router.post("/jobs/{job}/cancel")
def cancel(
    request: Request, console: Here, session: Analyst, job: str, reason: Annotated[str, Form()] = ""
) -> Response:
    console.job(job)
    try:
        acts.cancel(console.context, session.person, job, reason, session.role)
    except UnpooledError as error:
        return job_page(request, console, session, job, problem=f"The job was not cancelled: {error}.")
    return _done(console, job, "cancelled")


def job_page(
    request: Request,
    console: Console,
    session: Session,
    job: str,
    *,
    problem: str = "",
    done: str = "",
    review: Deciding | None = None,
) -> Response:
    """The page about a job, with the review if it waits for this party; `review` keeps what was typed."""
    context, seen = console.context, console.watching.look(job, fresh=True)
    looker = Looker(session.person, session.role)
    may_do = views.acts_for(seen.job, console.party, looker)
    if "decide" in may_do and review is None:
        review = deciding(console, seen.job, request.query_params)
    messages, ledger_problem = results.messages_of(seen.home) if seen.state != "running" else ((), "")
    found_files = results.result_files(context, seen.job)
    live = not seen.job.ended and seen.state != "draft"
    return page(
        request,
        "job",
        400 if problem else 200,
        job=seen.job,
        state=seen.state,
        parts=parts_of(seen, console.party),
        may_do=may_do,
        review=review if "decide" in may_do else None,
        undecided=views.needs_decision(seen.job, console.party),
        approvals=views.approvals_of(context, job),
        needed=context.settings.approvals,
        figures=results.figures_of(seen.job.plan, seen.home),
        files=[(path.name, results.FILES[path.name], path.stat().st_size) for path in found_files],
        report=results.has_report(seen.home),
        messages=messages,
        ledger_problem=ledger_problem,
        settings=drafting.plan_settings(seen.job.plan),
        live=f"/jobs/{job}/events?version={version_of(seen, console.party)}" if live else "",
        script=address("live.js"),
        reviewing=review is not None and review.state == "working",
        problem=problem,
        done=done,
    )


def _done(console: Console, job: str, what: str) -> Response:
    console.wake()
    return RedirectResponse(f"/jobs/{job}?done={what}", 303)
