"""A party's columns in bins, and what they say of groups of people that the party knows as counts by bin only.

A bin holds at least twice as many people as the fewest that anything is said of: a count says little about any of them,
and a level with fewer people could not be told anyway. Numbers and dates are binned by ranges, which never separate
equal values. A category has a bin for each of its most frequent levels, and one for the others; if these are too few,
they count as missing. Missing cells have a bin of their own; if they are too few, they join the fullest bin. Means and
medians come from ranges: a group's people are taken to be spread within a range as all people there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from unpooled.arrays import Floats, Ints, Ints32
from unpooled.data.columns import as_text
from unpooled.data.table import Table
from unpooled.jobs.lookalike.in_common import MEAN, MEDIAN, MONTH, Line, level_lines, months_of, rounded

MOST_BINS = 20
_LEAST_BINS = 3
"""A level, the other levels, and missing."""


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """The bin of each row. The first bins are `ranges`, the sorted values of each, or `levels`; the rest is in no line.

    `counted` is how many bins have cells that are not missing.
    """

    name: str
    bins: Ints32
    size: int
    counted: int
    ranges: tuple[Floats, ...] = ()
    levels: tuple[str, ...] = ()
    dates: bool = False


def binned(table: Table, columns: Sequence[str], fewest: int, most: int) -> list[BinnedColumn]:
    """These columns in at most so many bins in all; columns that cannot be told about are left out."""
    columns = columns[: most // _LEAST_BINS]
    each = min(MOST_BINS, most // len(columns)) if columns else 0
    found = [_binned(table, name, 2 * fewest, each) for name in columns]
    return [column for column in found if column]


def _binned(table: Table, name: str, smallest: int, most: int) -> BinnedColumn | None:
    cells, kind = table.column(name), table.kinds[name]
    bins = np.full(len(cells), -1, np.int32)
    present = cells.is_not_null().to_numpy()
    held, ranges, levels = cells.drop_nulls(), list[Floats](), list[str]()
    if kind in ("number", "date"):
        values = (held if kind == "number" else pl.Series(months_of(held))).cast(pl.Float64).to_numpy()
        bins[present] = _in_ranges(values, max(smallest, -(-len(values) // (most - 1))))
        ranges = [np.sort(values[bins[present] == number]) for number in range(int(bins.max(initial=-1)) + 1)]
    else:
        bins[present], levels = _in_levels(as_text(held), smallest, most - 2)
    if not len(held) >= smallest or not (ranges or levels):
        return None
    counted = int(bins.max()) + 1
    missing, sizes = bins < 0, np.bincount(bins[bins >= 0])
    bins[missing] = counted if missing.sum() >= smallest else sizes.argmax()
    size = int(bins.max()) + 1
    return BinnedColumn(name, bins, size, counted, tuple(ranges), tuple(levels), kind == "date")


def _in_ranges(values: Floats, smallest: int) -> Ints:
    """Ranges of at least so many values each, or one for all."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    number, held, left, ranges = 0, 0, len(values), np.empty(len(counts), np.int64)
    for value, count in enumerate(counts.tolist()):
        ranges[value] = number
        held, left = held + count, left - count
        if min(held, left) >= smallest:
            number, held = number + 1, 0
    found: Ints = ranges[place]
    return found


def _in_levels(texts: pl.Series, smallest: int, most: int) -> tuple[Ints, list[str]]:
    """The most frequent levels first, then one bin for all others; -1 if these are too few for that."""
    counts = sorted(texts.value_counts().iter_rows(), key=lambda pair: (-pair[1], pair[0]))
    levels = [level for level, count in counts if count >= smallest][:most]
    number = {level: place for place, level in enumerate(levels)}
    found = np.array([number.get(text, len(levels)) for text in texts], np.int64)
    others = found == len(levels)
    if others.sum() < smallest:
        found[others] = -1
    return found, levels


def lines_from(party: str, columns: Sequence[BinnedColumn], counts: Ints, fewest: int) -> list[Line]:
    """What columns say, given how many listed people and how many others are in each bin, column after column."""
    ends = np.cumsum([column.size for column in columns])[:-1]
    each = zip(columns, np.split(counts, ends), strict=True)
    return [line for column, part in each for line in _lines(party, column, part[: column.counted], fewest)]


def _lines(party: str, column: BinnedColumn, counts: Ints, fewest: int) -> Iterator[Line]:
    listed, others = (int(people) for people in counts.sum(axis=0))
    if min(listed, others) < fewest:
        return
    if column.levels:
        each, beside = (dict(zip(column.levels, group.tolist(), strict=False)) for group in counts.T)
        yield from level_lines(party, column.name, each, beside, (listed, others), fewest)
        return
    medians = [_median(column.ranges, group) for group in counts.T]
    if column.dates:
        yield Line(party, column.name, MONTH, "", *(float(round(median)) for median in medians))
        return
    inside = np.array([values.mean() for values in column.ranges])
    means = [float((inside * group).sum() / group.sum()) for group in counts.T]
    yield Line(party, column.name, MEAN, "", *map(rounded, means))
    yield Line(party, column.name, MEDIAN, "", *map(rounded, medians))


def _median(ranges: Sequence[Floats], counts: Ints) -> float:
    """The value with as many of a group below as above, if the group is spread in each range as all are."""
    half, ends = counts.sum() / 2, counts.cumsum()
    place = int(np.searchsorted(ends, half))
    below = ends[place] - counts[place]
    return float(np.quantile(ranges[place], (half - below) / counts[place]))
