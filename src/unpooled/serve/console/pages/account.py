"""A person's own account: password, sessions, tokens for programs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import UnpooledError
from unpooled.serve.accounts import people, sessions, tokens
from unpooled.serve.accounts.people import MEANINGS, ROLES
from unpooled.serve.accounts.sessions import Session
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.pages.sign_in import came_in, too_often
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Viewer, set_cookie
from unpooled.serve.state.database import now

router = APIRouter()

_DONE = {
    "password": "Your password was changed. You were signed out everywhere else.",
    "revoked": "The token was revoked.",
    "others": "You were signed out everywhere else.",
}


@router.get("/account")
def account(request: Request, console: Here, session: Viewer, done: str = "") -> Response:
    return _page(request, console, session, done=_DONE.get(done, ""))


@router.post("/account/password")
def change_password(
    request: Request,
    console: Here,
    session: Viewer,
    old: Annotated[str, Form()],
    new: Annotated[str, Form()],
    again: Annotated[str, Form()],
) -> Response:
    if wait := too_often(request, console, session.person):
        raise HTTPException(429, f"There were too many attempts: wait {wait} seconds.", {"Retry-After": str(wait)})
    if new != again:
        return _page(request, console, session, 400, "The two new passwords differ.")
    try:
        people.change_own_password(console.database, console.hasher, session.person, old, new)
    except UnpooledError as error:
        return _page(request, console, session, 400, f"Your password was not changed: {error}.")
    came_in(request, console, session.person)
    person = people.find(console.database, session.person)
    assert person is not None, "accounts are never removed"
    response = RedirectResponse("/account?done=password", 303)
    set_cookie(response, console, sessions.begin(console.database, person))
    return response


@router.post("/account/sessions/end-others")
def end_other_sessions(console: Here, session: Viewer) -> Response:
    sessions.end_others(console.database, session)
    return RedirectResponse("/account?done=others", 303)


@router.post("/account/tokens")
def make_token(
    request: Request,
    console: Here,
    session: Viewer,
    label: Annotated[str, Form()],
    role: Annotated[str, Form()],
    days: Annotated[int, Form()],
) -> Response:
    try:
        made = tokens.make(console.database, session.person, label, people.role_named(role), days)
    except UnpooledError as error:
        return _page(request, console, session, 400, f"No token was made: {error}.")
    return _page(request, console, session, made=made)


@router.post("/account/tokens/{number}/revoke")
def revoke_token(console: Here, session: Viewer, number: int) -> Response:
    tokens.revoke(console.database, session.person, number)
    return RedirectResponse("/account?done=revoked", 303)


def _page(
    request: Request,
    console: Console,
    session: Session,
    status: int = 200,
    problem: str = "",
    done: str = "",
    made: str = "",
) -> Response:
    person = people.find(console.database, session.person)
    return page(
        request,
        "account",
        status,
        person=person,
        meaning=MEANINGS[session.role],
        roles=[role for role in ROLES if session.may(role)],
        tokens=tokens.tokens_of(console.database, session.person),
        browsers=sessions.count(console.database, session.person),
        now=now(),
        shortest=people.SHORTEST_PASSWORD,
        most_days=tokens.LONGEST_DAYS,
        problem=problem,
        done=done,
        made=made,
    )
