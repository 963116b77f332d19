"""Rows that do not all count the same. Weights are the active party's secret, or shown to all (`show_weights`).

A party that knows the weights multiplies its columns by them, once. With one passive party it need not know them:
that party's gradient, whose residuals and columns are both its own, is the sum of two products, taken as one over twice
the rows: its columns with weighted residuals, and its columns times its residuals with the weights. With several
passive parties, or where gradients are not shown, columns times weights are kept in shares (`shared_columns`).

Weights are scaled to a mean of 1. All know by how many powers of two the heaviest passes that, so that the heavier a
row, the coarser the steps, and the same bits do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.vertical.linear.residuals import COLUMNS, RESIDUALS
from unpooled.vertical.numbers import mean_of

MOST_POWERS = 10
_MOMENTS = FixedPoint(fraction_bits=10, largest=COLUMNS.largest * RESIDUALS.largest)
_BITS, _MORE_BITS = 16, 18


@dataclass(frozen=True, eq=False)
class RowWeighting:
    """How rows count: all the same, or by weights that this party may know; `heaviest` is a power of two."""

    weighted: bool = False
    shown: bool = False
    heaviest: int = 0
    known: Floats | None = None

    @property
    def hidden(self) -> bool:
        return self.weighted and not self.shown

    @property
    def columns(self) -> FixedPoint:
        """Columns times weights."""
        return FixedPoint(_BITS - self.heaviest, COLUMNS.largest * 2.0**self.heaviest)

    @property
    def residuals(self) -> FixedPoint:
        """Residuals times weights."""
        return FixedPoint(_BITS - self.heaviest, RESIDUALS.largest * 2.0**self.heaviest)

    @property
    def weights(self) -> FixedPoint:
        return FixedPoint(_MORE_BITS - self.heaviest, 2.0**self.heaviest)

    def in_order(self, order: Ints) -> RowWeighting:
        known = None if self.known is None else self.known[order]
        return RowWeighting(self.weighted, self.shown, self.heaviest, known)


def weighting_of(weights: Floats, *, shown: bool) -> RowWeighting:
    """The weights, scaled; if all are the same, there are none."""
    if bool((weights == weights[0]).all()):
        return RowWeighting()
    scaled = weights / mean_of(weights, np.ones(len(weights)))
    part, power = frexp(float(scaled.max()))
    heaviest = max(power - (part == 0.5), 0)
    if heaviest > MOST_POWERS:
        raise InputError(
            f"weights: one is more than {2**MOST_POWERS} times the mean; a linear model does not take that"
        )
    return RowWeighting(True, shown, heaviest, scaled)


# A passive party's gradient by weights that it does not know. Both sides' products have the same unit.


def stacked_columns(columns: Ints, residuals: Ints) -> Ints:
    """The passive party's side, for one output: columns, and below them columns times residuals."""
    moments = COLUMNS.decode(columns) * RESIDUALS.decode(residuals)[:, np.newaxis]
    return np.concatenate([columns, _MOMENTS.encode(moments, "columns")])


def stacked_residuals(residuals: Ints, weights: Floats, weighting: RowWeighting) -> Ints:
    """The active party's side: weighted residuals, and below them the weights."""
    weighted = weighting.residuals.encode(RESIDUALS.decode(residuals) * weights, "residuals")
    return np.concatenate([weighted, weighting.weights.encode(weights, "weights")])[:, np.newaxis]


def stacked_bounds(weighting: RowWeighting) -> tuple[int, int]:
    return max(COLUMNS.bound, _MOMENTS.bound), max(weighting.residuals.bound, weighting.weights.bound)


def stacked_unit(weighting: RowWeighting) -> int:
    """The products' fraction bits."""
    return _MOMENTS.fraction_bits + weighting.weights.fraction_bits
