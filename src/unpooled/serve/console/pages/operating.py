"""For whoever operates the service: is it alive, is it ready, and what has it done."""

from __future__ import annotations

import ipaddress

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.security import bearer_of

router = APIRouter()


@router.get("/health")
def health() -> Response:
    return JSONResponse({"alive": True})


@router.get("/ready")
def ready(console: Here) -> Response:
    """Whether people can work with the console: it is set up, and its state can be read."""
    is_set_up = console.set_up
    return JSONResponse({"ready": is_set_up, "set_up": is_set_up}, 200 if is_set_up else 503)


@router.get("/metrics")
def metrics(request: Request, console: Here) -> Response:
    """Figures for Prometheus: to programs on this machine, or with a token."""
    if not _on_this_machine(request, console) and bearer_of(request) is None:
        raise HTTPException(401, "Metrics need a token.", {"WWW-Authenticate": "Bearer"})
    return Response(generate_latest(console.metrics), media_type=CONTENT_TYPE_LATEST)


def _on_this_machine(request: Request, console: Console) -> bool:
    """Behind a proxy everybody seems to be."""
    try:
        address = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    return address.is_loopback and not console.behind_proxy
