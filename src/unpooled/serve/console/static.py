"""Files that pages load: the report's style, the console's additions to it, an icon, the script of live pages."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response

from unpooled import report

router = APIRouter()

_OWN = Path(__file__).parent / "static"
_FILES = {
    "style.css": (Path(report.__file__).parent / "templates" / "style.css", "text/css"),
    "console.css": (_OWN / "console.css", "text/css"),
    "jobs.css": (_OWN / "jobs.css", "text/css"),
    "live.js": (_OWN / "live.js", "text/javascript"),
    "icon.svg": (_OWN / "icon.svg", "image/svg+xml"),
}


@cache
def _content(name: str) -> bytes:
    return _FILES[name][0].read_bytes()


@cache
def address(name: str) -> str:
    """Where a page loads a file; another content has another address, so browsers may keep it."""
    return f"/static/{name}?{hashlib.sha256(_content(name)).hexdigest()[:12]}"


@router.get("/static/{name}")
def static_file(name: str) -> Response:
    if name not in _FILES:
        raise HTTPException(404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), headers=headers, media_type=_FILES[name][1])
