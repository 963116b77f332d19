"""Bags: rows taken for positive and rows taken for negative, drawn alike on every machine.

Every method of this folder is a way of making bags and of putting together what is learned from them. How one learns
from a bag is another matter: alone or together, with trees or with anything else.

>>> known = np.array([True, False, False, False])
>>> bag, = drawn_bags(known, np.flatnonzero(~known), count=1, seeds=(1,))
>>> bag.labels.tolist(), float(bag.weights.sum())
([1.0, 0.0, 0.0, 0.0], 2.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError
from unpooled.vertical.numbers import exp, log
from unpooled.vertical.targets import SEEDS, Target

CLASSES = ("other", "positive")
_GRAINS = 2**52
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Bag:
    """Which rows count as positive, and how much each row counts; those that count for nothing are outside the bag.

    `seed` is for the draws of whoever learns from it.
    """

    positive: Bools
    weights: Floats
    seed: int

    @cached_property
    def outside(self) -> Bools:
        outside: Bools = self.weights == 0
        return outside

    @property
    def negative(self) -> Bools:
        """The rows that were drawn as negatives."""
        negative: Bools = ~self.positive & ~self.outside
        return negative

    @property
    def labels(self) -> Floats:
        return self.positive.astype(float)

    @property
    def target(self) -> Target:
        return Target(self.labels, self.weights, self.seed)


Learn = Callable[[Sequence[Bag]], Sequence[Floats]]
"""Learns from several bags together; for each gives every row's probability of being positive.

What it says of a row that the bag has as a negative is never used, and may be not-a-number.
"""


def drawn_bags(
    positive: Bools,
    candidates: Ints,
    count: int,
    seeds: tuple[int, ...],
    likely: Floats | None = None,
    gamma: float = 0.0,
) -> list[Bag]:
    """Bags of all positives and as many draws from the candidates, with replacement.

    A candidate's chance goes with (1 - how likely it is)^gamma.
    """
    chances = None if likely is None or not gamma else _chances(likely[candidates], gamma)
    size, bags = int(positive.sum()), []
    for number in range(count):
        rng = np.random.default_rng([*seeds, number])
        if chances is None:
            places = rng.integers(len(candidates), size=size)
        else:
            places = np.searchsorted(chances, rng.integers(int(chances[-1]), size=size), side="right")
        drawn = np.bincount(candidates[places], minlength=len(positive))
        bags.append(Bag(positive, (positive + drawn).astype(float), int(rng.integers(SEEDS))))
    return bags


def folded_bags(
    known: Bools, positive: Bools, negative: Bools, folds: int, seeds: tuple[int, ...], *, balanced: bool
) -> list[Bag]:
    """Bags of positives against negatives, from each of which another fold of the rows that are not known is left out.

    So a row that counts as either without being known is outside one bag, and its score owes nothing to its label.
    If `balanced`, both sides weigh the same in every bag.
    """
    rng = np.random.default_rng([*seeds])
    fold = np.full(len(known), -1)
    unknown = np.flatnonzero(~known)
    if len(unknown) < folds:
        raise InputError(f"folds: {len(unknown)} unlabelled rows cannot be divided into {folds}")
    fold[rng.permutation(unknown)] = np.arange(len(unknown)) % folds
    return fold_bags(positive, (positive | negative).astype(float), fold, rng, balanced=balanced)


def fold_bags(positive: Bools, weights: Floats, fold: Ints, rng: np.random.Generator, *, balanced: bool) -> list[Bag]:
    """For each fold a bag of all rows outside of it; if `balanced`, both sides weigh the same."""
    bags = []
    for number in range(int(fold.max()) + 1):
        inside = np.where(fold == number, 0.0, weights)
        ours, theirs = positive & (inside > 0), ~positive & (inside > 0)
        if not ours.any() or not theirs.any():
            raise InputError("folds: rows of one kind are so few that none is left when a fold is taken out")
        if balanced:
            inside = np.where(positive, inside * inside[~positive].sum() / inside[positive].sum(), inside)
        bags.append(Bag(ours, inside, int(rng.integers(SEEDS))))
    return bags


def is_bag(labels: Floats, weights: Floats) -> bool:
    """Whether labels and weights can be those of a bag: positives weigh the same, and of others there are copies.

    So weights cannot be chosen to tell rows apart in a sum, but by how often a row was drawn.
    """
    inside = weights > 0
    positive, other = labels[inside & (labels == 1)], weights[inside & (labels == 0)]
    of_positive = weights[inside & (labels == 1)]
    one_weight = len(positive) > 0 and bool((of_positive == of_positive[0]).all())
    drawn = bool((other == np.rint(other)).all()) and (bool((other == 1).all()) or other.sum() == of_positive.sum())
    return one_weight and drawn and len(positive) + len(other) == int(inside.sum())


class Means:
    """Each row's mean score over the models that count for it, added up in their order; not-a-number if none does."""

    def __init__(self, rows: int) -> None:
        self._total, self._times = np.zeros(rows), np.zeros(rows)

    def add(self, scores: Floats, counts: Bools) -> None:
        self._total[counts] += scores[counts]
        self._times += counts

    @property
    def values(self) -> Floats:
        values: Floats = np.divide(
            self._total, self._times, out=np.full(len(self._total), np.nan), where=self._times > 0
        )
        return values


def outside_means(bags: Sequence[Bag], found: Sequence[Floats]) -> Floats:
    """Each row's mean score over the bags that it is outside of; not-a-number if it is in all of them."""
    means = Means(len(bags[0].weights))
    for bag, scores in zip(bags, found, strict=True):
        means.add(scores, bag.outside)
    return means.values


def _chances(likely: Floats, gamma: float) -> Ints:
    """Running sums of whole numbers that go with (1 - likely)^gamma; rows without a score count as unlikely."""
    unlikely = 1.0 - np.where(np.isnan(likely), 0.0, likely)
    powers = exp(gamma * log(np.maximum(unlikely, _LEAST)))
    grains = np.rint(powers / powers.max() * (_GRAINS // len(powers))).astype(np.int64)
    return np.cumsum(grains)
