"""Folds of labelled rows as targets, and what candidates are judged by there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError
from unpooled.evaluate import metrics
from unpooled.tuning.candidates import fault_in_tuning
from unpooled.tuning.folds import folded
from unpooled.tuning.settings import ModelTuning
from unpooled.vertical.targets import SEEDS, Target

_OF_TWO = ("auc", "average_precision", "accuracy", "f1", "log_loss")
_OF_SEVERAL = ("log_loss", "macro_auc", "accuracy")
_OF_NUMBERS = ("rmse", "mae", "r2")


@dataclass(frozen=True, eq=False)
class LabelledFolds:
    """Labels, weights and names of rows, and by repetition the fold of each; see `folded`."""

    values: Floats
    weights: Floats
    names: tuple[str, ...]
    by_repeat: tuple[Ints, ...]
    count: int
    seed: int

    @property
    def targets(self) -> list[Target]:
        """A target for each fold of each repetition, in which the rows of the fold weigh nothing."""
        rng = np.random.default_rng([self.seed, 2, 1])
        return [
            Target(self.values, np.where(fold == number, 0.0, self.weights), int(rng.integers(SEEDS)))
            for fold in self.by_repeat
            for number in range(self.count)
        ]

    def measured(self, measure: str, scores: Sequence[Floats]) -> list[float]:
        """What each model is worth on the rows of its fold, by its scores of all rows."""
        places = [(fold, number) for fold in self.by_repeat for number in range(self.count)]
        each = zip(places, scores, strict=True)
        return [self._measure(measure, found, fold == number) for (fold, number), found in each]

    def _measure(self, measure: str, scores: Floats, rows: Bools) -> float:
        truth, weights = self.values[rows], self.weights[rows]
        if self.names:
            found = metrics.summary_of_classes(truth, metrics.probabilities_of(scores[rows]), weights)
        else:
            found = metrics.summary_of_numbers(truth, scores[rows, 0], weights)
        if measure not in found:
            raise InputError(f"parameters.tuning.measure: {measure} is undefined in a fold whose values are alike")
        return found[measure]


def labelled_folds(
    values: Floats, weights: Floats, names: Sequence[str], tuning: ModelTuning, seed: int
) -> LabelledFolds:
    """Divide the rows that weigh something; the seed is the secret of whoever holds the labels."""
    by_repeat = [
        folded(values, weights > 0, tuning.folds, names, np.random.default_rng([seed, 1, repeat + 1]))
        for repeat in range(tuning.repeats)
    ]
    return LabelledFolds(values, weights, tuple(names), tuple(by_repeat), tuning.folds, seed)


def measure_of(tuning: ModelTuning, classes: int) -> str:
    """By what candidates are compared; ValidationError if a target of so many classes has none such."""
    names = _OF_NUMBERS if not classes else _OF_TWO if classes == 2 else _OF_SEVERAL
    if tuning.measure is not None and tuning.measure not in names:
        of = f"{classes} classes" if classes else "numbers"
        raise fault_in_tuning(("measure",), f"a model of {of} is measured by {', '.join(names)}")
    return tuning.measure or names[0]
