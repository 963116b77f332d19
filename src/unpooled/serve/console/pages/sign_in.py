"""Signing in and out."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.serve.accounts import people, sessions
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.limits import network_of
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Viewer, page_here, remove_cookie, session_of, set_cookie

router = APIRouter()

WRONG = "The name or the password is not right, or the account is disabled."


@router.get("/sign-in")
def sign_in_form(request: Request, console: Here, next: str = "/") -> Response:
    return _form(request, console, page_here(next))


@router.post("/sign-in")
def sign_in(
    request: Request,
    console: Here,
    name: Annotated[str, Form(max_length=people.LONGEST_NAME)],
    password: Annotated[str, Form(max_length=people.LONGEST_PASSWORD)],
    next: Annotated[str, Form()] = "/",
) -> Response:
    wanted = page_here(next)
    if wait := too_often(request, console, name):
        problem = f"There were too many attempts to sign in. Wait {-(-wait // 60)} minutes, then try again."
        response = _form(request, console, wanted, 429, problem)
        response.headers["Retry-After"] = str(wait)
        return response
    person = people.check_password(console.database, console.hasher, name, password)
    if person is None:
        return _form(request, console, wanted, 403, WRONG)
    came_in(request, console, name)
    if earlier := session_of(request):
        sessions.end(console.database, earlier)
    response = RedirectResponse(wanted, 303)
    set_cookie(response, console, sessions.begin(console.database, person))
    return response


@router.post("/sign-out")
def sign_out(console: Here, session: Viewer) -> Response:
    sessions.end(console.database, session)
    response = RedirectResponse("/sign-in", 303)
    remove_cookie(response, console)
    return response


def too_often(request: Request, console: Console, name: str) -> int:
    """How many seconds to wait before somebody may try another password."""
    return console.attempts_from.take(address_of(request)) or console.attempts.take(name.casefold())


def came_in(request: Request, console: Console, name: str) -> None:
    """Only attempts that failed count."""
    console.attempts_from.give_back(address_of(request))
    console.attempts.give_back(name.casefold())


def address_of(request: Request) -> str:
    """What stands for the caller where attempts are counted."""
    return network_of(request.client.host if request.client else None)


def _form(request: Request, console: Console, wanted: str, status: int = 200, problem: str = "") -> Response:
    provider = urlsplit(console.sign_in.issuer).netloc if console.sign_in else ""
    return page(request, "sign_in", status, wanted=wanted, problem=problem, set_up=console.set_up, provider=provider)
