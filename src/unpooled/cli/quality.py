"""`unpooled check`: what a table holds and what looks wrong with it; and what is said of that before a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table as Grid

from unpooled.cli.options import Json
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
from unpooled.settings import faults

_PARTY = "this table"
_LEVELS = {"note": "note", "warning": "warning", "error": "ERROR"}
_WIDTH = 80


def check_command(
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="A .csv, .csv.gz or .parquet file; or use --private.")
    ] = None,
    private: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A party's private file, whose table and settings are used.")
    ] = None,
    id_columns: Annotated[
        list[str] | None, typer.Option("--id", metavar="COLUMN", help="The id column; several times if several.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", metavar="COLUMN", help="A column to use. Default: all.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="COLUMN=TYPE", help="A column's type: number, category, date or boolean."),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A text that stands for a missing value, instead of NA etc."),
    ] = None,
    unfit: Annotated[
        float, typer.Option(help="The fraction of a column's cells that may count as missing as they do not fit.")
    ] = 0.0,
    separator: Annotated[str | None, typer.Option(help="What separates the fields of a CSV file.")] = None,
    encoding: Annotated[str | None, typer.Option(help="The encoding of a CSV file, such as cp1252.")] = None,
    decimal: Annotated[str | None, typer.Option(help="The decimal mark: a point or a comma.")] = None,
    thousands: Annotated[str | None, typer.Option(help="What separates groups of three digits.")] = None,
    dates: Annotated[str | None, typer.Option(metavar="FORMAT", help="The date format, such as %d.%m.%Y.")] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page. Default: TABLE-quality.html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a table before any job: types, missing values, ranges, levels, ids, and what looks wrong.

    Prints a summary and writes a page with a picture of each column. Nothing leaves this machine. The options are the
    settings of [table] in a private file, which docs/sources.md explains. Exit code 1: a job would refuse the table.
    """
    given = {
        "path": table,
        "id": id_columns,
        "columns": columns,
        "types": _types(types or []),
        "missing": missing,
        "unfit": unfit,
        "separator": separator,
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
        "dates": dates,
    }
    party, settings, prepare = _settings({key: value for key, value in given.items() if value}, private)
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
        names = column_names(_validated(given | {"id": ["?"]}), _PARTY)
        raise InputError(f"--id: name the id column of {given['path']}; its columns are: {', '.join(names)}")
    return _PARTY, _validated(given), PrepareSettings()


def _validated(given: dict[str, Any]) -> TableSettings:
    try:
        return TableSettings.model_validate(given)
    except ValidationError as error:
        raise InputError("; ".join(faults(error))) from None


def _types(given: Sequence[str]) -> dict[str, str]:
    pairs = [one.rpartition("=") for one in given]
    if wrong := [one for one, (name, _, _) in zip(given, pairs, strict=True) if not name]:
        raise InputError(f"--type: must be COLUMN=TYPE, not {wrong[0]}")
    return {name: kind for name, _, kind in pairs}


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
