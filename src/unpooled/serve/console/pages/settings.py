"""The service's settings, for administrators: some are changed here, the others in the file."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import UnpooledError
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator
from unpooled.serve.live_settings import LIVE, change_settings, waiting_for_restart
from unpooled.serve.settings import ServiceSettings

router = APIRouter()

Number = Annotated[str, Form()]


@router.get("/settings")
def show(request: Request, console: Here, _session: Administrator, done: str = "") -> Response:
    return _page(request, console, done="The settings were changed, and hold from now on." if done else "")


@router.post("/settings")
def change(
    request: Request,
    console: Here,
    session: Administrator,
    approvals: Number,
    runs_at_once: Number,
    automatic_resumes: Number,
    purge_after_days: Number,
) -> Response:
    texts = dict(zip(LIVE, (approvals, runs_at_once, automatic_resumes, purge_after_days), strict=True))
    wanted = {key: int(text) if text.strip().isdecimal() else text for key, text in texts.items()}
    try:
        console.settings = change_settings(console.context, session.person, wanted)
    except UnpooledError as error:
        return _page(request, console, f"Nothing was changed: {error}.", given=texts)
    console.wake()
    return RedirectResponse("/settings?done=changed", 303)


def _page(
    request: Request, console: Console, problem: str = "", done: str = "", given: dict[str, str] | None = None
) -> Response:
    context = console.context
    return page(
        request,
        "settings",
        400 if problem else 200,
        live=[(key, *_said(key), (given or {}).get(key, getattr(context.settings, key))) for key in LIVE],
        fixed=[(key, *_said(key), _shown(getattr(context.settings, key))) for key in _FIXED],
        file=context.folder.settings,
        waiting=waiting_for_restart(context) if context.folder.settings.exists() else [],
        problem=problem,
        done=done,
    )


_FIXED = [key for key in ServiceSettings.model_fields if key not in LIVE]


def _said(key: str) -> tuple[str, str]:
    return key.replace("_", " ").capitalize(), ServiceSettings.model_fields[key].description or ""


def _shown(value: Any) -> str:
    """A setting in words; of signing in, nothing but that it is set up, and where."""
    if value is None or value == ():
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if hasattr(value, "issuer"):
        return str(value.issuer)
    return ", ".join(value) if isinstance(value, tuple) else str(value)
