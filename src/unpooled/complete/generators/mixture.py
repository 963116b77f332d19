"""A mixture of normal distributions with full covariances, by expectation and maximisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Floats, Ints

_ITERATIONS = 40
_ENOUGH = 1e-4
"""It is enough when the mean logarithm of the likelihood rises by less."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """The weights of its parts, their means, and lower triangular roots of their covariances."""

    weights: Floats
    means: Floats
    roots: Floats

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        """So many points."""
        which = rng.choice(len(self.weights), rows, p=self.weights / self.weights.sum())
        noise = rng.standard_normal((rows, self.means.shape[1]))
        points = np.empty_like(noise)
        for part in range(len(self.weights)):
            chosen = which == part
            points[chosen] = self.means[part] + noise[chosen] @ self.roots[part].T
        return points


def fit_mixture(points: Floats, parts: int, rng: np.random.Generator) -> Mixture:
    """A mixture of so many parts.

    Each covariance is drawn towards that of all points, by as many rows as there are dimensions.
    """
    rows, dimensions = points.shape
    overall = np.cov(points.T, bias=True).reshape(dimensions, dimensions) + 1e-6 * np.eye(dimensions)
    belongs = np.zeros((rows, parts))
    belongs[np.arange(rows), _clusters(points, parts, rng)] = 1.0
    before = -np.inf
    for _ in range(_ITERATIONS):
        found = _maximised(points, belongs, overall)
        log = _log_likelihoods(points, found)
        most_likely = log.max(axis=1, keepdims=True)
        belongs = np.exp(log - most_likely)
        sums = belongs.sum(axis=1, keepdims=True)
        belongs /= sums
        now = float(np.mean(most_likely + np.log(sums)))
        if now - before < _ENOUGH:
            break
        before = now
    return found


def _maximised(points: Floats, belongs: Floats, overall: Floats) -> Mixture:
    sizes = belongs.sum(axis=0) + 1e-9
    means = (belongs.T @ points) / sizes[:, np.newaxis]
    prior = float(points.shape[1])
    roots = np.empty((len(sizes), *overall.shape))
    for part, size in enumerate(sizes):
        away = (points - means[part]) * np.sqrt(belongs[:, part])[:, np.newaxis]
        roots[part] = np.linalg.cholesky((away.T @ away + prior * overall) / (size + prior))
    return Mixture(sizes / sizes.sum(), means, roots)


def _log_likelihoods(points: Floats, mixture: Mixture) -> Floats:
    """Points × parts, but for a constant."""
    log = np.empty((len(points), len(mixture.weights)))
    for part, (weight, mean, root) in enumerate(zip(mixture.weights, mixture.means, mixture.roots, strict=True)):
        away = (points - mean) @ np.linalg.inv(root).T
        log[:, part] = np.log(weight) - 0.5 * np.sum(away**2, axis=1) - np.sum(np.log(np.diag(root)))
    return log


def _clusters(points: Floats, parts: int, rng: np.random.Generator) -> Ints:
    """The cluster of each point, by k-means from points drawn at random."""
    centres = points[rng.choice(len(points), parts, replace=False)]
    squares = np.sum(points**2, axis=1)[:, np.newaxis]
    which: Ints = np.zeros(len(points), np.int64)
    for _ in range(10):
        apart = squares - 2.0 * points @ centres.T + np.sum(centres**2, axis=1)
        which = apart.argmin(axis=1)
        for part in np.unique(which):
            centres[part] = points[which == part].mean(axis=0)
    return which
