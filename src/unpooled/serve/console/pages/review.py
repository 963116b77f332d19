"""An approver's acts: looking at what a job would mean, and deciding."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import UnpooledError
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.pages.deciding import REVIEWED, deciding, query_of
from unpooled.serve.console.pages.job import job_page
from unpooled.serve.console.pages.results import framed
from unpooled.serve.console.security import Approver, Fields
from unpooled.serve.jobs import acts, choosing, views
from unpooled.serve.jobs.records import Job
from unpooled.serve.reviewing.review import What

router = APIRouter()


@router.post("/jobs/{job}/review")
def review(request: Request, console: Here, session: Approver, fields: Fields, job: str) -> Response:
    """Begin the dry run, or the attacks, with what was chosen."""
    found = _undecided(console, job)
    answers = {key: value for key, value in fields.items() if isinstance(value, str)}
    what: What = "attacks" if "attacks" in answers else "dry-run"
    try:
        choices = choosing.choices_of(answers)
        choosing.check_complete(console.context, found, choices)
        console.service.reviewer.request(found, choices, what, again="again" in answers)
    except UnpooledError as error:
        typed = {key: value for key, value in answers.items() if key != REVIEWED}
        kept = deciding(console, found, typed)
        return job_page(request, console, session, job, problem=f"{_sentence(error)}", review=kept)
    return RedirectResponse(f"/jobs/{job}?{query_of(answers)}#review", 303)


@router.get("/jobs/{job}/attacks")
def attacks(request: Request, console: Here, _session: Approver, job: str) -> Response:
    """The page about attacks, with the choices that the address has."""
    found = console.job(job)
    choices = choosing.choices_of(dict(request.query_params))
    path = console.service.reviewer.page(found, choices)
    if not path.is_file():
        raise HTTPException(404)
    return framed(path)


@router.post("/jobs/{job}/approve")
def approve(request: Request, console: Here, session: Approver, fields: Fields, job: str) -> Response:
    found = _undecided(console, job)
    answers = {key: value for key, value in fields.items() if isinstance(value, str)}
    agreed = frozenset(one.key for one in choosing.consents(found, console.party) if answers.get(f"agree-{one.key}"))
    try:
        choices = choosing.choices_of(answers, agreed)
        choosing.check_complete(console.context, found, choices)
        choosing.check_agreed(found, console.party, choices)
        enough = acts.approve(console.context, session.person, job, choices)
    except UnpooledError as error:
        kept = deciding(console, found, answers | {REVIEWED: "1"}, agreed)
        problem = f"The job was not approved: {error}."
        return job_page(request, console, session, job, problem=problem, review=kept)
    console.wake()
    return RedirectResponse(f"/jobs/{job}?done={'approved' if enough else 'more'}", 303)


@router.post("/jobs/{job}/decline")
def decline(
    request: Request, console: Here, session: Approver, job: str, reason: Annotated[str, Form()] = ""
) -> Response:
    console.job(job)
    try:
        acts.decline(console.context, session.person, job, reason)
    except UnpooledError as error:
        return job_page(request, console, session, job, problem=f"The job was not declined: {error}.")
    console.wake()
    return RedirectResponse(f"/jobs/{job}?done=declined", 303)


def _undecided(console: Console, job: str) -> Job:
    found = console.job(job)
    if not views.needs_decision(found, console.party):
        raise HTTPException(400, "This job does not wait for this party’s decision.")
    return found


def _sentence(error: UnpooledError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
