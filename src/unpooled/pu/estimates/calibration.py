"""Scores as chances of being positive, from known and unlabelled rows alone.

A model of bags gives scores for bags, which are half positive; and positives drawn as negatives pull them down. What a
score means among the unlabelled rows follows from how often it occurs there and among positives: if a fraction a of the
unlabelled rows is positive, a row with score s is so with the chance a f(s) / u(s), where f and u are the densities of
scores of positives and of unlabelled rows. The ratio is fitted as a function that never falls with s (isotonic, by
pooling neighbours: Ayer et al., 1955). The known rows' scores must be by models that had not seen them.

>>> chances(np.array([0.9, 0.8]), np.array([0.9, 0.8, 0.1, 0.2]), fraction=0.5).tolist()
[1.0, 1.0, 0.0, 0.0]
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats
from unpooled.errors import InputError


def chances(known: Floats, unlabelled: Floats, fraction: float) -> Floats:
    """For each unlabelled row its chance of being positive, if `fraction` of them are.

    Known rows together weigh as much as the positives among the unlabelled. The fraction r of the known rows' weight at
    a score then makes the chance r / (1 - r), at most 1.
    """
    if not len(known) or not len(unlabelled):
        raise InputError("calibration: scores of known and of unlabelled rows are needed")
    scores, places = np.unique(np.concatenate([known, unlabelled]), return_inverse=True)
    ones = np.bincount(places[: len(known)], minlength=len(scores)) * (fraction * len(unlabelled) / len(known))
    others = np.bincount(places[len(known) :], minlength=len(scores)).astype(float)
    shares = isotonic(ones / (ones + others), ones + others)
    ratio = np.divide(shares, 1.0 - shares, out=np.ones_like(shares), where=shares < 0.5)
    found: Floats = ratio[places[len(known) :]]
    return found


def isotonic(values: Floats, weights: Floats) -> Floats:
    """The nearest values, by weighted squares, that never fall: neighbours that do are pooled."""
    means: list[float] = []
    masses: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, mass, count = value, weight, 1
        while means and means[-1] >= mean:
            mass += masses[-1]
            mean += (means.pop() - mean) * masses.pop() / mass
            count += counts.pop()
        means.append(mean)
        masses.append(mass)
        counts.append(count)
    return np.repeat(means, counts)
