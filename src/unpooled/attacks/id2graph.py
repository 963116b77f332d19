"""ID2Graph: rows that are often in the same group are near each other in a graph, and its clusters guess the labels.

After arXiv 2307.10318. There, communities of the graph are found first; here the graph's leading eigenvectors take
their place, which numpy finds without the graph ever being written down: two rows are joined by Σ 1 / size over the
groups that they share. Two clusters of these vectors are guessed to be the sought people and the rest; which is which
the attacker tells by some people whom it happens to know.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Floats, Ints

_VECTORS, _POWERS = 6, 15
_STARTS, _MOVES = 8, 50


def by_clusters(groupings: Sequence[Ints], friends: Ints, rows: int, seed: int = 1) -> Floats:
    """For each of the first rows how much nearer it is to the cluster of the known people than to the other one."""
    rng = np.random.default_rng(seed)
    vectors = _leading_vectors([groups[:rows] for groups in groupings], rows, rng)
    if not vectors.any():
        return np.zeros(rows)
    distances = np.linalg.norm(vectors[:, np.newaxis] - two_centres(vectors, rng), axis=2)
    nearer: Floats = distances[:, 1] - distances[:, 0]
    return nearer if nearer[friends].mean() >= nearer.mean() else -nearer


def _leading_vectors(groupings: Sequence[Ints], rows: int, rng: np.random.Generator) -> Floats:
    """The leading eigenvectors of the graph, times their eigenvalues, after the constant one; rows × vectors."""
    vectors = rng.normal(size=(rows, _VECTORS))
    lengths = np.zeros(_VECTORS)
    for _ in range(_POWERS if groupings else 0):
        vectors = _neighbours(groupings, vectors - vectors.mean(axis=0)) / len(groupings)
        vectors -= vectors.mean(axis=0)
        vectors, triangle = np.linalg.qr(vectors)
        lengths = np.abs(np.diag(triangle))
    return vectors * lengths


def _neighbours(groupings: Sequence[Ints], vectors: Floats) -> Floats:
    """For each row the sum, over all groupings, of the mean of the rows in its group."""
    total = np.zeros(vectors.shape)
    for groups in groupings:
        inside = np.flatnonzero(groups >= 0)
        own = groups[inside]
        sizes = np.maximum(np.bincount(own), 1)[:, np.newaxis]
        means = np.stack([np.bincount(own, column) for column in vectors[inside].T], axis=1) / sizes
        total[inside] += means[own]
    return total


def two_centres(points: Floats, rng: np.random.Generator) -> Floats:
    """The centres of two clusters by k-means, the best of several starts."""
    best, least = points[:2], np.inf
    for _ in range(_STARTS):
        first = points[rng.integers(len(points))]
        chances = ((points - first) ** 2).sum(axis=1)
        if not chances.any():
            continue
        centres = np.stack([first, points[rng.choice(len(points), p=chances / chances.sum())]])
        for _ in range(_MOVES):
            squares = ((points[:, np.newaxis] - centres) ** 2).sum(axis=2)
            near = squares.argmin(axis=1)
            moved = np.stack([points[near == k].mean(axis=0) if (near == k).any() else centres[k] for k in (0, 1)])
            if np.array_equal(moved, centres):
                break
            centres = moved
        if (spread := float(squares.min(axis=1).sum())) < least:
            best, least = centres, spread
    return best
