"""Pages from templates: the frame with its navigation, and everything in it escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from unpooled.drawing.html import render
from unpooled.serve.accounts.people import Role
from unpooled.serve.accounts.sessions import Session
from unpooled.serve.console import static
from unpooled.serve.console.console import Console

_TEMPLATES = Path(__file__).parent / "templates"
NAVIGATION: tuple[tuple[str, str, Role], ...] = (
    ("/", "Jobs", "viewer"),
    ("/inbox", "Inbox", "viewer"),
    ("/people", "People", "administrator"),
    ("/audit-log", "Audit log", "approver"),
    ("/interface", "JSON interface", "viewer"),
    ("/account", "Your account", "viewer"),
)
"""Address, title and role of what every page links to."""


def part(name: str, **values: Any) -> Markup:
    """A part of a page, the same for everybody who sees it."""
    return Markup(render(_TEMPLATES / f"{name}.html", **values))  # noqa: S704


def page(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page made by a template, with the navigation of whoever is signed in."""
    console: Console = request.app.state.console
    session: Session | None = getattr(request.state, "session", None)
    text = render(
        _TEMPLATES / f"{name}.html",
        party=console.party,
        session=session,
        navigation=[entry for entry in NAVIGATION if session and session.may(entry[2])],
        path=request.url.path,
        icon=static.address("icon.svg"),
        styles=[static.address(file) for file in ("style.css", "console.css", "jobs.css")],
        **values,
    )
    return HTMLResponse(text, status)
