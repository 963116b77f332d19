"""Options of commands that read one table: the settings of [table] in a private file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from unpooled.data.sources import TableSettings
from unpooled.errors import InputError
from unpooled.settings import faults

THIS_TABLE = "this table"
"""Whose table it is, in errors."""

IdColumns = Annotated[
    list[str] | None, typer.Option("--id", metavar="COLUMN", help="The id column; several times if several.")
]
Columns = Annotated[list[str] | None, typer.Option("--column", metavar="COLUMN", help="A column to use. Default: all.")]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="COLUMN=TYPE", help="A column's type: number, category, date or boolean."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="A text that stands for a missing value, instead of NA etc."),
]
Unfit = Annotated[
    float, typer.Option(help="The fraction of a column's cells that may count as missing as they do not fit.")
]
Separator = Annotated[str | None, typer.Option(help="What separates the fields of a CSV file.")]
Encoding = Annotated[str | None, typer.Option(help="The encoding of a CSV file, such as cp1252.")]
Decimal = Annotated[str | None, typer.Option(help="The decimal mark: a point or a comma.")]
Thousands = Annotated[str | None, typer.Option(help="What separates groups of three digits.")]
Dates = Annotated[str | None, typer.Option(metavar="FORMAT", help="The date format, such as %d.%m.%Y.")]

Settings = TypeVar("Settings", bound=TableSettings)


def given_settings(
    path: Path | None,
    id_columns: list[str] | None,
    columns: list[str] | None,
    types: list[str] | None,
    missing: list[str] | None,
    unfit: float,
    separator: str | None,
    encoding: str | None,
    decimal: str | None,
    thousands: str | None,
    dates: str | None,
) -> dict[str, Any]:
    """What was given, by the names of the settings."""
    given = {
        "path": path,
        "id": id_columns,
        "columns": columns,
        "types": by_name(types or [], "--type", "COLUMN=TYPE"),
        "missing": missing,
        "unfit": unfit,
        "separator": separator,
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
        "dates": dates,
    }
    return {key: value for key, value in given.items() if value}


def validated(kind: type[Settings], given: Mapping[str, Any]) -> Settings:
    """The settings; what is wrong with one is said by its name."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise InputError("; ".join(faults(error))) from None


def by_name(given: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Pairs of a name and a value, as an option that may be given several times has them.

    >>> by_name(["age=number", "a=b=category"], "--type", "COLUMN=TYPE")
    {'age': 'number', 'a=b': 'category'}
    """
    pairs = [one.rpartition("=") for one in given]
    if wrong := [one for one, (name, _, _) in zip(given, pairs, strict=True) if not name]:
        raise InputError(f"{option}: must be {form}, not {wrong[0]}")
    return {name: value for name, _, value in pairs}
