"""Metrics for classification with two or more classes, and for regression.

Every row counts with its weight w, or with 1 if no weights are given; a row of weight 0 is ignored. The truth of two
classes is 0 or 1, of several the number of the class from 0. A metric that is undefined, for example because there is
only one class, raises `Undefined`, and the summaries leave it out.

>>> truth, chances = np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.6, 0.9])
>>> auc(truth, chances)
0.875
>>> {name: round(value, 3) for name, value in summary_of_classes(truth, chances).items()}
{'auc': 0.875, 'average_precision': 0.833, 'log_loss': 0.409, 'accuracy': 0.75, 'precision': 0.667, 'recall': 1.0,
 'f1': 0.8}
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Floats
from unpooled.errors import InputError

Values = NDArray[Any]

_SMALLEST_CHANCE = 2.0**-52
_NEAR_ONE = 1e-6


class Undefined(InputError):
    """A metric is undefined for these rows."""


# Two classes, from scores


def auc(truth: Values, scores: Values, weights: Floats | None = None) -> float:
    """The probability that a row of class 1 has a higher score than one of class 0, equal scores counting half.

    As a formula, Σ w w' (1[s > s'] + ½ 1[s = s']) / Σ w w' over all pairs of a row of class 1 and one (') of class 0.
    """
    hits, false_alarms = _steps("auc", truth, scores, weights)
    if hits[-1] == 0.0 or false_alarms[-1] == 0.0:
        raise Undefined("auc: all rows are of one class")
    pairs = np.sum(np.diff(false_alarms) * (hits[1:] + hits[:-1])) / 2.0
    return float(pairs / (hits[-1] * false_alarms[-1]))


def average_precision(truth: Values, scores: Values, weights: Floats | None = None) -> float:
    """Σ (R_k - R_(k-1)) P_k: precision P at each distinct score, descending, times the gain of recall R there."""
    hits, false_alarms = _steps("average precision", truth, scores, weights)
    if hits[-1] == 0.0:
        raise Undefined("average precision: no row is of class 1")
    return float(np.sum(np.diff(hits) * hits[1:] / (hits[1:] + false_alarms[1:])) / hits[-1])


def roc_curve(
    truth: Values, scores: Values, weights: Floats | None = None, *, curve_points: int = 200
) -> tuple[Floats, Floats]:
    """For each distinct score s, descending: the fractions of class 0 and of class 1 with a score of at least s.

    The curve begins at (0, 0) and is thinned to at most `curve_points` of its points.
    """
    hits, false_alarms = _steps("roc curve", truth, scores, weights)
    if hits[-1] == 0.0 or false_alarms[-1] == 0.0:
        raise Undefined("roc curve: all rows are of one class")
    return _thinned(false_alarms / false_alarms[-1], hits / hits[-1], curve_points)


def precision_recall_curve(
    truth: Values, scores: Values, weights: Floats | None = None, *, curve_points: int = 200
) -> tuple[Floats, Floats]:
    """For each distinct score s, descending: recall and precision if scores of at least s are predicted as class 1.

    The curve is thinned to at most `curve_points` of its points.
    """
    hits, false_alarms = _steps("precision-recall curve", truth, scores, weights)
    if hits[-1] == 0.0:
        raise Undefined("precision-recall curve: no row is of class 1")
    return _thinned(hits[1:] / hits[-1], hits[1:] / (hits[1:] + false_alarms[1:]), curve_points)


# Classes, from predictions


def accuracy(truth: Values, predictions: Values, weights: Floats | None = None) -> float:
    """The fraction of rows whose class is predicted correctly, Σ w 1[p = t] / Σ w."""
    truth, predictions, weights = _rows("accuracy", truth, predictions, weights)
    return float(np.sum(weights * (truth == predictions)) / np.sum(weights))


def precision(truth: Values, predictions: Values, weights: Floats | None = None) -> float:
    """The fraction of class 1 among rows predicted as class 1, TP / (TP + FP)."""
    hits, false_alarms, _ = _counts("precision", truth, predictions, weights)
    return _share("precision", hits, hits + false_alarms, "no row is predicted as class 1")


def recall(truth: Values, predictions: Values, weights: Floats | None = None) -> float:
    """The fraction of class 1 that is predicted as class 1, TP / (TP + FN)."""
    hits, _, misses = _counts("recall", truth, predictions, weights)
    return _share("recall", hits, hits + misses, "no row is of class 1")


def f1(truth: Values, predictions: Values, weights: Floats | None = None) -> float:
    """The harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN)."""
    hits, false_alarms, misses = _counts("f1", truth, predictions, weights)
    total = 2.0 * hits + false_alarms + misses
    return _share("f1", 2.0 * hits, total, "no row is of class 1 or predicted as class 1")


# Classes, from probabilities


def log_loss(truth: Values, probabilities: Floats, weights: Floats | None = None) -> float:
    """-Σ w log p / Σ w, with p the predicted probability of the true class, at least 2^-52.

    Probabilities are those of class 1, one a row, or those of all classes, rows × classes.
    """
    truth, probabilities, weights = _rows("log loss", truth, probabilities, weights)
    _check_probabilities("log loss", probabilities)
    if probabilities.ndim == 1:
        chances = np.where(_is_one("log loss", truth), probabilities, 1.0 - probabilities)
    else:
        classes = _class_numbers("log loss", truth, probabilities.shape[1])
        chances = np.take_along_axis(probabilities, classes[:, np.newaxis], axis=1)[:, 0]
    return float(-np.sum(weights * np.log(np.maximum(chances, _SMALLEST_CHANCE))) / np.sum(weights))


def macro_auc(truth: Values, probabilities: Floats, weights: Floats | None = None) -> float:
    """The plain mean over classes of the AUC of a class's probability, for that class against all others."""
    truth, probabilities, weights = _rows("macro auc", truth, probabilities, weights)
    if probabilities.ndim != 2:
        raise InputError("macro auc: the probabilities of all classes are needed")
    _check_probabilities("macro auc", probabilities)
    classes = _class_numbers("macro auc", truth, probabilities.shape[1])
    if len(np.unique(classes)) < probabilities.shape[1]:
        raise Undefined("macro auc: a class has no rows")
    return float(np.mean([auc(classes == one, column, weights) for one, column in enumerate(probabilities.T)]))


# Numbers


def rmse(truth: Floats, predictions: Floats, weights: Floats | None = None) -> float:
    """The root of the mean squared error, √(Σ w (t - p)² / Σ w)."""
    truth, predictions, weights = _numbers("rmse", truth, predictions, weights)
    return float(np.sqrt(np.sum(weights * (truth - predictions) ** 2) / np.sum(weights)))


def mae(truth: Floats, predictions: Floats, weights: Floats | None = None) -> float:
    """The mean absolute error, Σ w |t - p| / Σ w."""
    truth, predictions, weights = _numbers("mae", truth, predictions, weights)
    return float(np.sum(weights * np.abs(truth - predictions)) / np.sum(weights))


def r2(truth: Floats, predictions: Floats, weights: Floats | None = None) -> float:
    """The fraction of the variance that is explained, 1 - Σ w (t - p)² / Σ w (t - mean of t)²."""
    truth, predictions, weights = _numbers("r2", truth, predictions, weights)
    mean = np.sum(weights * truth) / np.sum(weights)
    spread = np.sum(weights * (truth - mean) ** 2)
    if truth.min() == truth.max() or spread == 0.0:
        raise Undefined("r2: the truth is the same in all rows")
    return float(1.0 - np.sum(weights * (truth - predictions) ** 2) / spread)


# Summaries


def probabilities_of(scores: Floats) -> Floats:
    """A model's scores, rows × outputs, as metrics take them: a forest's may be off by a rounding of its weights."""
    clipped = scores.clip(0.0, 1.0)
    if scores.shape[1] == 1:
        return clipped[:, 0]
    totals = clipped.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(clipped, totals, out=np.full(clipped.shape, 1 / scores.shape[1]), where=totals > 0)
    return shares


def summary_of_classes(truth: Values, probabilities: Floats, weights: Floats | None = None) -> dict[str, float]:
    """All metrics of predicted probabilities, which are as for `log_loss`.

    Of two classes, 1 is predicted from a probability of one half on; of several, the first most probable one.
    """
    if probabilities.ndim == 1 or probabilities.shape[1] == 2:
        chances = probabilities if probabilities.ndim == 1 else probabilities[:, 1]
        predicted = (chances >= 0.5).astype(np.int64)
        return _defined(
            auc=lambda: auc(truth, chances, weights),
            average_precision=lambda: average_precision(truth, chances, weights),
            log_loss=lambda: log_loss(truth, probabilities, weights),
            accuracy=lambda: accuracy(truth, predicted, weights),
            precision=lambda: precision(truth, predicted, weights),
            recall=lambda: recall(truth, predicted, weights),
            f1=lambda: f1(truth, predicted, weights),
        )
    return _defined(
        macro_auc=lambda: macro_auc(truth, probabilities, weights),
        log_loss=lambda: log_loss(truth, probabilities, weights),
        accuracy=lambda: accuracy(truth, probabilities.argmax(axis=1), weights),
    )


def summary_of_numbers(truth: Floats, predictions: Floats, weights: Floats | None = None) -> dict[str, float]:
    """All metrics of predicted numbers."""
    return _defined(
        r2=lambda: r2(truth, predictions, weights),
        rmse=lambda: rmse(truth, predictions, weights),
        mae=lambda: mae(truth, predictions, weights),
    )


def _defined(**metrics: Callable[[], float]) -> dict[str, float]:
    values = {}
    for name, metric in metrics.items():
        with suppress(Undefined):
            values[name] = metric()
    return values


# What they have in common


def _rows(what: str, truth: Values, values: Values, weights: Floats | None) -> tuple[Values, Values, Floats]:
    """Check the arrays and keep the rows with a weight above 0."""
    weights = np.ones(len(truth)) if weights is None else weights
    if truth.ndim != 1 or weights.ndim != 1 or not len(truth) == len(values) == len(weights):
        raise InputError(f"{what}: truth, predictions and weights must have the same rows")
    if np.isnan(truth).any() or np.isnan(values).any():
        raise InputError(f"{what}: a value is not a number")
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise InputError(f"{what}: a weight is negative or not a number")
    if not weights.any():
        raise Undefined(f"{what}: no row has a weight above 0")
    counted = weights > 0.0
    return truth[counted], values[counted], weights[counted].astype(np.float64)


def _numbers(what: str, truth: Values, predictions: Values, weights: Floats | None) -> tuple[Floats, Floats, Floats]:
    truth, predictions, weights = _rows(what, truth, predictions, weights)
    if not (np.isfinite(truth).all() and np.isfinite(predictions).all()):
        raise InputError(f"{what}: a value is infinite")
    return truth.astype(np.float64), predictions.astype(np.float64), weights


def _is_one(what: str, values: Values) -> Bools:
    ones: Bools = values == 1
    if not (ones | (values == 0)).all():
        raise InputError(f"{what}: classes must be 0 or 1")
    return ones


def _class_numbers(what: str, truth: Values, classes: int) -> NDArray[np.int64]:
    if not np.isin(truth, np.arange(classes)).all():
        raise InputError(f"{what}: classes must be whole numbers from 0 to {classes - 1}")
    return truth.astype(np.int64)


def _check_probabilities(what: str, probabilities: Floats) -> None:
    if not ((probabilities >= 0.0) & (probabilities <= 1.0)).all():
        raise InputError(f"{what}: a probability is not between 0 and 1")
    if probabilities.ndim == 2 and (np.abs(probabilities.sum(axis=1) - 1.0) > _NEAR_ONE).any():
        raise InputError(f"{what}: the probabilities of a row do not sum to 1")


def _steps(what: str, truth: Values, scores: Values, weights: Floats | None) -> tuple[Floats, Floats]:
    """For each distinct score, descending, the weight of class 1 and of class 0 with at least that score; first 0."""
    truth, scores, weights = _rows(what, truth, scores, weights)
    order = np.argsort(scores, kind="stable")[::-1]
    ones, weights, scores = _is_one(what, truth)[order], weights[order], scores[order]
    last = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)
    hits, false_alarms = np.cumsum(weights * ones)[last], np.cumsum(weights * ~ones)[last]
    return np.concatenate([[0.0], hits]), np.concatenate([[0.0], false_alarms])


def _counts(what: str, truth: Values, predictions: Values, weights: Floats | None) -> tuple[float, float, float]:
    """The weights of class 1 predicted as such (TP), of class 0 predicted as 1 (FP), of class 1 predicted as 0 (FN)."""
    truth, predictions, weights = _rows(what, truth, predictions, weights)
    one, said = _is_one(what, truth), _is_one(what, predictions)
    hits, false_alarms, misses = (float(np.sum(weights[rows])) for rows in (one & said, ~one & said, one & ~said))
    return hits, false_alarms, misses


def _share(what: str, part: float, whole: float, why_not: str) -> float:
    if whole == 0.0:
        raise Undefined(f"{what}: {why_not}")
    return part / whole


def _thinned(x: Floats, y: Floats, points: int) -> tuple[Floats, Floats]:
    """At most `points` points of a curve, about evenly spaced along it, including its ends."""
    if points < 2:
        raise InputError("curve: at least 2 points are needed")
    if len(x) <= points:
        return x, y
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    places = np.searchsorted(length, np.linspace(0.0, length[-1], points))
    places[-1] = len(x) - 1
    kept = np.unique(places)
    return x[kept], y[kept]
