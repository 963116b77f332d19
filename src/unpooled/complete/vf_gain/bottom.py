"""A passive party's own network, from its columns to a few activations for each row; it never leaves the party.

Columns go through a hidden layer of random units. Of the columns and these units as many uncorrelated features are kept
as the gradient may have numbers. The output layer follows from the gradient of the active party's loss by least
squares: the directions of the features that lower that loss most (reduced-rank regression). What the output tells of
any one column is then limited, and each row is clipped to a ball.
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats
from unpooled.complete.vf_gain.privacy import Noise
from unpooled.secure.randomness import expand, new_seed

RADIUS = 0.7
"""Of the ball, for each unit: in standard deviations of what is clipped, so that most rows lie at its edge."""
STEPS_OF_NOISE = 64
"""Activations are rounded to so many steps in a standard deviation of the noise: no digits are left beyond it."""
_FARTHEST = 4.0
_STEEPNESS = 1.5
_SAMPLE, _TURNS, _LESS = 20_000, 1_000, 0.03
_BINS, _ROWS_OF_A_BIN = 40, 50


def standardised(matrix: Floats) -> Floats:
    """Columns with mean 0 and variance 1, missing cells in the middle, none beyond four; constant columns are 0."""
    with np.errstate(invalid="ignore"):
        known = ~np.isnan(matrix)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, matrix, 0.0).sum(axis=0) / count
    away = np.where(known, matrix - mean, 0.0)
    spread = np.sqrt((away**2).mean(axis=0))
    scaled: Floats = np.divide(away, spread, out=np.zeros_like(away), where=spread > 1e-12)
    return np.clip(scaled, -_FARTHEST, _FARTHEST)


def features_of(columns: Floats, hidden: int, most: int, rng: np.random.Generator) -> Floats:
    """At most so many uncorrelated features of standardised columns and of hidden units, rows × features."""
    width = columns.shape[1]
    weights = rng.standard_normal((width, hidden)) * (_STEEPNESS / np.sqrt(max(width, 1)))
    layer = standardised(np.tanh(columns @ weights + rng.uniform(-1.0, 1.0, hidden)))
    both = np.hstack([columns, layer])
    both -= both.mean(axis=0)
    size, turned = np.linalg.eigh(both.T @ both / len(both))
    used = np.argsort(-size, kind="stable")[:most]
    used = used[size[used] > 1e-9]
    features: Floats = both @ (turned[:, used] / np.sqrt(size[used]))
    return np.clip(features, -2 * _FARTHEST, 2 * _FARTHEST)


def output_of(features: Floats, gradient: Floats, rows: int, units: int) -> Floats:
    """What the network answers for all rows, rows × units, with a mean gradient of its first so many rows.

    The gradient, features × columns, is the mean of features times the loss's gradient in each row.
    """
    width = features.shape[1]
    some = features[:rows]
    second = some.T @ some / rows + (width / rows) * np.eye(width)
    answers = features @ np.linalg.solve(second, gradient)
    _, sizes, turned = np.linalg.svd(answers[:rows] - answers[:rows].mean(axis=0), full_matrices=False)
    used = min(units, int((sizes > 1e-9 * np.sqrt(rows)).sum()))
    found = np.zeros((len(features), units))
    found[:, :used] = answers @ turned[:used].T
    return found


def explained(seen: Floats, columns: Floats) -> Floats:
    """The fraction of each column's variance that is explained by what is seen of each unit, added up over units.

    Rows are binned by what is seen, and a bin's mean is what a decoder of any form would answer there; the fraction is
    corrected for the number of bins.
    """
    rows = len(seen)
    bins = max(min(_BINS, rows // _ROWS_OF_A_BIN), 2)
    starts = np.arange(bins) * rows // bins
    sizes = np.diff(np.append(starts, rows))[:, np.newaxis]
    centred = columns - columns.mean(axis=0)
    variance = (centred**2).mean(axis=0)
    fractions: Floats = np.zeros(columns.shape[1])
    for unit in seen.T:
        sums = np.add.reduceat(centred[np.argsort(unit, kind="stable")], starts, axis=0)
        between = (sums**2 / sizes).sum(axis=0) / rows
        found = np.divide(between, variance, out=np.zeros_like(variance), where=variance > 1e-12)
        fractions += np.maximum(1.0 - (1.0 - found) * (rows - 1) / (rows - bins), 0.0)
    return fractions


def clipped(points: Floats, radius: float) -> Floats:
    """Rows within a ball."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    within: Floats = points * np.minimum(1.0, radius / np.maximum(length, 1e-12))
    return within


def limited(output: Floats, columns: Floats, radius: float, noise: Noise, limit: float) -> Floats:
    """The output within a ball, so that activations explain no more than a limit of any column.

    Step by step the column of which they explain most is taken out of the output, which is made uncorrelated and of
    variance 1 again. If that does not end, the output is made smaller. What activations explain is judged with noise
    that is not theirs.
    """
    width = output.shape[1]
    both = np.hstack([output, columns])
    both = both - both.mean(axis=0)
    some = both[np.linspace(0, len(both) - 1, min(len(both), _SAMPLE)).astype(np.int64)]
    judged = some[:, width:]
    variances = np.maximum((judged**2).mean(axis=0), 1e-12)
    other_noise = noise.spread * noise.at(np.random.default_rng(0).random((len(some), width)))
    mixed = _apart(np.eye(len(both.T), width), some)
    for _ in range(_TURNS):
        points = some @ mixed
        told = explained(clipped(points, radius) + other_noise, judged)
        most = int(told.argmax()) if told.size else 0
        if not told.size or told[most] <= limit:
            return clipped(both @ mixed, radius)
        less = mixed.copy()
        less[width + most] -= _LESS * (judged[:, most] @ points) / len(some) / variances[most]
        mixed = _apart(less, some)
    low, high, points = 0.0, 1.0, clipped(some @ mixed, radius)
    for _ in range(30):
        middle = (low + high) / 2
        fits = explained(middle * points + other_noise, judged).max() <= limit
        low, high = (middle, high) if fits else (low, middle)
    return low * clipped(both @ mixed, radius)


def _apart(mixed: Floats, some: Floats) -> Floats:
    """The same mixture with points that are uncorrelated and of variance 1; what is 0 everywhere stays so."""
    points = some @ mixed
    size, turned = np.linalg.eigh(points.T @ points / len(points))
    scale = np.divide(1.0, np.sqrt(np.maximum(size, 1e-12)), out=np.zeros_like(size), where=size > 1e-9)
    found: Floats = mixed @ (turned * scale) @ turned.T
    return found


def noisy(points: Floats, noise: Noise) -> Floats:
    """Points with noise from the system's randomness, in whole steps."""
    numbers = expand(new_seed(), b"activations", points.shape)
    chances = ((numbers >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return np.rint(STEPS_OF_NOISE * (points / noise.spread + noise.at(chances)))
