"""The first page: what there is, and what to do next."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from unpooled.serve.accounts import people
from unpooled.serve.accounts.people import MEANINGS
from unpooled.serve.console.console import Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Viewer

router = APIRouter()


@router.get("/")
def start(request: Request, console: Here, session: Viewer) -> HTMLResponse:
    alone = len(people.everybody(console.database)) == 1
    return page(request, "start", alone=alone, meaning=MEANINGS[session.role])
