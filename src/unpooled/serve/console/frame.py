"""What surrounds every request: limits, headers, a line in the log, counts, and a page for errors nobody expected."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.responses import Response
from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unpooled.serve.console.console import Console
from unpooled.serve.console.limits import network_of
from unpooled.serve.console.security import INTERFACE, SAFE_METHODS, from_this_origin
from unpooled.serve.logs import event

Answer = Callable[[Request, int, str], Response]

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it, browsers send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_BY_HTTPS = {"Strict-Transport-Security": "max-age=31536000"}
_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.3, 1.0, 5.0)


class Frame:
    """The outermost layer: no response leaves the console but through it."""

    def __init__(self, app: ASGIApp, console: Console, answer: Answer) -> None:
        self._app = app
        self._console = console
        self._answer = answer
        registry = console.metrics
        self._requests = Counter(
            "unpooled_console_requests", "Requests by route", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "unpooled_console_seconds", "Until a response began", ("route",), registry=registry, buckets=_SECONDS
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def send_framed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in (_HEADERS | (_BY_HTTPS if self._console.secure else {})).items():
                    headers.setdefault(name, value)
                self._observe(scope, status, time.perf_counter() - begun)
            await send(message)

        try:
            await self._respond(scope, receive, send_framed)
        except Exception as error:
            number = secrets.token_hex(4)
            event("error", level=logging.ERROR, error=error, number=number, route=_route(scope))
            if status:  # part of the response is gone: break off
                raise
            text = f"Something went wrong here. The service’s log has the details under the number {number}."
            await self._answer(Request(scope), 500, text)(scope, receive, send_framed)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope)
        answer: Callable[[Scope, Receive, Send], Awaitable[None]] = refusal or self._app
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """What is refused before anything looks at it."""
        client = scope.get("client")
        if wait := self._console.requests.take(network_of(client[0] if client else None)):
            response = self._answer(Request(scope), 429, f"Too many requests: wait {wait} seconds.")
            response.headers["Retry-After"] = str(wait)
            return response
        if scope["method"] in SAFE_METHODS or scope["path"].startswith(INTERFACE):
            return None
        if from_this_origin(Headers(scope=scope), secure=self._console.secure):
            return None
        text = (
            "Your browser says that this form is not from a page of this console. If a proxy stands in front of it, "
            "the proxy must pass on the Host header."
        )
        return self._answer(Request(scope), 403, text)

    def _observe(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        self._requests.labels(_method(scope), route, status).inc()
        self._seconds.labels(route).observe(seconds)
        event("request", method=_method(scope), route=route, status=status, ms=round(1000 * seconds, 1))


def _route(scope: Scope) -> str:
    """The pattern of the path, as the path itself may name somebody."""
    return getattr(scope.get("route"), "path", "other")


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE"} else "other"
