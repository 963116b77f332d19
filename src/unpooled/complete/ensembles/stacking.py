"""Stacking: for each column a ridge regression of the truth on what members answered in held-out rows.

A number is the answer of the best member plus a correction: a linear function of all members' answers. Classes have one
such score each: 1 for the class that the best member names, plus a linear function of the members' votes; the greatest
score wins. So the penalty draws both towards the best member. Its strength is chosen by the cells themselves, each
predicted from all others, and the correction is left out unless it is clearly better than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.ensembles.settings import EnsembleSettings, StackingSettings
from unpooled.complete.ensembles.trial import Trial, best_members, clearly_better, try_members
from unpooled.complete.ensembles.way import Combine, Way, by_column
from unpooled.data.coding import Column

_PENALTIES = (1.0, 10.0, 100.0, 1000.0)
_LEAST_CELLS = 10
_MOST_LEVELS = 20


@dataclass(frozen=True, eq=False)
class Stack:
    """For each column the best member, and how its answer is corrected.

    `levels` (levels × columns) are the frequent levels of classes, NaN after the last; a number has none. `weights` are
    members × levels voted for × levels × columns, `intercept` levels × columns; those of a number are at the first.
    """

    best: Floats
    levels: Floats
    weights: Floats
    intercept: Floats

    def fits(self, members: int, columns: int) -> bool:
        """Whether the arrays are of so many members and columns."""
        if self.levels.ndim != 2 or not len(self.levels):
            return False
        count = len(self.levels)
        shapes = (self.best.shape, self.levels.shape[1:], self.weights.shape, self.intercept.shape)
        return shapes == ((columns,), (columns,), (members, count, count, columns), (count, columns)) and bool(
            np.isin(self.best, np.arange(members)).all()
        )


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear function, fitted with a penalty on its coefficients; `without` is each row predicted from the others."""

    coefficients: Floats
    intercept: Floats
    without: Floats


def ridge(features: Floats, targets: Floats, penalties: Sequence[float]) -> list[Ridge]:
    """Least squares of targets (rows × outputs) on features, for each penalty on the sum of squared coefficients."""
    mean, centre = features.mean(axis=0), targets.mean(axis=0)
    left, scale, right = np.linalg.svd(features - mean, full_matrices=False)
    along = left.T @ (targets - centre)
    found = []
    for penalty in penalties:
        coefficients = right.T @ ((scale / (scale**2 + penalty))[:, np.newaxis] * along)
        intercept = centre - mean @ coefficients
        own = 1 / len(features) + (left**2) @ (scale**2 / (scale**2 + penalty))
        apart = targets - features @ coefficients - intercept
        found.append(Ridge(coefficients, intercept, targets - apart / (1.0 - own)[:, np.newaxis]))
    return found


def _learn(settings: StackingSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator) -> Stack:
    return learned_from(try_members(settings, columns, values, rng), columns)


def learned_from(trial: Trial, columns: Sequence[Column]) -> Stack:
    """The best member of each column and its correction."""
    best = best_members(columns, trial.losses(columns))
    truths = [trial.truth[hidden, place] for place, hidden in enumerate(trial.hidden.T)]
    levels = [_levels(column, truth) for column, truth in zip(columns, truths, strict=True)]
    members, most = len(trial.answers), max(1, *map(len, levels))
    stack = Stack(
        best.astype(np.float64),
        np.full((most, len(columns)), np.nan),
        np.zeros((members, most, most, len(columns))),
        np.zeros((most, len(columns))),
    )
    for place, (column, truth, own) in enumerate(zip(columns, truths, levels, strict=True)):
        answers = trial.answers[:, trial.hidden[:, place], place]
        if found := _correction(column, own, int(best[place]), truth, answers):
            count = max(len(own), 1)
            stack.levels[: len(own), place] = own
            stack.weights[:, :count, :count, place] = found.coefficients.reshape(members, count, count)
            stack.intercept[:count, place] = found.intercept
    return stack


def _levels(column: Column, truth: Floats) -> Floats:
    """The most frequent classes; a number has none."""
    classes, counts = np.unique(truth[:0] if column.is_number else truth, return_counts=True)
    found: Floats = np.sort(classes[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]])
    return found


def _correction(column: Column, levels: Floats, best: int, truth: Floats, answers: Floats) -> Ridge | None:
    """The correction that is clearly better than none, if there is one."""
    if len(truth) < _LEAST_CELLS or (len(levels) < 2 and not column.is_number):
        return None
    features, start = _features(column, levels, answers), _start(column, levels, answers[best])
    target = truth[:, np.newaxis] / _unit(column) if column.is_number else _is_level(truth, levels)
    tried = ridge(features, target - start, _PENALTIES)
    losses = [_losses(column, truth, _decided(column, levels, answers[best], start + one.without)) for one in tried]
    chosen = int(np.argmin([each.mean() for each in losses]))
    return tried[chosen] if clearly_better(losses[chosen], _losses(column, truth, answers[best])) else None


def _unit(column: Column) -> float:
    return column.spread or 1.0


def _is_level(cells: Floats, levels: Floats) -> Floats:
    found: Floats = (cells[..., np.newaxis] == levels).astype(np.float64)
    return found


def _features(column: Column, levels: Floats, answers: Floats) -> Floats:
    """Cells × what the regression sees: members' numbers in units of the column's spread, or their votes by level."""
    if column.is_number:
        return answers.T / _unit(column)
    return _is_level(answers.T, levels).reshape(answers.shape[1], -1)


def _start(column: Column, levels: Floats, answer: Floats) -> Floats:
    """The best member's answer as scores, to which the correction is added."""
    return answer[:, np.newaxis] / _unit(column) if column.is_number else _is_level(answer, levels)


def _decided(column: Column, levels: Floats, answer: Floats, scores: Floats) -> Floats:
    """From scores to cells; the best member's answer has the score 1 if it is none of the levels."""
    if column.is_number:
        return scores[:, 0] * _unit(column)
    highest = scores.argmax(axis=1)
    rare = ~np.isin(answer, levels) & (scores.max(axis=1) < 1.0)
    return np.where(rare, answer, levels[highest])


def _losses(column: Column, truth: Floats, cells: Floats) -> Floats:
    if column.is_number:
        squared: Floats = (truth - cells) ** 2
        return squared
    wrong: Floats = (truth != cells).astype(np.float64)
    return wrong


def _stacked(_: EnsembleSettings, columns: Sequence[Column], learned: Stack, __: Floats, wanted: Bools) -> Combine:
    def one_column(place: int, cells: Floats) -> Floats:
        column = columns[place]
        answer: Floats = cells[int(learned.best[place])]
        weights, intercept = learned.weights[..., place], learned.intercept[:, place]
        if not weights.any() and not intercept.any():
            return answer
        levels = learned.levels[~np.isnan(learned.levels[:, place]), place]
        count = max(len(levels), 1)
        coefficients = weights[:, :count, :count].reshape(-1, count)
        scores = _features(column, levels, cells) @ coefficients + intercept[:count]
        return _decided(column, levels, answer, _start(column, levels, answer) + scores)

    return by_column(wanted, one_column)


STACKING = Way(StackingSettings, Stack, _learn, _stacked)
