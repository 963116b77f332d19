"""The people who may use this service, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import UnpooledError
from unpooled.serve.accounts import people
from unpooled.serve.accounts.people import MEANINGS
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator

router = APIRouter()

_DONE = {
    "added": "The account was added. Tell the person, who can change the password under “Your account”.",
    "changed": "The account was changed, and the person was signed out.",
}
Name = Annotated[str, Form()]


@router.get("/people")
def everybody(request: Request, console: Here, _session: Administrator, done: str = "") -> Response:
    return _page(request, console, done=_DONE.get(done, ""))


@router.post("/people")
def add(
    request: Request,
    console: Here,
    session: Administrator,
    name: Name,
    role: Annotated[str, Form()],
    password: Annotated[str, Form()] = "",
) -> Response:
    try:
        by_provider = console.sign_in is not None and not password
        secret = None if by_provider else password
        kind = people.role_named(role)
        people.add(console.database, console.hasher, session.person, name.strip(), kind, secret)
    except UnpooledError as error:
        return _page(request, console, 400, f"No account was added: {error}.")
    return RedirectResponse("/people?done=added", 303)


@router.post("/people/role")
def change_role(
    request: Request, console: Here, session: Administrator, name: Name, role: Annotated[str, Form()]
) -> Response:
    try:
        people.change_role(console.database, session.person, name, people.role_named(role))
    except UnpooledError as error:
        return _page(request, console, 400, f"The role was not changed: {error}.")
    return RedirectResponse("/people?done=changed", 303)


@router.post("/people/password")
def reset_password(
    request: Request, console: Here, session: Administrator, name: Name, password: Annotated[str, Form()]
) -> Response:
    try:
        people.reset_password(console.database, console.hasher, session.person, name, password)
    except UnpooledError as error:
        return _page(request, console, 400, f"The password was not reset: {error}.")
    return RedirectResponse("/people?done=changed", 303)


@router.post("/people/disable")
def disable(request: Request, console: Here, session: Administrator, name: Name) -> Response:
    try:
        people.disable(console.database, session.person, name)
    except UnpooledError as error:
        return _page(request, console, 400, f"The account was not disabled: {error}.")
    return RedirectResponse("/people?done=changed", 303)


@router.post("/people/enable")
def enable(console: Here, session: Administrator, name: Name) -> Response:
    people.enable(console.database, session.person, name)
    return RedirectResponse("/people?done=changed", 303)


def _page(request: Request, console: Console, status: int = 200, problem: str = "", done: str = "") -> Response:
    return page(
        request,
        "people",
        status,
        people=people.everybody(console.database),
        meanings=MEANINGS,
        shortest=people.SHORTEST_PASSWORD,
        by_provider=console.sign_in is not None,
        problem=problem,
        done=done,
    )
