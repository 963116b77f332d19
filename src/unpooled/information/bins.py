"""One party's columns as bins, each with enough rows.

Numbers, dates and ordered categories are cut into ranges with about as many rows each, as for trees
(`vertical.trees.binning`). A category has a bin for each of its most frequent levels, and one for all others. Missing
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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from math import floor

import numpy as np
import polars as pl

from unpooled.arrays import Bytes
from unpooled.data.coding import codes
from unpooled.data.columns import Kind, as_text
from unpooled.data.table import Table
from unpooled.vertical.trees.binning import LEAST_BINS, fit_bins

MOST_BINS = 100
_EPOCH = date(1970, 1, 1)
_MISSING, _OTHERS = "missing", "other levels"

__all__ = ["LEAST_BINS", "MOST_BINS", "Bin", "ColumnBins", "column_in_bins", "columns_in_bins", "slots_for"]


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
    matrix, name = values[:, np.newaxis], cells.name
    (found,) = fit_bins(matrix, [name], bins=most, bundle=False, min_rows=min_rows, party=party).features
    meanings = list(_levels_of(kind, found.edges) if isinstance(kind, tuple) else _ranges_of(kind, found.edges))
    if found.missing is True:
        meanings.append(Bin(_MISSING))
    elif found.missing:
        meanings[found.usual] = _also(meanings[found.usual])
    return ColumnBins(name, found.bins_of(values).astype(np.uint8), tuple(meanings))


def _ranges_of(kind: Kind, edges: tuple[float, ...]) -> Iterator[Bin]:
    """Ranges between edges, each with its upper end, the last one with all that is above."""
    ends = ["", *(_end(kind, edge) for edge in edges), ""]
    for above, up_to in pairwise(ends):
        parts = [f"above {above}"] * bool(above) + [f"up to {up_to}"] * bool(up_to)
        yield Bin(" ".join(parts) or "all values", above, up_to)


def _end(kind: Kind, edge: float) -> str:
    return str(_EPOCH + timedelta(days=floor(edge))) if kind == "date" else repr(float(edge))


def _levels_of(levels: tuple[str, ...], edges: tuple[float, ...]) -> Iterator[Bin]:
    """Neighbouring levels of an ordered category."""
    places = np.searchsorted(np.array(edges, np.float64), np.arange(len(levels), dtype=np.float64))
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
    groups = (
        texts.replace_strict(numbers, default=others, return_dtype=pl.Int64).set(texts.is_null(), missing).to_numpy()
    )
    sizes = np.bincount(groups, minlength=missing + 1)
    kept = np.flatnonzero(sizes >= min(min_rows, sizes.max()))
    fullest = int(sizes[kept].argmax())
    bins = np.full(len(sizes), fullest)
    bins[kept] = np.arange(len(kept))
    words = [*levels, _OTHERS, _MISSING]
    meanings = [Bin(words[group]) for group in kept]
    for group in np.flatnonzero((sizes > 0) & (sizes < min_rows)):
        if group not in kept:
            meanings[fullest] = _also(meanings[fullest], words[group])
    return ColumnBins(cells.name, bins[groups].astype(np.uint8), tuple(meanings))


def _also(one: Bin, what: str = _MISSING) -> Bin:
    return replace(one, text=f"{one.text}, or {what}")
