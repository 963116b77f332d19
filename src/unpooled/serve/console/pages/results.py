"""What a run has left: its report, as a page without rights, and its files."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse, Response

from unpooled.errors import InputError
from unpooled.run.folder import REPORT
from unpooled.serve.console.console import Here
from unpooled.serve.console.security import Viewer
from unpooled.serve.running import results

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
    path = results.home_of(console.context, console.job(job), occurrence) / REPORT
    if not path.is_file():
        raise HTTPException(404)
    return framed(path)


@router.get("/jobs/{job}/files/{name}")
def save(console: Here, session: Viewer, job: str, name: str, occurrence: int = 0) -> Response:
    try:
        path = results.hand_out(console.context, session.person, console.job(job), name, occurrence)
    except InputError:
        raise HTTPException(404) from None
    return FileResponse(path, filename=f"{job[:8]}-{name}", media_type="application/octet-stream")


def framed(path: Path) -> Response:
    """A page that unpooled has written: it may style itself, and nothing else."""
    return Response(path.read_bytes(), headers=_HEADERS, media_type="text/html; charset=utf-8")
