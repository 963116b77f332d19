"""A ranking of the unlabelled rows: what every method gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Ranking:
    """For every row its score, and the iteration in which it was promoted, 0 if in none; known rows have neither.

    A promoted row keeps the score of its iteration. A row that was in all bags has not-a-number for a score, and ranks
    last.
    """

    known: Bools
    scores: Floats
    iterations: Ints

    @property
    def order(self) -> Ints:
        """The unlabelled rows, the likeliest first: by iteration, then by score, then by row."""
        rows = np.flatnonzero(~self.known)
        never = self.iterations.max(initial=0) + 1
        iteration = np.where(self.iterations > 0, self.iterations, never)[rows]
        return rows[np.lexsort((rows, -_comparable(self.scores[rows]), iteration))]

    @property
    def promoted(self) -> Ints:
        """The rows that were promoted, the likeliest first."""
        return self.order[: int((self.iterations[~self.known] > 0).sum())]


def likeliest(scores: Floats, rows: Ints) -> Ints:
    """Rows by score, the highest first; equal ones, and those without a score, by row, the latter at the end."""
    rows = np.sort(rows)
    return rows[np.argsort(-_comparable(scores[rows]), kind="stable")]


def _comparable(scores: Floats) -> Floats:
    return np.where(np.isnan(scores), -np.inf, scores)
