"""VFPU-M: predict columns where they are missing, and learn again from the predictions that are most trusted.

In each round, for every column, models learn from the rows that have a value; each leaves out one fold of these, so
that there are predictions of known cells to judge by. Rows without a value get the mean of all models. For numbers, as
many models learn how large the errors of those predictions are. Of the rows whose confidence is at least `alpha`, the
most confident fraction takes its prediction as a value from then on. With `rounds = 10` and
`folds = 1` that is the algorithm of the FedPSG-PUM paper, which has no other confidence than `paper`.

How one learns is another matter (`Learn`): from pooled columns, or from columns of several parties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.column_model import ColumnModel, column_model, paper_confidence
from unpooled.complete.variables import Variable
from unpooled.errors import InputError
from unpooled.settings import Section
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.targets import SEEDS, Target

What = Literal["values", "errors"]
Learn = Callable[[Sequence[Target], What], Sequence[Floats]]
"""Fits a model to each target, all with the same number of classes; for each gives all rows' scores, rows × outputs."""


class SelfTrainingSettings(Section):
    """How columns are predicted."""

    rounds: int = Field(
        1,
        description="how often models are fitted at the most; with 1 there is no self-training, which did not help "
        "where it was measured; the paper has 10",
        ge=1,
    )
    alpha: float = Field(0.8, description="the least confidence of a prediction that becomes a value", ge=0, le=1)
    fraction: float = Field(0.1, description="how many of those do so in a round, the most confident", gt=0, le=1)
    folds: int = Field(3, description="models for each column and round, each without one fold of the known rows", ge=1)
    confidence: Literal["paper", "calibrated"] = Field(
        "calibrated",
        description="paper: the largest probability, or how near a number is to the mean of all predictions; "
        "calibrated: by the errors of predictions of known cells",
    )

    def learned(self, classes: int) -> tuple[What, ...]:
        """What each round learns about columns of so many classes; models of errors are for numbers."""
        both = self.confidence == "calibrated" and self.folds > 1 and not classes
        return ("values", "errors") if both else ("values",)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What was found about the missing cells of one column, for all rows.

    `outputs` are the last models' means: probabilities of the classes, or numbers, rows × outputs. `values` are the
    known values, and elsewhere the predicted ones, as `data.coding` has them. `rounds` says in which round a prediction
    became a value: 0 for known cells, -1 for those that never did. `held_out` are predictions of known cells by models
    that had not seen them; not-a-number elsewhere.
    """

    variable: Variable
    column: ColumnModel
    outputs: Floats
    values: Floats
    confidence: Floats
    rounds: Ints
    held_out: Floats
    errors: Floats | None = None
    """For numbers the expected rank of each row's error, if that was learned."""

    @property
    def known(self) -> Bools:
        known: Bools = self.rounds == 0
        return known

    def drawn(self, rng: np.random.Generator) -> Floats:
        """The column with its missing cells drawn, instead of the one value that is most likely."""
        values, missing = self.variable.values.copy(), ~self.known
        values[missing] = self.column.drawn(self.outputs[missing], rng)
        return values


def self_train(
    variables: Sequence[Variable], learn: Learn, settings: SelfTrainingSettings, seed: int
) -> list[Prediction]:
    """Predict the missing cells of columns that have the same number of classes, all in lockstep."""
    if len({variable.classes for variable in variables}) > 1:
        raise InputError("columns that are predicted together must have the same number of classes")
    states = [_State(variable, settings, seed, place) for place, variable in enumerate(variables)]
    for number in range(1, settings.rounds + 1):
        scores = learn([target for state in states for target in state.targets(number)], "values")
        for state, outputs in zip(states, _by_column(scores, settings.folds), strict=True):
            state.predict(outputs)
        if "errors" in settings.learned(variables[0].classes):
            scores = learn([target for state in states for target in state.error_targets(number)], "errors")
            for state, outputs in zip(states, _by_column(scores, settings.folds), strict=True):
                state.expect_errors(outputs)
        promoted = [state.promote(number) for state in states]
        if not any(promoted):
            break
    return [state.prediction for state in states]


def _by_column(scores: Sequence[Floats], folds: int) -> list[Sequence[Floats]]:
    """The scores of each column's models."""
    return [scores[place : place + folds] for place in range(0, len(scores), folds)]


