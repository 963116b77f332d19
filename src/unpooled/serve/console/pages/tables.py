"""The party's tables, for administrators: where each is, how it is read, and the limits on what it gives."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from unpooled.errors import InputError, UnpooledError
from unpooled.jobs.examples.templates import explained
from unpooled.serve import table_form, tables
from unpooled.serve.background import Result
from unpooled.serve.console.console import Console, Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator
from unpooled.serve.jobs.approvals import jobs_with_table
from unpooled.serve.tables import TableEntry

router = APIRouter()

_DONE = {
    "added": "The table was added. It is being read now, to see what is in it.",
    "changed": "The settings were changed. The table is being read again.",
    "removed": "The table was removed from the list; the file or database itself was not touched.",
}


async def _typed(request: Request) -> dict[str, str]:
    return {key: value for key, value in (await request.form()).items() if isinstance(value, str)}


Typed = Annotated[dict[str, str], Depends(_typed)]
"""Everything that was typed into a form."""


@router.get("/tables")
def listed(request: Request, console: Here, _session: Administrator, done: str = "") -> Response:
    found = tables.tables_in(console.database)
    checks = {one.name: _check(console, one.entry) for one in found}
    return page(request, "tables", tables=found, checks=checks, done=_DONE.get(done, ""))


@router.get("/tables/new")
def new(request: Request, _session: Administrator) -> Response:
    return _form(request, {"source": "file"})


@router.post("/tables/new")
def add(request: Request, console: Here, session: Administrator, given: Typed) -> Response:
    name = given.get("name", "").strip()
    try:
        entry = table_form.entry_of(given.get("source", ""), given)
        tables.add_table(console.database, session.person, name, entry)
    except UnpooledError as error:
        return _form(request, given, f"The table was not added: {error}.")
    _read(console, entry)
    return _to(name, "added")


@router.get("/tables/{name}")
def one(request: Request, console: Here, _session: Administrator, name: str, done: str = "") -> Response:
    return _page(request, console, name, done=_DONE.get(done, ""))


@router.post("/tables/{name}")
def change(
    request: Request, console: Here, session: Administrator, name: str, settings: Annotated[str, Form()]
) -> Response:
    try:
        _entry(console, name)
        entry = tables.read_entry(settings)
        tables.set_table(console.database, session.person, name, entry)
    except UnpooledError as error:
        return _page(request, console, name, problem=f"Nothing was changed: {error}", typed=settings)
    _read(console, entry)
    console.wake()
    return _to(name, "changed")


@router.post("/tables/{name}/check")
def check(console: Here, _session: Administrator, name: str) -> Response:
    _read(console, _entry(console, name))
    return _to(name)


@router.post("/tables/{name}/remove")
def remove(console: Here, session: Administrator, name: str) -> Response:
    tables.remove_table(console.database, session.person, name)
    console.wake()
    return RedirectResponse("/tables?done=removed", 303)


def _to(name: str, done: str = "") -> Response:
    return RedirectResponse(f"/tables/{quote(name)}{f'?done={done}' if done else ''}", 303)


def _entry(console: Console, name: str) -> TableEntry:
    with console.database.reading() as connection:
        return tables.table_named(connection, name)


def _read(console: Console, entry: TableEntry) -> None:
    """Begin to read a table in the background, if the service is at work."""
    if console.running:
        console.running.checker.request(entry)


def _check(console: Console, entry: TableEntry) -> Result:
    return console.running.checker.result(entry) if console.running else Result("none")


def _form(request: Request, given: dict[str, str], problem: str = "") -> Response:
    meanings = {
        key: table_form.meaning_of(key) for key in ("path", "postgres", "table", "query", "id", "columns", "book")
    }
    values = {"given": defaultdict(str, given), "limits": table_form.limits(), "meanings": meanings, "problem": problem}
    return page(request, "table_new", 400 if problem else 200, **values)


def _page(
    request: Request, console: Console, name: str, problem: str = "", typed: str = "", done: str = ""
) -> Response:
    found = {one.name: one for one in tables.tables_in(console.database)}
    if name not in found:
        raise InputError(f"there is no table {name[:64]!r}")
    with console.database.reading() as connection:
        lapsing = jobs_with_table(connection, name)
    return page(
        request,
        "table",
        400 if problem else 200,
        table=found[name],
        text=typed or explained(found[name].entry),
        check=_check(console, found[name].entry),
        lapsing=lapsing,
        problem=problem,
        done=done,
    )
