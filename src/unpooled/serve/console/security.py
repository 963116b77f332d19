"""Who asks, and whether a request comes from a page of this console.

A request that changes something needs three things: a session whose role suffices, the session's own CSRF token in the
form, and a browser that says the form lies on this origin.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, Headers
from starlette.routing import BaseRoute

from unpooled.serve.accounts import sessions, tokens
from unpooled.serve.accounts.people import Role
from unpooled.serve.accounts.sessions import Session
from unpooled.serve.accounts.tokens import Bearer
from unpooled.serve.console.console import Console

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
INTERFACE = "/api/"
"""Where programs ask, with a token and without cookies."""
OPEN = frozenset(
    {"/sign-in", "/sign-in/openid", "/sign-in/openid/back", "/setup", "/health", "/ready", "/metrics", "/static/{name}"}
)
"""The only routes that need no role; /metrics checks for itself who asks."""


class SignInFirst(Exception):
    """Nobody is signed in in this browser, or not any more."""


class Needs:
    """A dependency of a page: a session with at least this role and, where something changes, its CSRF token."""

    def __init__(self, role: Role) -> None:
        self.role: Role = role

    async def __call__(self, request: Request) -> Session:
        session = await run_in_threadpool(session_of, request)
        if session is None:
            raise SignInFirst
        request.state.session = session
        if request.method not in SAFE_METHODS:
            given = (await request.form()).get("csrf")
            if not isinstance(given, str) or not hmac.compare_digest(given.encode(), session.csrf.encode()):
                await request.close()
                raise HTTPException(403, "This form is from another session: open the page again and send it again.")
        _check_role(session, self.role)
        return session


class NeedsToken:
    """A dependency of the JSON interface: a token with at least this role; cookies do not count there."""

    def __init__(self, role: Role) -> None:
        self.role: Role = role

    async def __call__(self, request: Request) -> Bearer:
        bearer = await run_in_threadpool(bearer_of, request)
        if bearer is None:
            raise HTTPException(401, "A valid token is needed.", {"WWW-Authenticate": "Bearer"})
        _check_role(bearer, self.role)
        return bearer


Viewer = Annotated[Session, Depends(Needs("viewer"))]
Analyst = Annotated[Session, Depends(Needs("analyst"))]
Approver = Annotated[Session, Depends(Needs("approver"))]
Administrator = Annotated[Session, Depends(Needs("administrator"))]


async def _fields(request: Request) -> FormData:
    return await request.form()


Fields = Annotated[FormData, Depends(_fields)]
"""Everything that a form has, for forms whose fields depend on what they are about."""


def session_of(request: Request) -> Session | None:
    """Who is signed in in the browser that asks."""
    console: Console = request.app.state.console
    token = request.cookies.get(cookie_name(console))
    return sessions.find(console.database, token) if token else None


def bearer_of(request: Request) -> Bearer | None:
    """For whom the program acts that asks."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    console: Console = request.app.state.console
    return tokens.find(console.database, token.strip()) if scheme.lower() == "bearer" else None


def cookie_name(console: Console) -> str:
    """The port is part of it, since browsers send cookies to all ports of a host, and each may have its own service."""
    return f"{'__Host-' if console.secure else ''}unpooled-{console.listens[1]}"


def set_cookie(response: Response, console: Console, token: str) -> None:
    """Give the browser a session; it forgets it when it is closed."""
    response.set_cookie(cookie_name(console), token, httponly=True, secure=console.secure, samesite="strict", path="/")


def remove_cookie(response: Response, console: Console) -> None:
    response.delete_cookie(cookie_name(console), httponly=True, secure=console.secure, samesite="strict", path="/")


def from_this_origin(headers: Headers, *, secure: bool) -> bool:
    """Whether the browser says that a page of this console sent the request."""
    origin = headers.get("origin")
    own = f"{'https' if secure else 'http'}://{headers.get('host', '')}".lower()
    if site := headers.get("sec-fetch-site"):
        return site == "same-origin" and origin in (None, "null", own)
    return origin == own


def sign_in_page(request: Request) -> str:
    """Where to sign in, and to return from there."""
    wanted = request.url.path if request.method in SAFE_METHODS else "/"
    return "/sign-in" if wanted == "/" else f"/sign-in?next={quote(wanted)}"


def page_here(wanted: str) -> str:
    """A page of this console to go on with; the first one if an address leads elsewhere.

    >>> page_here("/people"), page_here("//elsewhere.example/"), page_here("https://elsewhere.example")
    ('/people', '/', '/')
    """
    parts = urlsplit(wanted)
    inside = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted and wanted.isprintable()
    return wanted if inside and not parts.scheme and not parts.netloc else "/"


def check_routes(app: FastAPI) -> None:
    """Refuse to start with a route that somebody forgot to protect."""
    for route in app.routes:
        if needed_by(route) is None and getattr(route, "path", "") not in OPEN:
            raise AssertionError(f"{route}: needs no role, and is not among the open routes")


def needed_by(route: BaseRoute) -> Needs | NeedsToken | None:
    """What a route needs of whoever asks."""
    found = _dependencies(route.dependant) if isinstance(route, APIRoute) else iter(())
    return next((call for call in found if isinstance(call, Needs | NeedsToken)), None)


def _dependencies(dependant: Dependant) -> Iterator[object]:
    yield dependant.call
    for one in dependant.dependencies:
        yield from _dependencies(one)


def _check_role(who: Session | Bearer, needed: Role) -> None:
    if not who.may(needed):
        raise HTTPException(403, f"This needs the role {needed}; you are {who.role}.")