class _State:
    """One column in the course of the rounds."""

    def __init__(self, variable: Variable, settings: SelfTrainingSettings, seed: int, place: int) -> None:
        self._variable, self._settings, self._seeds = variable, settings, (seed, place)
        self._known, self._labels = variable.known, variable.labels.copy()
        self._values, self._rounds = variable.values.copy(), np.where(self._known, 0, -1)
        if variable.constant:
            raise InputError(f"column '{variable.name}': it has a single value, so there is nothing to learn")
        if self._known.sum() < 2 * settings.folds:
            raise InputError(f"column '{variable.name}': too few known cells for {settings.folds} folds")
        self._fold = _folds(variable, self._known, settings.folds, np.random.default_rng([seed, place, 0]))
        self._judged = self._known & (self._fold >= 0)
        self._outputs = self._held_out = np.empty(0)
        self._errors: Floats | None = None
        self._unseen_errors: Floats | None = None
        self.prediction: Prediction

    def targets(self, number: int) -> list[Target]:
        """What is learned in a round: values so far, without one fold of the known rows."""
        labelled = self._rounds >= 0
        return self._without_folds(np.where(labelled, self._labels, 0.0), labelled, (number, 1))

    def error_targets(self, number: int) -> list[Target]:
        """How large the errors of held-out predictions are, as ranks between 0 and 1, which outliers do not spoil."""
        errors, ranks = np.abs(self._held_out[:, 0] - self._variable.values), np.zeros(len(self._known))
        judged = np.flatnonzero(self._judged)
        _, places, counts = np.unique(errors[judged], return_inverse=True, return_counts=True)
        ranks[judged] = ((np.cumsum(counts) - (counts + 1) / 2) / len(judged))[places]
        return self._without_folds(ranks, self._judged, (number, 2))

    def _without_folds(self, values: Floats, rows: Bools, seeds: tuple[int, int]) -> list[Target]:
        rng = np.random.default_rng([*self._seeds, *seeds])
        folds = [self._fold != fold for fold in range(self._settings.folds)]
        return [Target(values, (rows & fold).astype(float), int(rng.integers(SEEDS))) for fold in folds]

    def predict(self, scores: Sequence[Floats]) -> None:
        """Take a round's scores: the mean of the models, for known rows of the one that had not seen them."""
        each = [probabilities(one, self._variable.classes) for one in scores]
        self._outputs, self._held_out = mean_of_models(each), self._by_fold(each)

    def expect_errors(self, scores: Sequence[Floats]) -> None:
        """Take what the models of the errors say."""
        self._errors, self._unseen_errors = mean_of_models(scores)[:, 0], self._by_fold(scores)[:, 0]

    def promote(self, number: int) -> bool:
        """Let the most trusted predictions become values; whether there are any."""
        column = column_model(self._variable, self._held_out, self._judged, self._unseen_errors)
        waiting, confidence = self._rounds < 0, np.ones(len(self._known))
        if self._settings.confidence == "paper":
            confidence[waiting] = paper_confidence(self._outputs[waiting], column.classes)
        else:
            errors = None if self._errors is None else self._errors[~self._known]
            confidence[~self._known] = column.confidence(self._outputs[~self._known], errors)
        trusted = np.flatnonzero(waiting & (confidence >= self._settings.alpha))
        most = max(round(self._settings.fraction * len(trusted)), 1)
        chosen = trusted[np.lexsort((trusted, -confidence[trusted]))][:most]
        self._values[waiting] = column.values(self._outputs[waiting])
        self._labels[waiting] = self._outputs[waiting].argmax(axis=1) if column.classes else self._values[waiting]
        self._rounds[chosen] = number
        self.prediction = Prediction(
            variable=self._variable,
            column=column,
            outputs=self._outputs,
            values=self._values.copy(),
            confidence=confidence,
            rounds=self._rounds.copy(),
            held_out=self._held_out,
            errors=self._errors,
        )
        return bool(len(chosen))

    def _by_fold(self, each: Sequence[Floats]) -> Floats:
        """For each known row what the model without its fold says."""
        found = np.full(each[0].shape, np.nan)
        for fold, one in enumerate(each):
            found[self._fold == fold] = one[self._fold == fold]
        return found


def _folds(variable: Variable, known: Bools, folds: int, rng: np.random.Generator) -> Ints:
    """A fold for each known row, -1 for the others; a class that has fewer rows than folds is never left out."""
    fold = np.full(len(known), -1)
    if folds == 1:
        return fold
    groups = [known] if not variable.classes else [variable.labels == k for k in range(variable.classes)]
    for group in groups:
        rows = rng.permutation(np.flatnonzero(group))
        if len(rows) >= folds:
            fold[rows] = np.arange(len(rows)) % folds
    return fold


def probabilities(scores: Floats, classes: int) -> Floats:
    """A column for each class, where a learner gives only that of the second of two."""
    return np.column_stack([1 - scores[:, 0], scores[:, 0]]) if classes == 2 else scores
