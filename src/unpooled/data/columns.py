"""Column types, and how cells become cells of a type.

============================  ==============================================  ======================
type                          cells that have it                              kept as
============================  ==============================================  ======================
``"number"``                  3, -0.5, 1e6; 1.234,5 if the party says so      float
``"category"``                any text                                        text
``"date"``                    2024-02-29; a time of day after it is dropped   date
``"boolean"``                 true and false in any case, 1 and 0             boolean
``("low", "middle", "high")``  one of these texts: an ordered category         position in the list
============================  ==============================================  ======================

`inference` says which type a column has if the party does not declare it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import polars as pl
from pydantic import AfterValidator

from unpooled.errors import InputError

MISSING_TEXTS = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")

ISO_DATE = "%Y-%m-%d"
DATE_SHAPES = {
    ISO_DATE: r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "%d.%m.%Y": r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}",
    "%d/%m/%Y": r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}",
    "%m/%d/%Y": r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}",
}
"""The date formats that can be inferred; a column must fit one alone."""
_TIME = r"(?:[T ][0-9:.]+Z?)?$"
_FIRST_YEAR = 1000  # an earlier one is a year of two digits, read as one of four
_SPACES = "[ \u00a0\u202f]"
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_ROWS_NAMED = 5
LONGEST_ID = 256
_UNSEEN = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"


@dataclass(frozen=True)
class Writing:
    """How numbers and dates are written as text."""

    decimal: str = "."
    thousands: str = ""
    dates: str = ISO_DATE


USUAL = Writing()


def _checked_levels(levels: tuple[str, ...]) -> tuple[str, ...]:
    if len(levels) < 2 or len(set(levels)) < len(levels):
        raise ValueError("an ordered category needs at least two levels, all different")
    return levels


Levels = Annotated[tuple[str, ...], AfterValidator(_checked_levels)]
Kind = Literal["number", "category", "date", "boolean"] | Levels


def kind_name(kind: Kind) -> str:
    """The name of a column type, for people."""
    return kind if isinstance(kind, str) else "ordered category"


def without_missing(cells: pl.Series, missing: Sequence[str]) -> pl.Series:
    """The column with null for every missing cell: not-a-number, or a text that, stripped, is one of `missing`."""
    if cells.dtype == pl.String:
        stripped = cells.str.strip_chars()
        return stripped.set(stripped.is_in(list(missing)), None)
    return cells.fill_nan(None) if cells.dtype.is_float() else cells


def typed(cells: pl.Series, kind: Kind, writing: Writing = USUAL) -> pl.Series:
    """The column as cells of that type; a cell that is not of the type becomes null."""
    if isinstance(kind, tuple):
        return as_text(cells).cast(pl.Enum(kind), strict=False)
    if kind == "category":
        return as_text(cells)
    if kind == "boolean":
        return as_text(cells).str.to_lowercase().replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean)
    if kind == "number":
        if cells.dtype == pl.String:
            return _numbers(cells, writing)
        return cells.cast(pl.Float64, strict=False) if not cells.dtype.is_temporal() else _nothing(cells, pl.Float64())
    if isinstance(cells.dtype, pl.Datetime):
        return (cells.dt.convert_time_zone("UTC") if cells.dtype.time_zone else cells).dt.date()
    if cells.dtype == pl.String:
        return _dates(cells, writing.dates)
    return cells if cells.dtype == pl.Date else _nothing(cells, pl.Date())


def _numbers(texts: pl.Series, writing: Writing) -> pl.Series:
    """Thousands must stand in groups of three; a point is no decimal mark where a comma is."""
    if writing.thousands:
        mark = _SPACES if writing.thousands == " " else re.escape(writing.thousands)
        grouped = texts.str.contains(
            rf"^[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{re.escape(writing.decimal)}[0-9]*)?$"
        )
        texts = texts.str.replace_all(mark, "").zip_with(grouped.fill_null(value=False), texts)
    if writing.decimal == ",":
        texts = texts.set(texts.str.contains(".", literal=True), None).str.replace(",", ".", literal=True)
    return texts.cast(pl.Float64, strict=False)


def _dates(texts: pl.Series, written: str) -> pl.Series:
    if shape := DATE_SHAPES.get(written):
        return texts.str.extract(rf"^({shape}){_TIME}").str.to_date(written, strict=False)
    dates = texts.str.to_date(written, strict=False)
    return dates.set(dates.dt.year() < _FIRST_YEAR, None)


def as_text(cells: pl.Series) -> pl.Series:
    """The column as text; whole numbers have no decimal point, so that 3 and 3.0 are one category."""
    if not cells.dtype.is_float():
        return cells.cast(pl.String)
    whole = cells.cast(pl.Int64, strict=False)
    return whole.cast(pl.String).zip_with((whole.cast(cells.dtype) == cells).fill_null(False), cells.cast(pl.String))


def _nothing(cells: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.Series(cells.name, [None] * len(cells), dtype=dtype)


def what_is_wrong(kind: Kind, writing: Writing = USUAL) -> str:
    """Why `typed` refused a cell."""
    if isinstance(kind, tuple):
        return f"not one of the levels {', '.join(kind)}"
    date = f"not a date written {for_people(writing.dates)}"
    return {"number": "not a number", "date": date, "boolean": "neither true nor false"}[kind]


def for_people(dates: str) -> str:
    """A date format as people write it.

    >>> for_people("%d.%m.%Y")
    'DD.MM.YYYY'
    """
    return dates.replace("%Y", "YYYY").replace("%m", "MM").replace("%d", "DD")


def unfit_ids(cells: pl.Series) -> tuple[str, list[int]] | None:
    """Why some ids are refused, and in which rows: people will open lists and pages with them.

    >>> unfit_ids(pl.Series(["007", "ann\\u202e", "Émile"]))
    ('an id holds a control or format character, which nobody sees', [2])
    """
    for reason, rows in (
        ("an id holds a control or format character, which nobody sees", cells.str.contains(_UNSEEN)),
        (f"an id is longer than {LONGEST_ID} characters", cells.str.len_chars() > LONGEST_ID),
    ):
        if rows.any():
            return reason, (rows.arg_true() + 1).to_list()
    return None


def fault(party: str, origin: str, reason: str, column: str | None = None, rows: Sequence[int] = ()) -> InputError:
    """An error that names the place; rows are counted from 1, the first one after the header.

    >>> str(fault("clinic", "people.csv", "not a number", "age", [3, 9]))
    "clinic: people.csv: column 'age': rows 3 and 9: not a number"
    """
    places = [party, origin]
    if column is not None:
        places.append(f"column '{column}'")
    if rows:
        places.append(rows_named(rows))
    return InputError(": ".join([*places, reason]))


def rows_named(rows: Sequence[int]) -> str:
    """The first few row numbers as text.

    >>> rows_named([4])
    'row 4'
    >>> rows_named(range(1, 11))
    'rows 1, 2, 3, 4, 5 and 5 more'
    """
    if len(rows) == 1:
        return f"row {rows[0]}"
    if len(rows) <= _ROWS_NAMED:
        return f"rows {', '.join(map(str, rows[:-1]))} and {rows[-1]}"
    return f"rows {', '.join(map(str, rows[:_ROWS_NAMED]))} and {len(rows) - _ROWS_NAMED} more"
