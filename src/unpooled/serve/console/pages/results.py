"""What a run has left: its report, as a page without rights, and its files."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse, Response

from unpooled.errors import InputError
from unpooled.run.folder import REPORT
from unpooled.serve.audit_log import note
from unpooled.serve.console.context import Console, Here
from unpooled.serve.console.security import Viewer
from unpooled.serve.running import results
from unpooled.serve.running.process import folder_of

router = APIRouter()

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; sandbox; form-action 'none'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    # Browsers refuse to show a sandboxed page that wants to be alone in its group.
    "Cross-Origin-Opener-Policy": "unsafe-none",
}


@router.get("/jobs/{job}/report")
def report(console: Here, _session: Viewer, job: str, occurrence: int = 0) -> Response:
    path = _home(console, job, occurrence) / REPORT
    if not path.is_file():
        raise HTTPException(404)
    return framed(path)


@router.get("/jobs/{job}/files/{name}")
def save(console: Here, session: Viewer, job: str, name: str, occurrence: int = 0) -> Response:
    try:
        path = results.result_file(_home(console, job, occurrence), name)
    except InputError:
        raise HTTPException(404) from None
    with console.database.transaction() as connection:
        note(connection, session.person, "saved a file of a run", name, job)
    return FileResponse(path, filename=f"{job[:8]}-{name}", media_type="application/octet-stream")


def framed(path: Path) -> Response:
    """A page that unpooled has written: it may style itself, and nothing else."""
    return Response(path.read_bytes(), headers=_HEADERS, media_type="text/html; charset=utf-8")


def _home(console: Console, job: str, occurrence: int) -> Path:
    """This party's folder of a run of a job; the latest, if none is named."""
    found = console.job(job)
    number = occurrence or max(found.occurrence, 1)
    return folder_of(console.folder, found.id, number) / console.party
