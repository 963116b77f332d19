"""`unpooled check`: what a table holds and what looks wrong with it; and what is said of that before a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from unpooled.cli.options import Json
from unpooled.cli.tables import (
    THIS_TABLE,
    Columns,
    Dates,
    Decimal,
    Encoding,
    IdColumns,
    Missing,
    Separator,
    Thousands,
    Types,
    Unfit,
    given_settings,
    validated,
)
from unpooled.data.inference import Note
from unpooled.data.prepare import PrepareSettings
from unpooled.data.quality import ColumnQuality, Quality, quality_of
from unpooled.data.sources import TableSettings, column_names, look
from unpooled.drawing.words import many
from unpooled.errors import InputError
from unpooled.jobs.files import load_private
from unpooled.jobs.preflight import Preflight
from unpooled.jobs.together import Together
from unpooled.report.quality import write_quality

_LEVELS = {"note": "note", "warning": "warning", "error": "ERROR"}
_WIDTH = 80


def check_command(
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="A .csv, .csv.gz or .parquet file; or use --private.")
    ] = None,
    private: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A party's private file, whose table and settings are used.")
    ] = None,
    id_columns: IdColumns = None,
    columns: Columns = None,
    types: Types = None,
    missing: Missing = None,
    unfit: Unfit = 0.0,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    dates: Dates = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page. Default: TABLE-quality.html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a table before any job: types, missing values, ranges, levels, ids, and what looks wrong.

    Prints a summary and writes a page with a picture of each column. Nothing leaves this machine. The options are the
    settings of [table] in a private file, which docs/sources.md explains. Exit code 1: a job would refuse the table.
    """
    given = given_settings(
        table,
        id_columns,
        columns,
        types,
        missing,
        unfit,
        separator,
        encoding,
        decimal,
        thousands,
        dates,
    )
    party, settings, prepare = _settings(given, private)
    found = quality_of(look(settings, party), prepare)
    stem = settings.path.name.split(".")[0] if settings.path else party
    written = write_quality(found, page or Path(f"{stem}-quality.html"))
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"accepted": found.accepted, "page": str(written)}))
    else:
        _show(found)
        typer.echo(f"page: {written}")
    if not found.accepted:
        raise typer.Exit(1)


def _settings(given: dict[str, Any], private: Path | None) -> tuple[str, TableSettings, PrepareSettings]:
    """Whose table it is, how it is read, and how it would be prepared."""
    if private is not None:
        if given:
            raise InputError("--private: the file has the table's settings; give either, not both")
        own = load_private(private)
        if own.table is None:
            raise InputError(f"{private}: table: there is none")
        return private.stem, own.table, own.prepare
    if "path" not in given:
        raise InputError("name a table, or a private file with --private")
    if "id" not in given:
        names = column_names(validated(TableSettings, given | {"id": ["?"]}), THIS_TABLE)
        raise InputError(f"--id: name the id column of {given['path']}; its columns are: {', '.join(names)}")
    return THIS_TABLE, validated(TableSettings, given), PrepareSettings()


def say_warnings(preflights: Sequence[Preflight], together: Together | None) -> None:
    """Before a run: how many warnings there are about each table, and all about the tables together."""
    for quality in (found.quality for found in preflights if found.quality):
        if count := sum(note.level == "warning" for note in quality.notes):
            typer.echo(f"{quality.party}: {many(count, 'warning')} about its table; --dry-run shows them", err=True)
    for warning in together.warnings if together else ():
        typer.echo(f"warning: {warning}", err=True)


def _show(found: Quality) -> None:
    console = Console(markup=False, emoji=False, highlight=False, width=_WIDTH)
    console.print(f"{found.origin}: {many(found.rows, 'row')} ready, {found.rows_read:,} read", soft_wrap=True)
    grid = Grid("column", "type", "missing", "values", "from, to or most frequent", box=None, pad_edge=False)
    for place in (2, 3):
        grid.columns[place].justify = "right"
    for column in grid.columns:
        column.overflow = "fold"
    for ids in found.ids:
        lengths = f"{ids.shortest} to {ids.longest} characters" if ids.distinct else ""
        grid.add_row(ids.name, "id", _count(ids.missing), f"{ids.distinct:,}", lengths)
    for one in found.columns:
        grid.add_row(one.name, one.kind, _count(one.missing), f"{one.distinct:,}", _extent(one))
    console.print(grid)
    for level in ("error", "warning", "note"):
        for note in (note for note in found.notes if note.level == level):
            _say(console, note)


def _say(console: Console, note: Note) -> None:
    console.print(f"{_LEVELS[note.level]}: {note}")


def _count(count: int) -> str:
    return f"{count:,}" if count else "-"


def _extent(column: ColumnQuality) -> str:
    if column.lowest:
        return f"{column.lowest} to {column.highest}"
    return ", ".join(column.labels[:3]) + (", ..." if column.distinct > 3 else "")
