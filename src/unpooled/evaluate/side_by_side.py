"""Two samples of one column side by side: fractions by bins or levels, for pictures.

>>> column = Column(name="age", kind="number", low=0.0, high=3.0, whole=True, spread=1.0)
>>> found = side_by_side(column, np.array([0.0, 1.0, 1.0, 3.0]), np.array([2.0, 3.0]))
>>> found.edges, found.first, found.second
((-0.5, 0.5, 1.5, 2.5, 3.5), (0.25, 0.5, 0.0, 0.25), (0.0, 0.0, 0.5, 0.5))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled.arrays import Floats
from unpooled.data.coding import Column
from unpooled.evaluate.distribution import kolmogorov_smirnov, total_variation

OTHERS = "all others"
_BINS, _LEVELS = 20, 12
_LONG = 3.0
_MOST = (0.01, 0.99)


@dataclass(frozen=True)
class SideBySide:
    """Fractions of both samples by bins, between `edges`, or by `levels`; `apart` is KS or total variation.

    If tails are `cut`, the first and the last bin hold what lies beyond them too.
    """

    edges: tuple[float, ...]
    levels: tuple[str, ...]
    first: tuple[float, ...]
    second: tuple[float, ...]
    apart: float
    cut: bool = False


def side_by_side(column: Column, first: Floats, second: Floats, *, cut: bool = False) -> SideBySide:
    """Compare known cells, at least one of each sample; `cut` allows to shorten the axis where there are long tails."""
    edges, levels, shortened = tuple[float, ...](), tuple[str, ...](), False
    if column.is_number:
        apart = kolmogorov_smirnov(first, second)
        ends, shortened = _ends(column, first) if cut else ((column.low or 0.0, column.high or 0.0), False)
        bins = _edges(ends, column.whole)
        edges = tuple(bins.tolist())
        counts = [np.histogram(np.clip(part, *ends), bins)[0] for part in (first, second)]
    else:
        apart = total_variation(first, second)
        levels, counts = _by_level(column, first, second)
    one, two = (tuple((np.array(each) / max(int(np.sum(each)), 1)).tolist()) for each in counts)
    return SideBySide(edges, levels, one, two, apart, shortened)


def _ends(column: Column, cells: Floats) -> tuple[tuple[float, float], bool]:
    """The range of a column, or that of most cells if it is much longer than that."""
    low, high = column.low or 0.0, column.high or 0.0
    inner = np.quantile(cells, _MOST)
    width = float(inner[1] - inner[0])
    if not 0.0 < _LONG * width < high - low:
        return (low, high), False
    ends = (float(np.floor(inner[0])), float(np.ceil(inner[1]))) if column.whole else (float(inner[0]), float(inner[1]))
    return ends, True


def _edges(ends: tuple[float, float], whole: bool) -> Floats:
    """Bins over a range; few whole numbers have one each."""
    low, high = ends
    if low == high or (whole and high - low < _BINS):
        return np.arange(low, high + 2) - 0.5
    return np.linspace(low, high, _BINS + 1)


def _by_level(column: Column, first: Floats, second: Floats) -> tuple[tuple[str, ...], list[Any]]:
    """The most frequent levels, and how many cells of both samples have each; the rest together."""
    if column.kind == "boolean":
        names: tuple[str, ...] = ("false", "true")
    else:
        names = column.kind if isinstance(column.kind, tuple) else column.levels
    counts = [np.bincount(part.astype(np.int64), minlength=len(names)) for part in (first, second)]
    if len(names) <= _LEVELS:
        return names, counts
    order = np.argsort(-counts[0], kind="stable")
    frequent, rest = order[: _LEVELS - 1], order[_LEVELS - 1 :]
    shown = [np.append(each[frequent], each[rest].sum()) for each in counts]
    return (*(names[place] for place in frequent), OTHERS), shown
