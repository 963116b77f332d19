"""The other parties that this service talks to, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import UnpooledError
from unpooled.serve import peers
from unpooled.serve.certificates import days_until
from unpooled.serve.console.context import Console, Here
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
def listed(request: Request, service: Here, _session: Administrator, done: str = "") -> Response:
    return _page(request, service, done=_DONE.get(done, ""))


@router.post("/peers")
def add(request: Request, service: Here, session: Administrator, name: Name, address: Address = "") -> Response:
    try:
        peers.add_peer(service.database, session.person, service.party, name.strip(), address.strip() or None)
    except UnpooledError as error:
        given = {"name": name, "address": address}
        return _page(request, service, f"The party was not added: {error}.", given=given)
    service.wake()
    return RedirectResponse("/peers?done=added", 303)


@router.post("/peers/address")
def change(request: Request, service: Here, session: Administrator, name: Name, address: Address = "") -> Response:
    try:
        peers.change_address(service.database, session.person, name.strip(), address.strip() or None)
    except UnpooledError as error:
        return _page(request, service, f"The address was not changed: {error}.")
    service.wake()
    return RedirectResponse("/peers?done=changed", 303)


@router.post("/peers/remove")
def remove(request: Request, service: Here, session: Administrator, name: Name) -> Response:
    try:
        peers.remove_peer(service.database, session.person, name)
    except UnpooledError as error:
        return _page(request, service, f"The party was not removed: {error}.")
    return RedirectResponse("/peers?done=removed", 303)


def _page(
    request: Request, service: Console, problem: str = "", done: str = "", given: dict[str, str] | None = None
) -> Response:
    return page(
        request,
        "peers",
        400 if problem else 200,
        peers=peers.peers_in(service.database),
        waiting=peers.letters_waiting(service.database),
        days_until=days_until,
        own_address=service.settings.address if service.settings else None,
        given=given or {"name": "", "address": ""},
        problem=problem,
        done=done,
    )
