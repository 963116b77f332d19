"""How much of a passive party's table in bins an active party holds, by the splits that were opened to it.

An opened split says of some rows on which side of a threshold they are, so each leaves fewer bins possible for a cell:
a run of bins for values, and the bin of missing values, or not that. With hidden nodes a split is opened for all rows.

What is learned of a cell is counted in bits: -log2 of the fraction of rows that have one of the bins still possible for
it. The table has as many bits as are learned when every cell's bin is known: the entropy of its columns.

>>> from unpooled.vertical.trees.bundles import Feature
>>> layout = Layout((Feature(values=4, missing=False, usual=0),), ((0,),))
>>> bins = np.array([[0], [1], [2], [3]], np.uint16)
>>> sides = OpenedSides(layout, rows=4)
>>> sides.open(0, 1, False, slice(None), bins[:, 0] > 1)
>>> sides.held(bins)
Held(thresholds=1, all_thresholds=3, known=0.0, bits=4.0, table_bits=8.0)
>>> sides.open(0, 2, False, slice(None), bins[:, 0] > 2)
>>> sides.held(bins).known
0.5
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError
from unpooled.evaluate.distribution import spearman
from unpooled.vertical.trees.bundles import Bins, Layout


@dataclass(frozen=True)
class Held:
    """How many different thresholds were opened, of how many; the fraction of cells whose bin is known; bits learned.

    Columns with a single bin have nothing to learn, and do not count.
    """

    thresholds: int
    all_thresholds: int
    known: float
    bits: float
    table_bits: float

    @property
    def fraction(self) -> float:
        """The fraction of the table's bits."""
        return self.bits / self.table_bits if self.table_bits else 0.0


class OpenedSides:
    """What the opened splits leave possible of each cell: values from `low` to `high`, and missing ones or not."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self.layout = layout
        self.low = np.zeros((rows, len(layout.features)), np.int64)
        self.high = np.tile(layout.values - 1, (rows, 1))
        self.missing: Bools = np.tile(np.array([feature.missing for feature in layout.features], bool), (rows, 1))
        self._thresholds = set[tuple[int, int]]()

    def open(self, feature: int, place: int, missing_left: bool, rows: Ints | slice, right: Bools) -> None:
        """A split after the bin `place`: whether each of these rows is on its right."""
        low, high, missing = (each[rows, feature] for each in (self.low, self.high, self.missing))
        self.low[rows, feature] = np.where(right, np.maximum(low, place + 1), low)
        self.high[rows, feature] = np.where(right, high, np.minimum(high, place))
        self.missing[rows, feature] = missing & (right != missing_left)
        if place < self.layout.features[feature].values - 1:  # else it says who is missing, and reveals no threshold
            self._thresholds.add((feature, place))

    def possible(self, bins: Bins) -> Ints:
        """How many rows have a bin that is still possible for a cell, by cell; `bins` are the true ones."""
        found = np.empty(bins.shape, np.int64)
        for number, feature in enumerate(self.layout.features):
            low, high, missing = self.low[:, number], self.high[:, number], self.missing[:, number]
            column = bins[:, number].astype(np.int64)
            is_missing = column == feature.values
            if not np.where(is_missing, missing & feature.missing, (low <= column) & (column <= high)).all():
                raise InputError(f"opened sides: feature {number} has bins that the opened splits rule out")
            counts = np.bincount(column, minlength=feature.size)
            up_to = np.append(0, np.cumsum(counts[: feature.values]))
            found[:, number] = np.maximum(up_to[np.maximum(high + 1, low)] - up_to[low], 0)
            found[:, number] += missing * (counts[feature.values] if feature.missing else 0)
        return found

    def held(self, bins: Bins) -> Held:
        """How much of the table is held; `bins` are the true ones."""
        rows, features = len(bins), self.layout.features
        several = [number for number, feature in enumerate(features) if len(np.unique(bins[:, number])) > 1]
        possible, alike = self.possible(bins), np.empty(bins.shape, np.int64)
        for number, feature in enumerate(features):
            alike[:, number] = np.bincount(bins[:, number], minlength=feature.size)[bins[:, number]]
        return Held(
            thresholds=len(self._thresholds),
            all_thresholds=sum(feature.values - 1 for feature in features),
            known=float((possible == alike)[:, several].mean()) if several else 0.0,
            bits=_bits(possible[:, several], rows),
            table_bits=_bits(alike[:, several], rows),
        )

    def rank(self, values: Floats) -> float:
        """Spearman's correlation of the best guess with the real values, the mean over columns; 0 says nothing.

        `values` are by feature. A guess is the middle of the bins that are possible, and only cells with a value count.
        """
        there, guess = ~np.isnan(values), self.low + self.high
        each = [
            spearman(guess[there[:, k], k].astype(float), values[there[:, k], k]) if there[:, k].any() else 0.0
            for k in range(values.shape[1])
        ]
        return float(np.mean(each)) if each else 0.0


def _bits(groups: Ints, rows: int) -> float:
    return round(float(np.log2(rows / groups).sum()), 6) if groups.size else 0.0
