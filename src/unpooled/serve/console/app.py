"""The console as one ASGI application."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from unpooled.errors import RefusedError, UnpooledError
from unpooled.serve.console import openid, static
from unpooled.serve.console.console import Console
from unpooled.serve.console.frame import Frame
from unpooled.serve.console.interface import administration, description
from unpooled.serve.console.interface import jobs as interface_jobs
from unpooled.serve.console.pages import (
    account,
    audit_log,
    drafts,
    job,
    jobs,
    operating,
    people,
    results,
    review,
    set_up,
    sign_in,
)
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import INTERFACE, SignInFirst, check_routes, session_of, sign_in_page

LONGEST_BODY = 2**20
_ROUTERS = (
    static.router,
    operating.router,
    set_up.router,
    sign_in.router,
    openid.router,
    jobs.router,
    drafts.router,
    job.router,
    review.router,
    results.router,
    account.router,
    people.router,
    audit_log.router,
    interface_jobs.router,
    administration.router,
    description.router,
)
_TITLES = {
    400: "That cannot be done",
    403: "You may not do this",
    404: "There is no such page",
    405: "There is no such page",
    413: "That is too long",
    422: "Something is missing",
    429: "Too many requests",
    500: "Something went wrong",
    502: "The provider cannot be reached",
}
_TEXTS = {
    404: "The address may be mistyped, or what it showed is gone.",
    405: "This address is for a form: open the page with the form again.",
    413: f"The console accepts at most {LONGEST_BODY // 2**20} MiB at once.",
}


def make_app(console: Console) -> FastAPI:
    """The application that serves a console; every route needs a role, or is listed as open."""
    app = FastAPI(title="unpooled", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.console = console
    app.state.provider = openid.provider_of(console)
    for router in _ROUTERS:
        app.router.routes += router.routes
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _incomplete)
    app.add_exception_handler(SignInFirst, _to_sign_in)
    app.add_exception_handler(UnpooledError, _refused)
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=LONGEST_BODY)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=sorted(console.hosts), www_redirect=False)
    app.add_middleware(Frame, console=console, answer=answer)
    check_routes(app)
    return app


def answer(request: Request, status: int, text: str) -> Response:
    """An error in plain words: as a page, or as JSON where programs ask."""
    if request.url.path.startswith(INTERFACE):
        return JSONResponse({"error": text}, status)
    return page(request, "error", status, title=_TITLES.get(status, "That did not work"), text=text)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if not hasattr(request.state, "session"):  # no route was found that looked for it: show the navigation still
        request.state.session = session_of(request)
    response = answer(request, error.status_code, _TEXTS.get(error.status_code, error.detail))
    response.headers.update(error.headers or {})
    return response


def _incomplete(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fields = sorted({str(fault["loc"][-1]) for fault in error.errors()})
    return answer(request, 422, f"These fields are missing or not valid: {', '.join(fields)}.")


def _to_sign_in(request: Request, _error: Exception) -> Response:
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        # Browsers send no strict cookie when a link elsewhere leads here; from this page they do.
        return page(request, "continue", wanted=request.url.path)
    return RedirectResponse(sign_in_page(request), 303)


def _refused(request: Request, error: Exception) -> Response:
    return answer(request, 403 if isinstance(error, RefusedError) else 400, f"{error}.")
