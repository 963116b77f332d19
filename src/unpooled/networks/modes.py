"""The modes of a column of numbers: values that are frequent by themselves, and a mixture of normal distributions.

The mixture is fitted by variational Bayes with a Dirichlet process over its weights (Blei and Jordan 2006), so that
modes that are not needed lose their weight. Columns are summarised by a thousand weighted points first.
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats

MOST = 10
LEAST_WEIGHT = 0.005
FREQUENT = 0.05
"""A value that so many of the cells have is a mode of its own."""
_POINTS = 1000
_ITERATIONS = 200
_CONCENTRATION = 1e-3
_ENOUGH = 1e-4
"""It is enough when no weight changes by more than this."""
_NARROWEST = 1e-4
"""No normal distribution is narrower than this fraction of the column's spread."""


def fit_modes(cells: Floats, most: int = MOST, least_weight: float = LEAST_WEIGHT) -> tuple[Floats, Floats, Floats]:
    """Means, standard deviations and weights of the modes of known cells; a frequent value is a mode of width 0."""
    values, repeats = np.unique(cells, return_counts=True)
    counts = repeats.astype(np.float64)
    frequent = np.argsort(-counts, kind="stable")[: most - 1]
    frequent = np.sort(frequent[counts[frequent] >= max(FREQUENT * len(cells), 2)])
    atoms, atom_weights = values[frequent], counts[frequent] / len(cells)
    values, counts = np.delete(values, frequent), np.delete(counts, frequent)
    if not len(values):
        return atoms, np.zeros(len(atoms)), atom_weights
    rest = counts.sum() / len(cells)
    means, spreads, weights = _mixture(*_summary(values, counts), most - len(atoms))
    kept = weights * rest >= least_weight
    kept[weights.argmax()] = True
    means, spreads, weights = means[kept], spreads[kept], weights[kept] / weights[kept].sum() * rest
    return np.append(atoms, means), np.append(np.zeros(len(atoms)), spreads), np.append(atom_weights, weights)


def _summary(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """At most so many points with weights, each the mean of as many cells."""
    if len(values) <= _POINTS:
        return values, counts
    upto = np.cumsum(counts)
    which = np.minimum((upto - counts / 2.0) / upto[-1] * _POINTS, _POINTS - 1).astype(np.int64)
    weights = np.bincount(which, counts, _POINTS).astype(np.float64)
    used = weights > 0
    sums = np.bincount(which, counts * values, _POINTS)
    return sums[used] / weights[used], weights[used]


def _mixture(points: Floats, counts: Floats, most: int) -> tuple[Floats, Floats, Floats]:
    """Means, standard deviations and weights of a mixture of at most so many normal distributions."""
    total = counts.sum()
    centre = float(np.sum(points * counts) / total)
    scale = float(np.sqrt(np.sum((points - centre) ** 2 * counts) / total))
    if scale <= 1e-12 * max(abs(centre), 1e-300):
        return np.array([centre]), np.zeros(1), np.ones(1)
    x = (points - centre) / scale
    most = min(most, len(points))
    middles = (np.cumsum(counts) - counts / 2.0) / total
    starts = np.interp((np.arange(most) + 0.5) / most, middles, x)
    belongs = np.zeros((len(x), most))
    belongs[np.arange(len(x)), np.abs(x[:, np.newaxis] - starts).argmin(axis=1)] = 1.0
    previous = np.zeros(most)
    for _ in range(_ITERATIONS):
        sizes, means, strengths, degrees, inverse = _posterior(x, counts, belongs)
        weights = sizes / total
        if np.abs(weights - previous).max() < _ENOUGH:
            break
        previous = weights
        precision = degrees / inverse
        away = 1.0 / strengths + precision * (x[:, np.newaxis] - means) ** 2
        log = _log_weights(sizes) + 0.5 * (_digamma(degrees / 2.0) - np.log(inverse / 2.0)) - 0.5 * away
        log -= log.max(axis=1, keepdims=True)
        belongs = np.exp(log)
        belongs /= belongs.sum(axis=1, keepdims=True)
    spreads = np.maximum(np.sqrt(inverse / degrees), _NARROWEST)
    order = np.argsort(means, kind="stable")
    return means[order] * scale + centre, spreads[order] * scale, weights[order]


def _posterior(x: Floats, counts: Floats, belongs: Floats) -> tuple[Floats, ...]:
    """Sizes, means, how much the means are worth, degrees of freedom, inverse scales; the prior is worth one row."""
    weighted = belongs * counts[:, np.newaxis]
    sizes = weighted.sum(axis=0) + 1e-10
    centres = (x @ weighted) / sizes
    inside = ((x[:, np.newaxis] - centres) ** 2 * weighted).sum(axis=0)
    strengths, degrees = 1.0 + sizes, 1.0 + sizes
    return sizes, sizes * centres / strengths, strengths, degrees, 1.0 + inside + sizes / strengths * centres**2


def _log_weights(sizes: Floats) -> Floats:
    """The expected logarithms of weights that are broken off a stick, the largest first."""
    order = np.argsort(-sizes, kind="stable")
    ordered = sizes[order]
    after = ordered.sum() - np.cumsum(ordered)
    one, rest = 1.0 + ordered, _CONCENTRATION + np.maximum(after, 0.0)
    both = _digamma(one + rest)
    taken, left = _digamma(one) - both, _digamma(rest) - both
    found = np.empty_like(sizes)
    found[order] = taken + np.append(0.0, np.cumsum(left)[:-1])
    return found


def _digamma(x: Floats) -> Floats:
    """The derivative of the logarithm of the gamma function at positive numbers, to about ten digits.

    >>> _digamma(np.array([0.001, 1.0, 50.0])).round(6).tolist()
    [-1000.575572, -0.577216, 3.90199]
    """
    x = np.array(x, np.float64)
    found = np.zeros_like(x)
    for _ in range(8):
        small = x < 8
        found[small] -= 1.0 / x[small]
        x[small] += 1.0
    square = 1.0 / x**2
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    result: Floats = found + np.log(x) - 0.5 / x - series
    return result
