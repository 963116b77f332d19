"""Rows as the adversarial imputers see them, and which of their cells are hidden in training.

Numbers and dates are scalars between 0, the least that was seen, and 1, the most. All other types are groups of one-hot
units. Missing cells have no unit: which cells are known is told by rows × columns of true and false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.data.coding import Column
from unpooled.networks.coders import OneHot
from unpooled.networks.encoding import Encoding, Layout, Singles, learn_encoding

_ROUND = 8
_PATTERNS = 100_000
_AS_OTHERS = 0.5
_WHOLLY = 0.02


def learn_cells(columns: Sequence[Column], values: Floats, levels: int) -> Encoding:
    """How to code columns that have at least one known cell each."""
    learned = learn_encoding(columns, values, "range", levels=levels)
    return Encoding(tuple(replace(coder, missing=False) for coder in learned.coders))


def narrowed(layout: Layout) -> Layout:
    """The layout with less padding: small networks are fast, if they are not made wide."""
    used = int(np.flatnonzero(layout.column_of >= 0).max(initial=layout.scalar_units - 1)) + 1
    return replace(layout, width=min(-(-(used + 1) // _ROUND) * _ROUND, layout.width))


def encoded(encoding: Encoding, values: Floats, rng: np.random.Generator) -> tuple[Singles, Bools]:
    """Rows as units, and which cells are known: neither missing nor a level that was not learned."""
    layout = narrowed(encoding.layout)
    units = encoding.encode(values, rng)[:, : layout.width]
    known = ~np.isnan(values)
    scalars = [unit for unit in layout.scalars if unit >= 0]
    units[:, scalars] = (units[:, scalars] + 1.0) / 2.0
    for group in layout.groups:
        known[:, group.column] &= units[:, group.start : group.start + group.units].any(axis=1)
    return units, known


def decoded(encoding: Encoding, units: Singles, rng: np.random.Generator) -> Floats:
    """Units as rows: one unit of each group is drawn, its numbers being chances."""
    scalars = encoding.layout.scalar_units
    return encoding.decode(np.hstack([units[:, :scalars] * 2.0 - 1.0, units[:, scalars:]]), rng, missing=False)


def most_likely(encoding: Encoding, units: Singles) -> Singles:
    """Units with the greatest of each group as 1 and the others as 0; levels that share one unit are never chosen."""
    found = units.copy()
    for group in encoding.layout.groups:
        coder = encoding.coders[group.column]
        own = len(coder.levels) if isinstance(coder, OneHot) else group.units
        chances = units[:, group.start : group.start + own]
        found[:, group.start : group.start + group.units] = 0.0
        found[np.arange(len(units)), group.start + chances.argmax(axis=1)] = 1.0
    return found


def patterns_of(values: Floats, rng: np.random.Generator) -> Bools:
    """Which cells are known in rows that miss some, at most so many of them; no row if none misses any."""
    known = ~np.isnan(values)
    rows = np.flatnonzero(~known.all(axis=1))
    return known[rng.choice(rows, _PATTERNS, replace=False) if len(rows) > _PATTERNS else rows]


def shown_cells(known: Bools, patterns: Bools, hiding: float, rng: np.random.Generator) -> Bools:
    """Known cells without some that are hidden: as in another row of the table, or a fraction at random, or all.

    Half of the rows are hidden as other rows are, so that what is missing together is hidden together.
    """
    rows, columns = known.shape
    shown = rng.random((rows, columns), np.float32) >= hiding
    if len(patterns):
        alike = np.flatnonzero(rng.random(rows) < _AS_OTHERS)
        shown[alike] = patterns[rng.integers(len(patterns), size=len(alike))]
    shown[rng.random(rows) < _WHOLLY] = False
    return known & shown
