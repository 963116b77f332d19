"""What all runs together have disclosed about each table, beside the limits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.budget.limits import RESULTS, SAID
from unpooled.errors import UnpooledError
from unpooled.serve import budget
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator, Approver

router = APIRouter()

_DONE = {
    "accepted": "The book goes on from what of it is intact. Your reason is written into it and into the audit log."
}


@router.get("/budget")
def show(request: Request, console: Here, _session: Approver, done: str = "") -> Response:
    return _page(request, console, done=_DONE.get(done, ""))


@router.post("/budget/accept")
def accept(
    request: Request,
    console: Here,
    session: Administrator,
    book: Annotated[str, Form()],
    reason: Annotated[str, Form()],
) -> Response:
    try:
        budget.accept(console.context, session.person, book, reason)
    except UnpooledError as error:
        return _page(request, console, f"Nothing was changed: {error}.")
    return RedirectResponse("/budget?done=accepted", 303)


def _page(request: Request, console: Console, problem: str = "", done: str = "") -> Response:
    status = 400 if problem else 200
    books = budget.books_of(console.context)
    return page(request, "budget", status, books=books, said=SAID, results=RESULTS, problem=problem, done=done)
