"""Calibrated models: a learner from bags whose scores are frequencies among rows of the bag that a model had not seen.

Each bag is divided into folds. For each fold a model learns from the others, and a function that never falls is fitted
to its scores of the fold's rows (isotonic, by `pu.estimates.calibration`). A row's score is the mean of the models',
each through its own function. It takes as many models as there are folds for each bag.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.pu.bags import Bag
from unpooled.pu.estimates.calibration import isotonic
from unpooled.pu.pooled.trees import Learner
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.targets import SEEDS

FOLDS = 3


class Calibrated:
    """A learner with calibrated models."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def __call__(self, bags: Sequence[Bag]) -> list[Floats]:
        parts = [_parts(bag) for bag in bags]
        scores = iter(self._learner([part for several in parts for part, _ in several]))
        return [
            mean_of_models([_calibrated(bag, left_out, next(scores)) for _, left_out in several])
            for bag, several in zip(bags, parts, strict=True)
        ]

    def score(self, matrix: Floats) -> Floats:
        """New rows are scored as the models have it, without calibration."""
        return self._learner.score(matrix)


def _parts(bag: Bag) -> list[tuple[Bag, Bools]]:
    """For each fold the bag without it, and which rows it has; both sides are divided evenly."""
    rng = np.random.default_rng(bag.seed)
    fold = np.full(len(bag.weights), -1)
    for side in (bag.positive & ~bag.outside, bag.negative):
        rows = rng.permutation(np.flatnonzero(side))
        fold[rows] = np.arange(len(rows)) % FOLDS
    found = []
    for number in range(FOLDS):
        left_out = fold == number
        inside = np.where(left_out, 0.0, bag.weights)
        found.append((Bag(bag.positive & (inside > 0), inside, int(rng.integers(SEEDS))), left_out))
    return found


def _calibrated(bag: Bag, left_out: Bools, scores: Floats) -> Floats:
    """The frequency of positives among the left-out rows with such a score, by weight."""
    levels, places = np.unique(scores[left_out], return_inverse=True)
    weights: Floats = np.bincount(places, bag.weights[left_out]).astype(np.float64)
    ones = np.bincount(places, bag.weights[left_out] * bag.positive[left_out])
    return np.asarray(np.interp(scores, levels, isotonic(ones / weights, weights)))
