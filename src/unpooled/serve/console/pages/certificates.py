"""This party's certificate, and the authority at the one party that signs everybody's; for administrators."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import InputError, UnpooledError
from unpooled.serve import authority, certificates
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator
from unpooled.transport.certificates import AUTHORITY_DAYS, LIST_DAYS, PARTY_DAYS

router = APIRouter()

_DONE = {
    "requested": "A new key and a request were made. The key stays here; send the request to the authority.",
    "installed": "What the authority handed back is in use now. Nothing needs to be restarted.",
    "authority": "The authority was made. Give this party its own certificate next.",
    "own": "This party has a certificate now.",
    "signed": "The request was signed. Download the answer below, and send it to the party.",
    "revoked": "The certificate was revoked here. Send the fresh revocation list to all other parties.",
    "list": "The revocation list has today’s date. Send it to all other parties.",
}
Text = Annotated[str, Form()]
Upload = Annotated[UploadFile | None, File()]


@router.get("/certificates")
def show(request: Request, console: Here, _session: Administrator, done: str = "") -> Response:
    return _page(request, console, done=_DONE.get(done, ""))


@router.post("/certificates/request")
def make_request(console: Here, session: Administrator) -> Response:
    certificates.make_request(console.context, session.person)
    return _to("requested")


@router.get("/certificates/request.pem")
def download_request(console: Here, _session: Administrator) -> Response:
    pending = certificates.pending_request(console.context)
    if pending is None:
        raise InputError("there is no request: make one first")
    return _file(f"request-{console.party}.pem", pending[0])


@router.post("/certificates/install")
def install(request: Request, console: Here, session: Administrator, text: Text = "", file: Upload = None) -> Response:
    given = _given(text, file)
    try:
        certificates.install(console.context, session.person, given)
    except UnpooledError as error:
        return _page(request, console, f"Nothing was changed: {error}.", typed={"install": given})
    console.wake()
    return _to("installed")


@router.post("/certificates/authority")
def make_authority(request: Request, console: Here, session: Administrator, name: Text) -> Response:
    try:
        authority.make_authority(console.context, session.person, name.strip())
    except UnpooledError as error:
        return _page(request, console, f"No authority was made: {error}.")
    return _to("authority")


@router.post("/certificates/own")
def certify_itself(request: Request, console: Here, session: Administrator) -> Response:
    try:
        authority.certify_itself(console.context, session.person)
    except UnpooledError as error:
        return _page(request, console, f"There is no new certificate: {error}.")
    console.wake()
    return _to("own")


@router.post("/certificates/look")
def look(request: Request, console: Here, _session: Administrator, text: Text = "", file: Upload = None) -> Response:
    """Show for whom a request is, and its fingerprint, before it is signed."""
    given = _given(text, file)
    try:
        party, fingerprint = authority.request_in(given)
    except UnpooledError as error:
        return _page(request, console, f"This request cannot be signed: {error}.", typed={"request": given})
    return _page(request, console, asked={"party": party, "fingerprint": fingerprint, "text": given})


@router.post("/certificates/sign")
def sign(request: Request, console: Here, session: Administrator, text: Text) -> Response:
    try:
        authority.sign(console.context, session.person, text)
    except UnpooledError as error:
        return _page(request, console, f"The request was not signed: {error}.", typed={"request": text})
    return _to("signed")


@router.get("/certificates/issued/{number}")
def download_issued(console: Here, _session: Administrator, number: str) -> Response:
    party, text = authority.handed_back(console.context, number)
    return _file(f"signed-{party}.pem", text)


@router.post("/certificates/revoke")
def revoke(request: Request, console: Here, session: Administrator, number: Text) -> Response:
    try:
        authority.revoke(console.context, session.person, number)
    except UnpooledError as error:
        return _page(request, console, f"Nothing was revoked: {error}.")
    return _to("revoked")


@router.post("/certificates/list")
def make_fresh_list(request: Request, console: Here, session: Administrator) -> Response:
    try:
        authority.fresh_list(console.context, session.person)
    except UnpooledError as error:
        return _page(request, console, f"No list was made: {error}.")
    return _to("list")


@router.get("/certificates/revoked.pem")
def download_list(console: Here, _session: Administrator) -> Response:
    return _file("revoked.pem", authority.current_list(console.context))


def _given(text: str, file: UploadFile | None) -> str:
    """What was uploaded, or else what was pasted; without the carriage returns that browsers send."""
    content = file.file.read() if file and file.filename else b""
    return (content.decode("ascii", "replace") if content else text).replace("\r\n", "\n")


def _to(done: str) -> Response:
    return RedirectResponse(f"/certificates?done={done}", 303)


def _file(name: str, text: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, headers=headers, media_type="application/x-pem-file")


def _page(
    request: Request,
    console: Console,
    problem: str = "",
    done: str = "",
    typed: dict[str, str] | None = None,
    asked: dict[str, str] | None = None,
) -> Response:
    context = console.context
    signs = authority.has_authority(context)
    values: dict[str, Any] = {"fingerprint": "", "issued": []}
    if signs:
        values = {"fingerprint": authority.authority_fingerprint(context), "issued": authority.issued(context)}
    return page(
        request,
        "certificates",
        400 if problem else 200,
        own=certificates.own_certificate(context),
        in_use=context.folder.certificates.exists(),
        pending=certificates.pending_request(context),
        signs=signs,
        days_until=certificates.days_until,
        days={"authority": AUTHORITY_DAYS, "party": PARTY_DAYS, "list": LIST_DAYS},
        typed={"install": "", "request": ""} | (typed or {}),
        asked=asked,
        problem=problem,
        done=done,
        **values,
    )
