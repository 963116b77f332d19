"""The list of jobs, which is the first page, and the inbox."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from unpooled.serve.accounts.people import MEANINGS
from unpooled.serve.console.console import Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Viewer
from unpooled.serve.jobs import views
from unpooled.serve.jobs.life import STATES
from unpooled.serve.jobs.views import Looker

router = APIRouter()

_DONE = {"removed": "The draft was removed."}


@router.get("/")
def every_job(request: Request, console: Here, session: Viewer, state: str = "", done: str = "") -> Response:
    context = console.context
    only = state if state in STATES else ""
    counts = views.count_by_state(context)
    return page(
        request,
        "jobs",
        lines=views.job_lines(context, Looker(session.person, session.role), only),
        counts=counts,
        only=only,
        states=STATES,
        steps=views.first_steps(context) if not counts else [],
        meaning=MEANINGS[session.role],
        done=_DONE.get(done, ""),
    )


@router.get("/inbox")
def inbox(request: Request, console: Here, _session: Viewer) -> Response:
    return page(request, "inbox", jobs=views.inbox(console.context))
