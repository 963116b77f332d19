"""Filling rows by generated ones, for models that cannot draw given some cells.

Each row takes all its wanted cells from that generated row whose other cells are nearest to its known ones (Gower's
distance), so that filled cells fit each other. Candidates are generated anew for every block of rows and every draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.data.coding import Column, distances
from unpooled.networks.trained import Trained

CANDIDATES = 500
_ROWS = 500

Generate = Callable[[int, np.random.Generator], Floats]
"""(rows, rng) to that many generated rows, without missing cells."""


def fill_by_matching(
    columns: Sequence[Column],
    generate: Generate,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
    candidates: int = CANDIDATES,
) -> Floats:
    """Values with the wanted cells filled; among equally near candidates one is drawn."""
    filled = values.copy()
    known = np.where(wanted, np.nan, values)
    for start in range(0, len(values), _ROWS):
        rows = slice(start, start + _ROWS)
        pool = generate(candidates, rng)
        near = distances(columns, known[rows], pool)
        ties = near <= near.min(axis=1, keepdims=True) + 1e-12
        chosen = np.where(ties, rng.random(near.shape), -1.0).argmax(axis=1)
        filled[rows] = np.where(wanted[rows], pool[chosen], values[rows])
    return filled


def filling_by_matching(sample: Callable[..., Floats]) -> Callable[..., Floats]:
    """The `fill` of a model that has this `sample` (`generators.Model`)."""

    def fill(
        settings: Any,
        columns: Sequence[Column],
        trained: Trained,
        values: Floats,
        wanted: Bools,
        rng: np.random.Generator,
    ) -> Floats:
        """Values with the wanted cells filled from generated rows that are near to the known ones."""
        generate = partial(sample, settings, columns, trained, missing=False)
        return fill_by_matching(columns, generate, values, wanted, rng)

    return fill
