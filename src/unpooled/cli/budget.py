"""`unpooled budget`: what was disclosed about tables over all runs, and what is left."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from unpooled.budget.book import Book, books_in
from unpooled.budget.limits import RESULTS, SAID, OverRuns
from unpooled.budget.places import Places, name_of, usual_places
from unpooled.budget.shown import Shown, looked_at
from unpooled.budget.standing import Used
from unpooled.cli.options import Json
from unpooled.drawing.words import many
from unpooled.errors import InputError
from unpooled.jobs.files import load_private

_WIDTH = 80
_BAR = 10


def budget_command(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="A table's file, the name of its book, or a party's private file. Default: all books, beside the "
            "default limits.",
        ),
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept",
            metavar="REASON",
            help="Go on with a book that is missing, shorter than it was or changed; the reason is written into it.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what was disclosed about a table over all runs, with whom, and what the limits leave.

    A private file says by its policy what the limits are. A book that is not what it was is refused by every run until
    its owner says why with --accept.

    Exit code 1: a book is not what it was.
    """
    places = usual_places()
    if accept is not None:
        if table is None:
            raise InputError("--accept: name the table whose book is meant")
        book, _ = _named(table, places)
        found = book.accept(accept)
        typer.echo(json.dumps({"book": book.name, "found": found, "accepted": accept}) if as_json else f"was: {found}")
        return
    chosen = [_named(table, places)] if table is not None else [(book, OverRuns()) for book in books_in(places)]
    shown = [looked_at(book, limits) for book, limits in chosen]
    if as_json:
        typer.echo(json.dumps({"books": [asdict(one) for one in shown]}))
    else:
        for one in shown:
            _show(one)
        if not shown:
            typer.echo(f"no books in {places.books}")
    if any(one.problem for one in shown):
        raise typer.Exit(1)


def _named(table: str, places: Places) -> tuple[Book, OverRuns]:
    """The book of a private file's table, with that party's limits; or of a name or a path, with the defaults."""
    if table.endswith(".toml"):
        private = load_private(Path(table))
        if private.table is None:
            raise InputError(f"{table}: it names no table, so there is no book")
        return Book(name_of(private.table), places), private.policy
    known = {book.name for book in books_in(places)}
    name = table if table in known else str(Path(table).resolve())
    if name not in known:
        raise InputError(f"{table}: there is no book of this table in {places.books}")
    return Book(name, places), OverRuns()


def _show(shown: Shown) -> None:
    typer.echo(f"book: {shown.book}")
    if shown.standing is None:
        typer.echo(f"  NOT IN ORDER: {shown.problem}\n")
        return
    standing = shown.standing
    typer.echo(f"  {many(standing.runs, 'run')}{f', last entry {shown.last}' if shown.last else ''}")
    if standing.alignments:
        grid = Grid(box=None, padding=(0, 0, 0, 2))
        for name in ("with", "alignments", "ids brought", "linear fits shown"):
            grid.add_column(name, overflow="fold")
        for peer, used in standing.alignments.items():
            grid.add_row(peer, _bar(used), f"{standing.ids[peer]:,}", _bar(standing.fits[peer]))
        Console(width=_WIDTH, highlight=False).print(grid)
    for what, used in standing.said.items():
        typer.echo(f"  {SAID[what]}: {_bar(used)}")
    for result, used in standing.results.items():
        if used.used:
            typer.echo(f"  {RESULTS[result]}: {used}")
    for reason in shown.accepted:
        typer.echo(f"  accepted: {reason}")
    typer.echo("")


def _bar(used: Used) -> str:
    """A bar where there is a limit, and the numbers."""
    if not used.most:
        return str(used)
    filled = min(round(_BAR * used.used / used.most), _BAR)
    return f"{'█' * filled}{'░' * (_BAR - filled)} {used}"
