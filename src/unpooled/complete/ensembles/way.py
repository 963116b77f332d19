"""What a way to combine completers offers: one `Way` describes each, and `ensembles` makes completers of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.ensembles.settings import EnsembleSettings
from unpooled.data.coding import Column

Combine = Callable[[Floats], Floats]
"""From members' answers, members × rows × columns, to rows × columns with the wanted cells filled."""


class Combination(Protocol):
    """What a way has learned: a frozen dataclass of arrays of floats."""

    def fits(self, members: int, columns: int) -> bool:
        """Whether the arrays are of so many members and columns."""


@dataclass(frozen=True)
class Way:
    """One way to combine members: its settings, what it learns, how it learns that, and how it then combines.

    `learn` has (settings, columns, values, rng), `prepare` (settings, columns, what was learned, values, wanted).
    """

    settings: type[EnsembleSettings]
    learned: type[Combination]
    learn: Callable[[Any, Sequence[Column], Floats, np.random.Generator], Combination]
    prepare: Callable[[Any, Sequence[Column], Any, Floats, Bools], Combine]


def by_column(wanted: Bools, one_column: Callable[[int, Floats], Floats]) -> Combine:
    """Combine columns one by one: (place, what members answer there, members × wanted cells) to the cells."""

    def combine(found: Floats) -> Floats:
        filled = np.full(wanted.shape, np.nan)
        for place in np.flatnonzero(wanted.any(axis=0)):
            rows = wanted[:, place]
            filled[rows, place] = one_column(int(place), found[:, rows, place])
        return filled

    return combine
