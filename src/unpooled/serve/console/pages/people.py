"""The people who may use this service, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import UnpooledError
from unpooled.serve.accounts import people
from unpooled.serve.accounts.people import MEANINGS
from unpooled.serve.console.context import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator

router = APIRouter()

_DONE = {
    "added": "The account was added. Tell the person, who can change the password under “Your account”.",
    "changed": "The account was changed, and the person was signed out.",
}
Name = Annotated[str, Form()]


@router.get("/people")
def everybody(request: Request, service: Here, _session: Administrator, done: str = "") -> Response:
    return _page(request, service, done=_DONE.get(done, ""))


@router.post("/people")
def add(
    request: Request,
    service: Here,
    session: Administrator,
    name: Name,
    role: Annotated[str, Form()],
    password: Annotated[str, Form()] = "",
    subject: Annotated[str, Form()] = "",
) -> Response:
    try:
        by_provider = service.settings is not None and service.settings.sign_in is not None and not password
        secret = None if by_provider else password
        kind = people.role_named(role)
        people.add(service.database, service.hasher, session.person, name.strip(), kind, secret, subject.strip())
    except UnpooledError as error:
        return _page(request, service, 400, f"No account was added: {error}.")
    return RedirectResponse("/people?done=added", 303)


@router.post("/people/role")
def change_role(
    request: Request, service: Here, session: Administrator, name: Name, role: Annotated[str, Form()]
) -> Response:
    try:
        people.change_role(service.database, session.person, name, people.role_named(role))
    except UnpooledError as error:
        return _page(request, service, 400, f"The role was not changed: {error}.")
    return RedirectResponse("/people?done=changed", 303)


@router.post("/people/password")
def reset_password(
    request: Request, service: Here, session: Administrator, name: Name, password: Annotated[str, Form()]
) -> Response:
    try:
        people.reset_password(service.database, service.hasher, session.person, name, password)
    except UnpooledError as error:
        return _page(request, service, 400, f"The password was not reset: {error}.")
    return RedirectResponse("/people?done=changed", 303)


@router.post("/people/disable")
def disable(request: Request, service: Here, session: Administrator, name: Name) -> Response:
    try:
        people.disable(service.database, session.person, name)
    except UnpooledError as error:
        return _page(request, service, 400, f"The account was not disabled: {error}.")
    return RedirectResponse("/people?done=changed", 303)


@router.post("/people/enable")
def enable(service: Here, session: Administrator, name: Name) -> Response:
    people.enable(service.database, session.person, name)
    return RedirectResponse("/people?done=changed", 303)


def _page(request: Request, service: Console, status: int = 200, problem: str = "", done: str = "") -> Response:
    return page(
        request,
        "people",
        status,
        people=people.everybody(service.database),
        meanings=MEANINGS,
        shortest=people.SHORTEST_PASSWORD,
        by_provider=service.settings is not None and service.settings.sign_in is not None,
        problem=problem,
        done=done,
    )
