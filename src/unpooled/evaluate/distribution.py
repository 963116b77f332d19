"""How alike two samples are: of numbers, of classes, and of two columns together.

>>> kolmogorov_smirnov(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 3.0, 4.0, 5.0]))
0.25
>>> total_variation(np.array(["a", "a", "b", "b"]), np.array(["a", "b", "b", "c"]))
0.25
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Floats, Ints
from unpooled.evaluate.metrics import Undefined

Values = NDArray[Any]


def kolmogorov_smirnov(one: Floats, two: Floats) -> float:
    """The greatest difference of the two distribution functions."""
    points = np.concatenate([one, two])
    return float(np.abs(_below(one, points) - _below(two, points)).max(initial=0.0))


def wasserstein(one: Floats, two: Floats) -> float:
    """The area between the two distribution functions: how far values must be moved on average."""
    points = np.sort(np.concatenate([one, two]))
    apart = np.abs(_below(one, points[:-1]) - _below(two, points[:-1]))
    return float(np.sum(apart * np.diff(points)))


def total_variation(one: Values, two: Values) -> float:
    """Half the sum over classes of the differences in frequency."""
    classes, which = np.unique(np.concatenate([one, two]), return_inverse=True)
    first, second = (np.bincount(part, minlength=len(classes)) for part in np.split(which, [len(one)]))
    return float(np.abs(first / len(one) - second / len(two)).sum() / 2.0)


def moments(values: Floats) -> dict[str, float]:
    """Mean, variance, skewness and excess kurtosis of the values themselves; the last two 0 if all are equal."""
    mean = float(values.mean())
    apart = values - mean
    variance = float((apart**2).mean())
    flat = values.min() == values.max() or variance == 0.0
    return {
        "mean": mean,
        "variance": variance,
        "skewness": 0.0 if flat else float((apart**3).mean() / variance**1.5),
        "kurtosis": 0.0 if flat else float((apart**4).mean() / variance**2 - 3.0),
    }


def spearman(one: Floats, two: Floats) -> float:
    """The correlation of ranks, between -1 and 1; 0 if one column is constant."""
    first, second = mean_ranks(one), mean_ranks(two)
    spread = float(np.sqrt(np.sum(first**2) * np.sum(second**2)))
    return float(np.sum(first * second) / spread) if spread else 0.0


def cramers_v(one: Values, two: Values) -> float:
    """√(χ² / (n · (the lesser number of classes - 1))) of two columns of classes; 0 if one is constant."""
    counts = _contingency(one, two)
    least = min(counts.shape) - 1
    if least < 1:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(one)
    return float(np.sqrt(np.sum((counts - expected) ** 2 / expected) / (len(one) * least)))


def correlation_ratio(classes: Values, numbers: Floats) -> float:
    """√ of the fraction of the variance of ranks that lies between classes; 0 if a column is constant."""
    ranks = mean_ranks(numbers)
    _, which, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    total = float(np.sum(ranks**2))
    between = float(np.sum(np.bincount(which, ranks) ** 2 / sizes))
    return float(np.sqrt(between / total)) if total else 0.0


def association(one: Floats, two: Floats, nominal: tuple[bool, bool]) -> float:
    """Spearman's correlation, Cramér's V if both are `nominal`, if one is the correlation ratio."""
    if all(nominal):
        return cramers_v(one, two)
    if not any(nominal):
        return spearman(one, two)
    return correlation_ratio(one, two) if nominal[0] else correlation_ratio(two, one)


def macro_f1(truth: Values, predictions: Values) -> float:
    """The plain mean of F1 = 2 TP / (2 TP + FP + FN) over all classes that occur in either."""
    if not len(truth):
        raise Undefined("macro f1: there are no rows")
    classes, which = np.unique(np.concatenate([truth, predictions]), return_inverse=True)
    true, said = np.split(which, [len(truth)])
    hits, occurs, is_said = (np.bincount(part, minlength=len(classes)) for part in (true[true == said], true, said))
    return float(np.mean(2.0 * hits / (occurs + is_said)))


def _below(sample: Floats, points: Floats) -> Floats:
    """The fraction of the sample up to each point."""
    return np.searchsorted(np.sort(sample), points, "right") / len(sample)


def mean_ranks(values: Floats) -> Floats:
    """Ranks with mean 0; equal values share theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[which] - (len(values) + 1) / 2.0


def _contingency(one: Values, two: Values) -> Ints:
    """How many rows have each pair of classes."""
    (first, rows), (second, columns) = (np.unique(part, return_inverse=True) for part in (one, two))
    counts = np.bincount(rows * len(second) + columns, minlength=len(first) * len(second))
    return counts.reshape(len(first), len(second))
