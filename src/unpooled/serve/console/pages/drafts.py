"""Drafting a job: choosing its kind, filling in a form, changing, removing and offering the draft."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData

from unpooled.errors import UnpooledError
from unpooled.jobs.kinds import KINDS, kind_named
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Analyst, Fields
from unpooled.serve.jobs import acts, drafting
from unpooled.serve.jobs.drafting import ENGINES, Draft
from unpooled.serve.jobs.life import state_of
from unpooled.serve.jobs.offer import PERIODS
from unpooled.serve.jobs.records import Job
from unpooled.serve.peers import peers_in

router = APIRouter()


@router.get("/jobs/new")
def kinds(request: Request, console: Here, _session: Analyst) -> Response:
    return page(request, "job_kinds", kinds=KINDS, peers=peers_in(console.database))


@router.get("/jobs/new/{kind}")
def empty(request: Request, console: Here, _session: Analyst, kind: str) -> Response:
    _known(kind)
    return _form(request, console, drafting.empty_draft(console.context, kind))


@router.post("/jobs/new/{kind}")
def add(request: Request, console: Here, session: Analyst, fields: Fields, kind: str) -> Response:
    _known(kind)
    draft = _filled_in(kind, fields)
    try:
        job = drafting.save(console.context, session.person, draft)
    except UnpooledError as error:
        return _form(request, console, draft, problem=f"The draft was not saved: {error}.")
    return RedirectResponse(f"/jobs/{job}?done=drafted", 303)


@router.get("/jobs/{job}/change")
def change(request: Request, console: Here, _session: Analyst, job: str) -> Response:
    return _form(request, console, drafting.draft_of(_draft(console, job)), job)


@router.post("/jobs/{job}/change")
def save(request: Request, console: Here, session: Analyst, fields: Fields, job: str) -> Response:
    draft = _filled_in(_draft(console, job).plan.kind, fields)
    try:
        drafting.save(console.context, session.person, draft, job)
    except UnpooledError as error:
        return _form(request, console, draft, job, f"The draft was not changed: {error}.")
    return RedirectResponse(f"/jobs/{job}?done=changed", 303)


@router.post("/jobs/{job}/remove")
def remove(console: Here, session: Analyst, job: str) -> Response:
    acts.remove_draft(console.context, session.person, _draft(console, job).id)
    return RedirectResponse("/?done=removed", 303)


@router.post("/jobs/{job}/offer")
def offer(console: Here, session: Analyst, job: str) -> Response:
    acts.offer(console.context, session.person, _draft(console, job).id)
    console.wake()
    return RedirectResponse(f"/jobs/{job}?done=offered", 303)


def _known(kind: str) -> None:
    if kind not in {one.name for one in KINDS}:
        raise HTTPException(404)


def _draft(console: Console, job: str) -> Job:
    found = console.job(job)
    if state_of(found) != "draft":
        raise HTTPException(400, "This job was offered already, so it does not change any more.")
    return found


def _filled_in(kind: str, fields: FormData) -> Draft:
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    roles = {name.removeprefix("role-"): value for name, value in texts.items() if name.startswith("role-") and value}
    named = ("purpose", "engine", "settings", "days", "every", "until")
    return Draft(kind, roles=roles, **{name: texts.get(name, "").replace("\r\n", "\n") for name in named})


def _form(request: Request, console: Console, draft: Draft, job: str = "", problem: str = "") -> Response:
    peers = peers_in(console.database)
    return page(
        request,
        "job_draft",
        400 if problem else 200,
        draft=draft,
        kind=kind_named(draft.kind),
        job=job,
        peers=peers,
        members=[(console.party, None), *((peer.name, peer.address) for peer in peers)],
        engines=ENGINES,
        periods=list(PERIODS),
        problem=problem,
    )
