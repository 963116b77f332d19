"""Column types, declared by the party or inferred, and how raw cells become cells of that type.

============================  ==============================================  ======================
type                          cells that have it                              kept as
============================  ==============================================  ======================
``"number"``                  3, -0.5, 1e6                                    float
``"category"``                any text                                        text
``"date"``                    2024-02-29; a time of day after it is dropped   date
``"boolean"``                 true and false in any case, 1 and 0             boolean
``("low", "middle", "high")``  one of these texts: an ordered category         position in the list
============================  ==============================================  ======================

A Parquet file, a PostgreSQL table and a data frame have types, and these are kept: text there is a category. A CSV file
has only text, so the type is inferred from the whole column, without its missing cells:

1. every cell is a number, and none has a leading zero such as ``007`` (that is a code): a number;
2. every cell is a date written YYYY-MM-DD: a date;
3. every cell is ``true`` or ``false``: a boolean;
4. otherwise: a category. A column without any value counts as a number.

Ordered categories are never inferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import polars as pl
from pydantic import AfterValidator

from unpooled.errors import InputError

MISSING_TEXTS = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")

_DATE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ][0-9:.]+Z?)?$"
_LEADING_ZERO = r"^[+-]?0[0-9]"
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_ROWS_NAMED = 5
LONGEST_ID = 256
_UNSEEN = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"


def _checked_levels(levels: tuple[str, ...]) -> tuple[str, ...]:
    if len(levels) < 2 or len(set(levels)) < len(levels):
        raise ValueError("an ordered category needs at least two levels, all different")
    return levels


Levels = Annotated[tuple[str, ...], AfterValidator(_checked_levels)]
Kind = Literal["number", "category", "date", "boolean"] | Levels


def kind_name(kind: Kind) -> str:
    """The name of a column type, for people."""
    return kind if isinstance(kind, str) else "ordered category"


def infer(cells: pl.Series, untyped: bool) -> Kind | None:
    """The type of a column by the rules above, or None if there is none for it; `untyped`: the source has only text."""
    dtype = cells.dtype
    if dtype == pl.String and untyped:
        return _infer_text(cells.drop_nulls())
    if dtype.is_numeric() or dtype == pl.Null:
        return "number"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "category"
    if dtype in (pl.Date, pl.Datetime):
        return "date"
    return "boolean" if dtype == pl.Boolean else None


def _infer_text(texts: pl.Series) -> Kind:
    if not typed(texts, "number").has_nulls():
        return "category" if texts.str.contains(_LEADING_ZERO).any() else "number"
    if not typed(texts, "date").has_nulls():
        return "date"
    return "boolean" if texts.str.to_lowercase().is_in(["true", "false"]).all() else "category"


def without_missing(cells: pl.Series, missing: Sequence[str]) -> pl.Series:
    """The column with null for every missing cell: not-a-number, or a text that, stripped, is one of `missing`."""
    if cells.dtype == pl.String:
        stripped = cells.str.strip_chars()
        return stripped.set(stripped.is_in(list(missing)), None)
    return cells.fill_nan(None) if cells.dtype.is_float() else cells


def typed(cells: pl.Series, kind: Kind) -> pl.Series:
    """The column as cells of that type; a cell that is not of the type becomes null."""
    if isinstance(kind, tuple):
        return as_text(cells).cast(pl.Enum(kind), strict=False)
    if kind == "category":
        return as_text(cells)
    if kind == "boolean":
        return as_text(cells).str.to_lowercase().replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean)
    if kind == "number":
        return cells.cast(pl.Float64, strict=False) if not cells.dtype.is_temporal() else _nothing(cells, pl.Float64())
    if isinstance(cells.dtype, pl.Datetime):
        return (cells.dt.convert_time_zone("UTC") if cells.dtype.time_zone else cells).dt.date()
    if cells.dtype == pl.String:
        return cells.str.extract(_DATE).str.to_date("%Y-%m-%d", strict=False)
    return cells if cells.dtype == pl.Date else _nothing(cells, pl.Date())


def as_text(cells: pl.Series) -> pl.Series:
    """The column as text; whole numbers have no decimal point, so that 3 and 3.0 are one category."""
    if not cells.dtype.is_float():
        return cells.cast(pl.String)
    whole = cells.cast(pl.Int64, strict=False)
    return whole.cast(pl.String).zip_with((whole.cast(cells.dtype) == cells).fill_null(False), cells.cast(pl.String))


def _nothing(cells: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.Series(cells.name, [None] * len(cells), dtype=dtype)


def what_is_wrong(kind: Kind) -> str:
    """Why `typed` refused a cell."""
    if isinstance(kind, tuple):
        return f"not one of the levels {', '.join(kind)}"
    return {"number": "not a number", "date": "not a date written YYYY-MM-DD", "boolean": "neither true nor false"}[
        kind
    ]


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
