"""VFPU-M: predict columns where they are missing, and learn again from the predictions that are most trusted.

In each round, for every column, models learn from the rows that have a value; each leaves out one fold of these, so
that there are predictions of known cells to judge by. Rows without a value get the mean of all models. Of those whose
confidence is at least `alpha`, the most confident fraction takes its prediction as a value from then on. With `folds =
1` and `confidence = "paper"` that is the algorithm of the FedPSG-PUM paper.

How one learns is another matter (`Learn`): from pooled columns, or from columns of several parties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.confidence import calibrated, paper
from unpooled.complete.variables import Variable
from unpooled.errors import InputError
from unpooled.settings import Section
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.targets import SEEDS, Target

Learn = Callable[[Sequence[Target]], Sequence[Floats]]
"""Fits a model to each target, all with the same number of classes; for each gives all rows' scores, rows × outputs."""


class SelfTrainingSettings(Section):
    """How columns are predicted."""

    rounds: int = Field(
        10, description="how often models are fitted at the most; with 1 there is no self-training", ge=1
    )
    alpha: float = Field(0.8, description="the least confidence of a prediction that becomes a value", ge=0, le=1)
    fraction: float = Field(0.1, description="how many of those do so in a round, the most confident", gt=0, le=1)
    folds: int = Field(5, description="models for each column and round, each without one fold of the known rows", ge=1)
    confidence: Literal["paper", "calibrated"] = Field(
        "calibrated",
        description="paper: the largest probability, or how near a number is to the mean of all predictions; "
        "calibrated: by the errors of predictions of known cells",
    )


@dataclass(frozen=True, eq=False)
class Prediction:
    """What was found about the missing cells of one column, for all rows.

    `outputs` are the last models' means: probabilities of the classes, or numbers, rows × outputs. `values` are the
    known values, and elsewhere the predicted class or number. `rounds` says in which round a prediction became a value:
    0 for known cells, -1 for those that never did. `held_out` are predictions of known cells by models that had not
    seen them; not-a-number elsewhere.
    """

    variable: Variable
    outputs: Floats
    values: Floats
    confidence: Floats
    rounds: Ints
    held_out: Floats

    @property
    def known(self) -> Bools:
        known: Bools = self.rounds == 0
        return known


def self_train(
    variables: Sequence[Variable], learn: Learn, settings: SelfTrainingSettings, seed: int
) -> list[Prediction]:
    """Predict the missing cells of columns that have the same number of classes, all in lockstep."""
    if len({variable.classes for variable in variables}) > 1:
        raise InputError("columns that are predicted together must have the same number of classes")
    states = [_State(variable, settings, seed, place) for place, variable in enumerate(variables)]
    folds = settings.folds
    for number in range(1, settings.rounds + 1):
        scores = learn([target for state in states for target in state.targets(number)])
        news = [state.take(scores[place * folds : (place + 1) * folds], number) for place, state in enumerate(states)]
        if not any(news):
            break
    return [state.prediction for state in states]


class _State:
    """One column in the course of the rounds."""

    def __init__(self, variable: Variable, settings: SelfTrainingSettings, seed: int, place: int) -> None:
        self._variable, self._settings, self._seeds = variable, settings, (seed, place)
        self._known = ~np.isnan(variable.values)
        self._values, self._rounds = variable.values.copy(), np.where(self._known, 0, -1)
        if variable.constant:
            raise InputError(f"column '{variable.name}': it has a single value, so there is nothing to learn")
        self._fold = _folds(variable, self._known, settings.folds, np.random.default_rng([seed, place, 0]))
        self.prediction: Prediction

    def targets(self, number: int) -> list[Target]:
        """What is learned in a round: values so far, without one fold of the known rows."""
        rng = np.random.default_rng([*self._seeds, number])
        labelled = self._rounds >= 0
        values = np.where(labelled, self._values, 0.0)
        alone = self._settings.folds == 1
        return [
            Target(values, (labelled & (alone | (self._fold != fold))).astype(float), int(rng.integers(SEEDS)))
            for fold in range(self._settings.folds)
        ]

    def take(self, scores: Sequence[Floats], number: int) -> bool:
        """Turn a round's scores into predictions, and the most trusted of these into values; whether there are any."""
        each = [_probabilities(one, self._variable.classes) for one in scores]
        outputs = mean_of_models(each)
        held_out = np.full(outputs.shape, np.nan)
        for fold, one in enumerate(each):
            held_out[self._fold == fold] = one[self._fold == fold]
        confidence = self._confidence(each, outputs, held_out)
        predicted = outputs.argmax(axis=1).astype(float) if self._variable.classes else outputs[:, 0]
        waiting = self._rounds < 0
        trusted = np.flatnonzero(waiting & (confidence >= self._settings.alpha))
        most = max(round(self._settings.fraction * len(trusted)), 1)
        chosen = trusted[np.lexsort((trusted, -confidence[trusted]))][:most]
        self._values[waiting] = predicted[waiting]
        self._rounds[chosen] = number
        self.prediction = Prediction(
            self._variable, outputs, self._values.copy(), confidence, self._rounds.copy(), held_out
        )
        return bool(len(chosen))

    def _confidence(self, each: Sequence[Floats], outputs: Floats, held_out: Floats) -> Floats:
        waiting, classes = self._rounds < 0, self._variable.classes
        if self._settings.confidence == "paper" or self._settings.folds == 1:
            found = paper(outputs, classes, waiting)
        else:
            judged = self._known & (self._fold >= 0)
            found = calibrated(each, outputs, held_out, self._variable.values, judged, classes)
        found[self._known] = 1.0
        return found


def _folds(variable: Variable, known: Bools, folds: int, rng: np.random.Generator) -> Ints:
    """A fold for each known row, -1 for the others; a class that has fewer rows than folds is never left out."""
    fold = np.full(len(known), -1)
    if folds == 1:
        return fold
    groups = [known] if not variable.classes else [known & (variable.values == k) for k in range(variable.classes)]
    for group in groups:
        rows = rng.permutation(np.flatnonzero(group))
        if len(rows) >= folds:
            fold[rows] = np.arange(len(rows)) % folds
    return fold


def _probabilities(scores: Floats, classes: int) -> Floats:
    """A column for each class, where a learner gives only that of the second of two."""
    return np.column_stack([1 - scores[:, 0], scores[:, 0]]) if classes == 2 else scores
