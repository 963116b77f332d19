"""Metrics as a table: each with what it means, and a value for each set of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

_WORDS = {
    "auc": ("AUC", "the chance that a row of the second class is scored above one of the first; guessing has 0.5"),
    "macro_auc": ("Macro AUC", "the mean over classes of the AUC of one against all others; guessing has 0.5"),
    "average_precision": ("Average precision", "the mean of precision over all values of recall"),
    "r2": ("R²", "the fraction of the variance that is explained; the mean alone has 0"),
    "rmse": ("RMSE", "the root of the mean squared error, in the target’s units"),
    "mae": ("MAE", "the mean absolute error, in the target’s units"),
    "accuracy": ("Accuracy", "the fraction of rows whose most probable class is the right one"),
    "precision": ("Precision", "of the rows taken for the second class, the fraction that is of it"),
    "recall": ("Recall", "of the rows of the second class, the fraction that is taken for it"),
    "f1": ("F1", "the harmonic mean of precision and recall"),
    "log_loss": (
        "Log loss",
        "minus the logarithm of the probability given to the true class, on average; less is better",
    ),
}
_BEST_KNOWN = {"auc": "an AUC", "macro_auc": "a macro AUC", "r2": "an R²", "accuracy": "an accuracy"}
_LARGE, _SMALL = 1e12, 1e-4


@dataclass(frozen=True)
class Measure:
    """One line of the table: a value for each set of rows, None where it has none there."""

    name: str
    meaning: str
    values: tuple[float | None, ...]


def measures_of(metrics: Mapping[str, Mapping[str, float]], sets: tuple[str, ...]) -> tuple[Measure, ...]:
    """Every measure that at least one of the sets of rows has."""
    found = {name for each in sets for name in metrics.get(each, {})}
    names = [*(name for name in _WORDS if name in found), *sorted(found - _WORDS.keys())]
    return tuple(
        Measure(*_WORDS.get(name, (name, "")), tuple(metrics.get(each, {}).get(name) for each in sets))
        for name in names
    )


def first_measure(metrics: Mapping[str, float]) -> str | None:
    """The name of the measure that people ask for first."""
    return next((name for name in _BEST_KNOWN if name in metrics), None)


def short_name(measure: str) -> str:
    """What a measure is called."""
    return _WORDS[measure][0]


def best_known(metrics: Mapping[str, float]) -> str:
    """The measure that people ask for first, in words; empty if there is none.

    >>> best_known({"log_loss": 0.3, "auc": 0.8768})
    'an AUC of 0.877'
    """
    name = first_measure(metrics)
    return f"{_BEST_KNOWN[name]} of {figure(metrics[name])}" if name else ""


def figure(value: float) -> str:
    """A measure with as many figures as are worth reading.

    >>> [figure(value) for value in (0.87654, 1.0, 0.0, -0.25, 0.01234, 12.3456, 123456.7, 0.00001234, 5e13)]
    ['0.877', '1.000', '0', '-0.250', '0.0123', '12.35', '123,457', '1.23e-05', '5e+13']
    """
    size = abs(value)
    if not size:
        return "0"
    if not _SMALL <= size < _LARGE:
        return f"{value:.3g}"
    before_point = math.floor(math.log10(size)) + 1
    figures = 4 if before_point > 0 else 3
    return f"{value:,.{max(0, figures - before_point)}f}"
