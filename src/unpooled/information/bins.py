"""One party's columns as bins, each with enough rows.

Numbers, dates and ordered categories are cut into ranges with about as many rows each, as for trees
(`vertical.edges`). A category has a bin for each of its most frequent levels, and one for all others. Missing
cells have a bin of their own. What would have too few rows for a bin joins the fullest one.

>>> cells = pl.Series("town", ["a", "a", "a", "a", "a", "b", "b", "c"])
>>> town = column_in_bins(cells, "category", most=2, min_rows=2, party="clinic")
>>> town.bins.tolist(), [each.text for each in town.meanings]
([0, 0, 0, 0, 0, 1, 1, 1], ['a', 'other levels'])
>>> ages = pl.Series("age", [20, 30, 40, 50, 60, 70, 80, None])
>>> [each.text for each in column_in_bins(ages, "number", most=2, min_rows=2, party="clinic").meanings]
['up to 45.0', 'above 45.0, or missing']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from math import floor

import numpy as np
import polars as pl

from unpooled.arrays import Bytes, Floats, Ints
from unpooled.data.coding import codes
from unpooled.data.columns import Kind, as_text
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.vertical.edges import edges_of

LEAST_BINS, MOST_BINS = 2, 100
_EPOCH = date(1970, 1, 1)
_MISSING, _OTHERS = "missing", "other levels"


@dataclass(frozen=True)
class Bin:
    """What is in a bin, in words; and the ends of a range, which it has without the lower one."""

    text: str
    above: str = ""
    up_to: str = ""


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """The bin of each row, and what each bin holds."""

    name: str
    bins: Bytes
    meanings: tuple[Bin, ...]


def slots_for(most: int) -> int:
    """How many bins every column counts as, so that nobody sees how many it has: one more, for missing cells."""
    return most + 1


def columns_in_bins(table: Table, *, most: int, min_rows: int) -> Iterator[ColumnBins]:
    """All columns besides the ids, one after the other."""
    for name, kind in table.kinds.items():
        yield column_in_bins(table.column(name), kind, most=most, min_rows=min_rows, party=table.party)


def column_in_bins(cells: pl.Series, kind: Kind, *, most: int, min_rows: int, party: str) -> ColumnBins:
    """A column in at most so many bins of at least so many rows each, and one more where cells are missing."""
    if kind in ("category", "boolean"):
        return _levels_in_bins(cells, most, min_rows)
    return _ranges_in_bins(cells, kind, most, min_rows, party)


def _ranges_in_bins(cells: pl.Series, kind: Kind, most: int, min_rows: int, party: str) -> ColumnBins:
    values = codes(cells, kind)
    if (infinite := np.flatnonzero(np.isinf(values))).size:
        raise InputError(f"{party}: column '{cells.name}': row {infinite[0] + 1}: an infinite value")
    edges = edges_of(values, most, min_rows)
    meanings = list(_levels_of(kind, edges) if isinstance(kind, tuple) else _ranges_of(kind, edges))
    groups = np.where(np.isnan(values), len(meanings), np.searchsorted(edges, values))
    return _gathered(cells.name, groups, [*meanings, Bin(_MISSING)], min_rows)


def _ranges_of(kind: Kind, edges: Floats) -> Iterator[Bin]:
    """Ranges between edges, each with its upper end, the last one with all that is above."""
    ends = ["", *(_end(kind, edge) for edge in edges.tolist()), ""]
    for above, up_to in pairwise(ends):
        parts = [f"above {above}"] * bool(above) + [f"up to {up_to}"] * bool(up_to)
        yield Bin(" ".join(parts) or "all values", above, up_to)


def _end(kind: Kind, edge: float) -> str:
    return str(_EPOCH + timedelta(days=floor(edge))) if kind == "date" else repr(edge)


def _levels_of(levels: tuple[str, ...], edges: Floats) -> Iterator[Bin]:
    """Neighbouring levels of an ordered category."""
    places = np.searchsorted(edges, np.arange(len(levels)))
    for number in range(len(edges) + 1):
        yield Bin(" | ".join(level for level, place in zip(levels, places, strict=True) if place == number))


def _levels_in_bins(cells: pl.Series, most: int, min_rows: int) -> ColumnBins:
    """The most frequent levels first, then the others, then missing cells; what is too small joins the fullest bin."""
    texts = as_text(cells)
    counts = sorted(texts.drop_nulls().value_counts().iter_rows(), key=lambda pair: (-pair[1], pair[0]))
    frequent = [level for level, count in counts if count >= min_rows]
    levels = frequent if len(counts) == len(frequent) <= most else frequent[: most - 1]
    numbers = {level: number for number, level in enumerate(levels)}
    others, missing = len(levels), len(levels) + 1
    places = texts.replace_strict(numbers, default=others, return_dtype=pl.Int64).set(texts.is_null(), missing)
    meanings = [Bin(text) for text in (*levels, _OTHERS, _MISSING)]
    return _gathered(cells.name, places.to_numpy(), meanings, min_rows)


def _gathered(name: str, groups: Ints, meanings: Sequence[Bin], min_rows: int) -> ColumnBins:
    """Groups of rows as bins; those that are too small join the fullest, and empty ones are none."""
    sizes = np.bincount(groups, minlength=len(meanings))
    kept = np.flatnonzero(sizes >= max(min(min_rows, sizes.max()), 1))
    fullest = int(sizes[kept].argmax())
    bins = np.full(len(sizes), fullest)
    bins[kept] = np.arange(len(kept))
    found = [meanings[group] for group in kept.tolist()]
    for group in np.flatnonzero(sizes).tolist():
        if group not in kept:
            found[fullest] = replace(found[fullest], text=f"{found[fullest].text}, or {meanings[group].text}")
    return ColumnBins(name, bins[groups].astype(np.uint8), tuple(found))
