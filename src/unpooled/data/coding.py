"""Cells as numbers and back, for methods that work on matrices and must return cells of the column's type.

============================  ================================================
type                          number
============================  ================================================
``"number"``                  itself
``"date"``                    days since 1970-01-01
``"boolean"``                 0 or 1
ordered category              position in the list of levels
``"category"``                position among the levels seen, in order of name
============================  ================================================

A missing cell is NaN, and so is a level that was not seen.

>>> cells = pl.Series("tariff", ["plus", "basic", None, "plus"])
>>> column = learn("tariff", "category", cells)
>>> column.levels, encode(column, cells).tolist()
(('basic', 'plus'), [1.0, 0.0, nan, 1.0])
>>> decode(column, np.array([0.0, np.nan, 1.0])).to_list()
['basic', None, 'plus']
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from pydantic import Field, FiniteFloat

from unpooled.arrays import Bools, Floats
from unpooled.data.columns import Kind, fault, kind_name
from unpooled.data.table import Table
from unpooled.settings import Section

_MOST_DECIMALS = 6


class Column(Section):
    """What is known of a column: its type, the levels and the range seen, whether its numbers are all whole.

    `low` and `high` are None for a column without any value; `spread` is the standard deviation of its numbers, and
    `decimals` how many digits they have after the point, None if that is more than a few.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    low: FiniteFloat | None
    high: FiniteFloat | None
    whole: bool
    spread: FiniteFloat
    decimals: int | None = Field(None, ge=0, le=_MOST_DECIMALS)

    @property
    def empty(self) -> bool:
        """Whether there is no value at all."""
        return self.low is None

    @property
    def is_number(self) -> bool:
        """Whether cells are numbers or dates; otherwise they are classes."""
        return is_number(self.kind)

    @property
    def nominal(self) -> bool:
        """Whether cells have no order: positions of levels say only whether they are equal."""
        return self.kind == "category"


def is_number(kind: Kind) -> bool:
    """Whether cells of this type are numbers or dates; otherwise they are classes."""
    return kind in ("number", "date")


def learn(name: str, kind: Kind, cells: pl.Series) -> Column:
    """What there is to know of a column's cells."""
    levels = tuple(cells.drop_nulls().unique().sort()) if kind == "category" else ()
    unseen = Column(name=name, kind=kind, levels=levels, low=None, high=None, whole=True, spread=0.0)
    return seen(unseen, codes(cells, kind, levels))


def seen(column: Column, values: Floats) -> Column:
    """The same column as these values, already numbers, show it."""
    present = values[np.isfinite(values)]
    known = len(present) > 0
    found = {
        "low": float(present.min()) if known else None,
        "high": float(present.max()) if known else None,
        "whole": column.kind != "number" or bool((present == np.rint(present)).all()),
        "spread": float(present.std()) if known else 0.0,
        "decimals": _decimals(present) if column.kind == "number" else None,
    }
    return column.model_copy(update=found)


def _decimals(numbers: Floats) -> int | None:
    return next((some for some in range(_MOST_DECIMALS + 1) if (numbers == np.round(numbers, some)).all()), None)


def rounded(column: Column, values: Floats) -> Floats:
    """Values with no more digits after the point than the column's own have."""
    digits = 0 if column.whole else column.decimals
    return values if digits is None else np.round(values, digits)


def codes(cells: pl.Series, kind: Kind, levels: Sequence[str] = ()) -> Floats:
    """Cells as numbers, see above; a category needs its levels."""
    if kind == "category":
        cells = cells.cast(pl.Enum(list(levels)), strict=False)
    coded = cells if kind in ("number", "boolean") else cells.to_physical()
    return coded.cast(pl.Float64).fill_null(np.nan).to_numpy()


def encode(column: Column, cells: pl.Series) -> Floats:
    """Cells of this column as numbers."""
    return codes(cells, column.kind, column.levels)


def decode(column: Column, values: Floats) -> pl.Series:
    """Numbers as cells of this column: rounded as its own are, moved into the range seen; NaN becomes missing."""
    if not column.empty:
        values = np.clip(rounded(column, values), column.low, column.high)
    numbers = pl.Series(column.name, values).fill_nan(None)
    if column.kind == "number":
        return numbers
    if column.kind == "boolean":
        return numbers.cast(pl.Boolean)
    if column.kind == "date":
        return numbers.cast(pl.Int32).cast(pl.Date)
    ordered = isinstance(column.kind, tuple)
    levels = (
        pl.Series(column.kind, dtype=pl.Enum(column.kind)) if ordered else pl.Series(column.levels, dtype=pl.String)
    )
    return levels.gather(numbers.cast(pl.UInt32)).alias(column.name)


def learn_all(table: Table) -> tuple[Column, ...]:
    """What there is to know of every column besides the ids."""
    return tuple(learn(name, kind, table.frame[name]) for name, kind in table.kinds.items())


def encode_all(columns: Sequence[Column], table: Table) -> Floats:
    """Rows × columns as numbers; the table must have these columns with the same types."""
    for column in columns:
        check_kind(column.name, column.kind, table)
    matrix = np.empty((table.frame.height, len(columns)))
    for place, column in enumerate(columns):
        matrix[:, place] = encode(column, table.frame[column.name])
        if np.isinf(matrix[:, place]).any():
            rows = np.flatnonzero(np.isinf(matrix[:, place])) + 1
            raise fault(table.party, table.origin, "an infinite number", column.name, rows.tolist())
    return matrix


def check_kind(name: str, kind: Kind, table: Table) -> None:
    """Refuse a table that lacks this column, or has it with another type."""
    if name not in table.kinds:
        raise fault(table.party, table.origin, f"there is no such column; there are: {', '.join(table.kinds)}", name)
    if table.kinds[name] != kind:
        reason = f"its type is {kind_name(table.kinds[name])}, not {kind_name(kind)}; declare it in types"
        raise fault(table.party, table.origin, reason, name)


def replace_cells(table: Table, columns: Sequence[Column], values: Floats, where: Bools) -> Table:
    """The table with these cells replaced; all others stay as they are, bit for bit."""
    changed = [
        decode(column, values[:, place]).zip_with(pl.Series(where[:, place]), table.frame[column.name])
        for place, column in enumerate(columns)
        if where[:, place].any()
    ]
    frame = table.frame.with_columns(changed)
    return Table(table.party, table.origin, table.id, table.kinds, frame)


def distances(columns: Sequence[Column], rows: Floats, others: Floats) -> Floats:
    """Gower's distance of every row to every other row: the mean over columns that both know, 1 if there is none.

    A column contributes |a - b| / (high - low), at most 1; a nominal one 1 for different levels.
    """
    known, known_others = ~np.isnan(rows), ~np.isnan(others)
    total = np.zeros((len(rows), len(others)))
    for place, column in enumerate(columns):
        if not known[:, place].any():
            continue
        one, two = rows[:, place, np.newaxis], others[np.newaxis, :, place]
        if column.nominal:
            apart = (one != two).astype(np.float64)
        else:
            apart = np.minimum(np.abs(one - two) / (((column.high or 0.0) - (column.low or 0.0)) or 1.0), 1.0)
        if not (known[:, place].all() and known_others[:, place].all()):
            apart[~np.outer(known[:, place], known_others[:, place])] = 0.0
        total += apart
    common = known.astype(np.float64) @ known_others.astype(np.float64).T
    return np.where(common > 0, total / np.maximum(common, 1.0), 1.0)
