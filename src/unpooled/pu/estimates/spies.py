"""Known positives that are treated as unlabelled, to see how a method treats positives (spies: Liu et al., ICML 2002).

Spies are a random part of the known rows, so what fraction of them is found is what fraction of all positives is found.
With the fraction of positives among the unlabelled rows that tells how many of those found are right. All of this is
the business of whoever holds the labels; nobody else needs to know that there are spies.

With few spies the estimates are rough: of n spies found, the spread is about 1 / √n of the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.errors import InputError
from unpooled.pu.estimates import calibration
from unpooled.pu.ranking import Ranking


@dataclass(frozen=True, eq=False)
class Spies:
    """Which rows are left as known, and which are spies among the unlabelled."""

    known: Bools
    spies: Bools

    @cached_property
    def others(self) -> Bools:
        """The rows that are truly unlabelled."""
        others: Bools = ~self.known & ~self.spies
        return others

    def recall(self, chosen: Bools) -> float:
        """The fraction of the spies among the rows chosen, and so about that of all positives."""
        return float(chosen[self.spies].mean())

    def lift(self, chosen: Bools) -> float:
        """How many times as large the fraction chosen is among spies as among the other unlabelled rows.

        Without end if spies alone are chosen, which few may be.
        """
        part, recall = float(chosen[self.others].mean()), self.recall(chosen)
        if not part and not recall:
            raise InputError("spies: no row is chosen, so there is nothing to compare")
        return recall / part if part else inf

    def precision(self, chosen: Bools, fraction: float) -> float:
        """About the fraction of positives among the rows chosen, if `fraction` of the unlabelled are; at most 1."""
        return min(fraction * self.lift(chosen), 1.0)

    def ranked(self, ranking: Ranking) -> Judged:
        """A ranking without its spies."""
        order = ranking.order
        return Judged(order[~self.spies[order]], np.flatnonzero(self.spies[order]), len(order))


@dataclass(frozen=True, eq=False)
class Judged:
    """The truly unlabelled rows, the likeliest first, and the places that spies had among `length` rows."""

    order: np.ndarray
    places: np.ndarray
    length: int

    @cached_property
    def heights(self) -> tuple[Floats, Floats]:
        """Places of spies and of others as scores that are all different."""
        others = np.setdiff1d(np.arange(self.length), self.places)
        return -self.places.astype(float), -others.astype(float)

    def chances(self, fraction: float) -> Floats:
        """For each row of the order its chance of being positive, never more than that of the row before."""
        spies, others = self.heights
        return calibration.chances(spies, others, fraction)


def hidden(known: Bools, fraction: float, rng: np.random.Generator) -> Spies:
    """Hide a random fraction of the known rows, one at least; one at least is left."""
    rows = np.flatnonzero(known)
    count = min(max(round(fraction * len(rows)), 1), len(rows) - 1)
    if count < 1:
        raise InputError("spies: at least two known rows are needed")
    spies = np.zeros(len(known), bool)
    spies[rng.choice(rows, count, replace=False)] = True
    return Spies(known & ~spies, spies)


class StopWhenFalling:
    """For `keep_going`: stop when a promotion holds far fewer positives than those before it, judged by spies.

    The lift of a promotion is the fraction of spies that it holds over the fraction of other rows that it holds.
    Precision is the lift times the fraction of positives, so that fraction need not be known to see precision fall. It
    stops when a lift is below `fraction` of that of all promotions before, unless fewer than `least` spies were to be
    expected in it.
    """

    def __init__(self, spies: Spies, fraction: float = 0.5, least: float = 5.0) -> None:
        self._spies, self._fraction, self._least = spies, fraction, least
        self.lifts: list[float] = []

    def __call__(self, ranking: Ranking) -> bool:
        last = int(ranking.iterations.max())
        now, before = ranking.iterations == last, (ranking.iterations > 0) & (ranking.iterations < last)
        self.lifts.append(self._spies.lift(now))
        if not before.any():
            return True
        usual = self._spies.lift(before)
        if usual == inf:
            return True
        expected = usual * now[self._spies.others].mean() * self._spies.spies.sum()
        return bool(expected < self._least or self.lifts[-1] >= self._fraction * usual)
