"""The other parties that this service talks to, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import UnpooledError
from unpooled.serve import peers
from unpooled.serve.certificates import days_until
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator

router = APIRouter()

_DONE = {
    "added": "The party was added. It must add you as well; then the two services find each other.",
    "changed": "The address was changed.",
    "removed": "The party was removed: it is refused from now on.",
}
Name = Annotated[str, Form()]
Address = Annotated[str, Form()]


@router.get("/peers")
def listed(request: Request, console: Here, _session: Administrator, done: str = "") -> Response:
    return _page(request, console, done=_DONE.get(done, ""))


@router.post("/peers")
def add(request: Request, console: Here, session: Administrator, name: Name, address: Address = "") -> Response:
    try:
        peers.add_peer(console.database, session.person, console.party, name.strip(), address.strip() or None)
    except UnpooledError as error:
        given = {"name": name, "address": address}
        return _page(request, console, f"The party was not added: {error}.", given=given)
    console.wake()
    return RedirectResponse("/peers?done=added", 303)


@router.post("/peers/address")
def change(request: Request, console: Here, session: Administrator, name: Name, address: Address = "") -> Response:
    try:
        peers.change_address(console.database, session.person, name.strip(), address.strip() or None)
    except UnpooledError as error:
        return _page(request, console, f"The address was not changed: {error}.")
    console.wake()
    return RedirectResponse("/peers?done=changed", 303)


@router.post("/peers/remove")
def remove(request: Request, console: Here, session: Administrator, name: Name) -> Response:
    try:
        peers.remove_peer(console.database, session.person, name)
    except UnpooledError as error:
        return _page(request, console, f"The party was not removed: {error}.")
    return RedirectResponse("/peers?done=removed", 303)


def _page(
    request: Request, console: Console, problem: str = "", done: str = "", given: dict[str, str] | None = None
) -> Response:
    return page(
        request,
        "peers",
        400 if problem else 200,
        peers=peers.peers_in(console.database),
        waiting=peers.letters_waiting(console.database),
        days_until=days_until,
        own_address=console.settings.address if console.settings else None,
        given=given or {"name": "", "address": ""},
        problem=problem,
        done=done,
    )
