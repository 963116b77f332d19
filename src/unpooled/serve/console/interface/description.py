"""What the JSON interface offers: as OpenAPI, and as a page made from that."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import APIRoute

from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import INTERFACE, Viewer, needed_by
from unpooled.version import __version__

router = APIRouter()


@router.get("/interface/openapi.json")
def openapi(request: Request, _session: Viewer) -> JSONResponse:
    return JSONResponse(described(request))


@router.get("/interface")
def interface(request: Request, _session: Viewer) -> HTMLResponse:
    found = described(request)
    return page(request, "interface", paths=found["paths"], schemas=found["components"]["schemas"])


def described(request: Request) -> dict[str, Any]:
    """The OpenAPI description of all routes for programs, each with the role that its token needs."""
    routes = [route for route in request.app.routes if isinstance(route, APIRoute) and route.path.startswith(INTERFACE)]
    found = get_openapi(title="unpooled service", version=__version__, routes=routes)
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    for route in routes:
        needs = needed_by(route)
        for method in route.methods or ():
            operation = found["paths"][route.path_format][method.lower()]
            operation["x-role"] = needs.role if needs else ""
    return found
