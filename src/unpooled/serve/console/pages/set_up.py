"""The first set-up, by whoever started the service and was shown its one-time key."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from unpooled.errors import UnpooledError
from unpooled.serve.accounts import people, sessions
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.pages.sign_in import came_in, too_often
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import set_cookie
from unpooled.serve.settings import ServiceSettings, save_settings
from unpooled.settings import faults

router = APIRouter()


@router.get("/setup")
def set_up_form(request: Request, console: Here, key: str = "") -> Response:
    _check_key(request, console, key)
    settings = console.settings
    given = {"party": console.party, "address": (settings.address if settings else None) or "", "name": ""}
    return _form(request, key, given)


@router.post("/setup")
def set_up(
    request: Request,
    console: Here,
    key: Annotated[str, Form()],
    party: Annotated[str, Form()],
    name: Annotated[str, Form()],
    password: Annotated[str, Form()],
    again: Annotated[str, Form()],
    address: Annotated[str, Form()] = "",
) -> Response:
    _check_key(request, console, key)
    given = {"party": party, "address": address, "name": name}
    if password != again:
        return _form(request, key, given, "The two passwords differ.")
    try:
        settings = _settings(console, party.strip(), address.strip())
        # First the settings: if the service is cut off here, it can still be set up.
        save_settings(console.folder, settings)
        people.add_first_administrator(console.database, console.hasher, name.strip(), password)
    except ValidationError as error:
        return _form(request, key, given, "; ".join(faults(error)) + ".")
    except UnpooledError as error:
        return _form(request, key, given, f"{error}.")
    console.settings = settings
    console.start()
    person = people.find(console.database, name.strip())
    assert person is not None
    response = RedirectResponse("/", 303)
    set_cookie(response, console, sessions.begin(console.database, person))
    return response


def _settings(console: Console, party: str, address: str) -> ServiceSettings:
    """The settings with what was typed in; those that an administrator wrote by hand stay."""
    kept = console.settings.model_dump(exclude_unset=True) if console.settings else {}
    return ServiceSettings.model_validate({**kept, "party": party, "address": address or None})


def _check_key(request: Request, console: Console, key: str) -> None:
    if people.has_administrator(console.database):
        raise HTTPException(403, "This service is set up already: sign in instead.")
    if wait := too_often(request, console, "/setup"):
        raise HTTPException(429, f"There were too many attempts: wait {wait} seconds.", {"Retry-After": str(wait)})
    if not hmac.compare_digest(key.encode(), console.setup_key.encode()):
        raise HTTPException(403, "Open the address that the service printed when it was started.")
    came_in(request, console, "/setup")


def _form(request: Request, key: str, given: dict[str, str], problem: str = "") -> Response:
    return page(
        request,
        "set_up",
        400 if problem else 200,
        key=key,
        given=given,
        shortest=people.SHORTEST_PASSWORD,
        problem=problem,
    )
