"""What a table holds, column by column, and what looks wrong with it: for its owner, before anything is started."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from unpooled.data.columns import Kind, kind_name
from unpooled.data.inference import Note
from unpooled.data.prepare import Cleaning, PrepareSettings, clean, pooled_levels
from unpooled.data.table import Table
from unpooled.errors import InputError

_BINS = 20
_BARS = 12
_NEAR_UNIQUE = 0.9
_MOSTLY_MISSING = 0.5
_FEW_ROWS = 30
_LARGE = 1e15


@dataclass(frozen=True)
class IdQuality:
    """An id column: cells without an id, different ids, and their lengths."""

    name: str
    missing: int
    distinct: int
    shortest: int
    longest: int


@dataclass(frozen=True)
class ColumnQuality:
    """A column: missing cells, different values, and how many levels of a category are pooled because they are rare.

    A number has a histogram, `edges` and `counts`. Other types have `labels` and `counts`: dates by period, levels in
    their order if they have one, otherwise the most frequent first.
    """

    name: str
    kind: str
    missing: int
    distinct: int
    pooled: int
    lowest: str
    highest: str
    edges: tuple[float, ...]
    labels: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Quality:
    """A party's table; `rows` after cleaning, where it can be cleaned."""

    party: str
    origin: str
    rows_read: int
    rows: int
    ids: tuple[IdQuality, ...]
    columns: tuple[ColumnQuality, ...]
    notes: tuple[Note, ...]

    @property
    def accepted(self) -> bool:
        """Whether a job could use the table."""
        return not any(note.level == "error" for note in self.notes)


def quality_of(table: Table, settings: PrepareSettings, cleaning: Cleaning | None = None) -> Quality:
    """Look at a table, which a `cleaning` has gone before, or which is cleaned here if that is possible."""
    notes = list(table.notes)
    if cleaning is None:
        try:
            table, cleaning = clean(table, settings)
        except InputError as error:
            notes.append(Note("", str(error).removeprefix(f"{table.party}: {table.origin}: "), "error"))
    rows_read = cleaning.rows_read if cleaning else table.frame.height
    if cleaning and cleaning.duplicates_removed:
        notes.append(Note("", f"{cleaning.duplicates_removed:,} rows that repeat another were removed"))
    for name, rows in (cleaning.impossible if cleaning else {}).items():
        notes.append(Note(name, "impossible values count as missing (prepare.impossible)", "warning", rows))
    ids = tuple(_id_quality(table.frame[name]) for name in table.id)
    if len(ids) == 1:
        notes += _about_ids(table.frame[ids[0].name], ids[0])
    columns = []
    for name, kind in table.kinds.items():
        cells = table.column(name)
        column = _column_quality(cells, kind, settings)
        columns.append(column)
        notes += _about_column(cells, kind, column)
    return Quality(table.party, table.origin, rows_read, table.frame.height, ids, tuple(columns), tuple(notes))


def _id_quality(cells: pl.Series) -> IdQuality:
    lengths = cells.drop_nulls().str.len_chars()
    shortest, longest = (lengths.min(), lengths.max()) if len(lengths) else (0, 0)
    return IdQuality(cells.name, cells.null_count(), cells.drop_nulls().n_unique(), int(shortest), int(longest))  # type: ignore[arg-type]


def _about_ids(cells: pl.Series, ids: IdQuality) -> list[Note]:
    digits = cells.drop_nulls().str.contains("^[0-9]+$")
    zeros = cells.drop_nulls().str.starts_with("0")
    counted = ids.longest <= len(str(2 * ids.distinct))  # ids that count from 1 have different lengths anyway
    if not digits.all() or zeros.any() or ids.longest == ids.shortest or counted:
        return []
    text = f"ids have {ids.shortest} to {ids.longest} digits and none begins with 0: leading zeros may have been lost"
    return [Note(ids.name, text, "warning")]


def _column_quality(cells: pl.Series, kind: Kind, settings: PrepareSettings) -> ColumnQuality:
    present = cells.drop_nulls()
    edges, labels, counts = _picture(present, kind)
    ordered = kind in ("number", "date") and len(present) > 0
    low, high = (_short(present.min()), _short(present.max())) if ordered else ("", "")
    pooled = len(pooled_levels(cells, settings)) if kind == "category" and len(present) else 0
    counted = cells.null_count(), present.n_unique(), pooled
    return ColumnQuality(cells.name, kind_name(kind), *counted, low, high, edges, labels, counts)


def _picture(present: pl.Series, kind: Kind) -> tuple[tuple[float, ...], tuple[str, ...], tuple[int, ...]]:
    """A histogram's edges, or the labels of bars; and how many rows each has."""
    if kind == "number":
        finite = present.filter(present.is_finite()).to_numpy()
        if not finite.size:
            return (), (), ()
        counts, edges = np.histogram(finite, min(_BINS, len(np.unique(finite))))
        return tuple(edges.tolist()), (), tuple(counts.tolist())
    if kind == "date" and len(present):
        return (), *_bars(_periods(present).value_counts().sort(present.name))
    if isinstance(kind, tuple):
        return (), *_bars(present.value_counts().sort(present.name))
    levels = present.cast(pl.String).value_counts().sort(["count", present.name], descending=[True, False])
    return (), *_bars(levels.head(_BARS))


def _periods(dates: pl.Series) -> pl.Series:
    """For each date its month, or as many years as make few bars."""
    years = dates.dt.year()
    span = int(years.max()) - int(years.min()) + 1  # type: ignore[arg-type]
    if span == 1:
        return dates.dt.strftime("%Y-%m")
    step = math.ceil(span / _BARS)
    first = years - (years - years.min()) % step
    if step == 1:
        return first.cast(pl.String)
    return (first.cast(pl.String) + "-" + (first + step - 1).cast(pl.String)).alias(dates.name)


def _bars(counted: pl.DataFrame) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return tuple(counted.to_series(0).cast(pl.String)), tuple(counted["count"])


def _about_column(cells: pl.Series, kind: Kind, column: ColumnQuality) -> list[Note]:
    """What looks wrong with a column, a warning for each."""
    present, rows = cells.drop_nulls(), len(cells)
    if not len(present):
        return [Note(column.name, "no row has a value, so the column is left out", "warning")]
    found = []
    if column.missing > _MOSTLY_MISSING * rows:
        found.append(f"{column.missing:,} of {rows:,} cells are missing")
    if column.distinct == 1:
        found.append("all rows have the same value")
    elif column.distinct > max(_NEAR_UNIQUE * len(present), _FEW_ROWS) and _could_be_an_id(present, kind):
        found.append("nearly every row has a value of its own, as an id has")
    if kind == "category":
        found += _about_category(present, column)
    return [Note(column.name, text, "warning") for text in found]


def _could_be_an_id(present: pl.Series, kind: Kind) -> bool:
    whole = kind == "number" and bool((present == present.round()).all())
    return kind == "category" or (whole and len(present) == present.n_unique())


def _about_category(present: pl.Series, column: ColumnQuality) -> list[str]:
    found = []
    if column.pooled == column.distinct > 1:
        found.append(f"all {column.distinct:,} levels are rare, so they are pooled into one that tells nothing")
    elif 2 * column.pooled > column.distinct:
        found.append(f"{column.pooled:,} of {column.distinct:,} levels are rare and are pooled into one")
    if (alike := column.distinct - present.str.to_lowercase().n_unique()) > 0:
        found.append(f"{alike:,} levels differ from others only in capital and small letters")
    return found


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value.is_integer() and abs(value) < _LARGE else f"{value:g}"
