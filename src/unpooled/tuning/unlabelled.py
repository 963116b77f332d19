"""Folds of known positives as bags, and what candidates are judged by where nobody knows a negative.

Known positives that were held out are compared with the unlabelled rows, some of which are positive too. So the figures
are lower than with the truth; if the known are a random sample of all positives, that is so for all candidates alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.evaluate import metrics
from unpooled.pu.bags import Bag, drawn_bags, fold_bags, outside_means
from unpooled.pu.estimates.elkan_noto import folds_of
from unpooled.pu.settings import AnyMethod, FoldedSettings
from unpooled.tuning.settings import ListTuning
from unpooled.vertical.targets import SEEDS, Target

_DRAWS = 0x74756E65
"""Sets these draws apart from those of the search."""


@dataclass(frozen=True, eq=False)
class HeldOutFold:
    """Bags that some known rows have no part in, and which rows their models are judged on, these among them."""

    bags: tuple[Bag, ...]
    judged: Bools


@dataclass(frozen=True, eq=False)
class KnownFolds:
    """The folds of all repetitions; a list takes `fraction` of the unlabelled rows."""

    known: Bools
    weights: Floats | None
    folds: tuple[HeldOutFold, ...]
    fraction: float

    @property
    def targets(self) -> list[Target]:
        return [replace(bag.target, row_weights=self.weights) for fold in self.folds for bag in fold.bags]

    def measured(self, measure: str, scores: Sequence[Floats]) -> list[float]:
        """What the models of each fold are worth, by their scores of all rows."""
        left, found = iter(scores), []
        for fold in self.folds:
            means = outside_means(fold.bags, [next(left)[:, 0] for _ in fold.bags])
            rows = fold.judged & np.isfinite(means)
            weights = np.ones(len(means)) if self.weights is None else self.weights
            each = self.known[rows].astype(float), means[rows], weights[rows]
            found.append(_recall(*each, self.fraction) if measure == "recall" else metrics.auc(*each))
        return found


def known_folds(
    known: Bools, weights: Floats | None, method: AnyMethod, tuning: ListTuning, fraction: float, seed: int
) -> KnownFolds:
    """Hold out each fold of the known rows: from bags as the method draws them, or from one model as its first step."""
    folds = list[HeldOutFold]()
    for repeat in range(tuning.repeats):
        own = int(np.random.default_rng([seed, _DRAWS, repeat + 1]).integers(SEEDS))
        fold = folds_of(known, tuning.folds, own)
        if isinstance(method, FoldedSettings):
            rng = np.random.default_rng([own, 2])
            each = fold_bags(known, np.ones(len(known)), fold, rng, balanced=method.balanced)
            folds += [HeldOutFold((bag,), fold == number) for number, bag in enumerate(each)]
            continue
        for number in range(tuning.folds):
            held_out = known & (fold == number)
            bags = drawn_bags(known & ~held_out, np.flatnonzero(~known), tuning.bags, (own, 2, number + 1))
            folds.append(HeldOutFold(tuple(bags), held_out | ~known))
    return KnownFolds(known, weights, tuple(folds), fraction)


def bags_of(method: AnyMethod, tuning: ListTuning) -> int:
    """How many models a candidate takes."""
    return tuning.folds * tuning.repeats * (1 if isinstance(method, FoldedSettings) else tuning.bags)


def _recall(known: Floats, scores: Floats, weights: Floats, fraction: float) -> float:
    """The fraction of held-out known rows above the last unlabelled row that is listed; those beside it count half."""
    others = np.sort(scores[known == 0])[::-1]
    last = others[min(max(round(fraction * len(others)), 1), len(others)) - 1]
    held_out, counts = scores[known == 1], weights[known == 1]
    listed = (held_out > last) + 0.5 * (held_out == last)
    return float(np.sum(counts * listed) / np.sum(counts))
