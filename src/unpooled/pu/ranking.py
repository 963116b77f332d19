"""A ranking of the unlabelled rows: what every method gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from unpooled.arrays import Bools, Floats, Ints

Order = Literal["score", "promotion"]


@dataclass(frozen=True, eq=False)
class Ranking:
    """For every row its score, and the iteration in which it was promoted, 0 if in none; known rows have neither.

    A row without a score has not-a-number, and ranks last. By promotion, rows go by iteration first, then by score.
    """

    known: Bools
    scores: Floats
    iterations: Ints
    by: Order = "score"

    @property
    def order(self) -> Ints:
        """The unlabelled rows, the likeliest first; equal ones by row."""
        ranked = likeliest(self.scores, np.flatnonzero(~self.known))
        if self.by == "score":
            return ranked
        never = self.iterations.max(initial=0) + 1
        iteration = np.where(self.iterations > 0, self.iterations, never)[ranked]
        return ranked[np.argsort(iteration, kind="stable")]

    @property
    def promoted(self) -> Ints:
        """The rows that were promoted, the likeliest first."""
        order = self.order
        return order[self.iterations[order] > 0]


def likeliest(scores: Floats, rows: Ints) -> Ints:
    """Rows by score, the highest first; equal ones, and those without a score, by row, the latter at the end."""
    rows = np.sort(rows)
    return rows[np.argsort(-_comparable(scores[rows]), kind="stable")]


def _comparable(scores: Floats) -> Floats:
    return np.where(np.isnan(scores), -np.inf, scores)
