"""The standard normal distribution for arrays: its distribution function and the inverse of it.

Both interpolate one table, so that each undoes the other; the error is below 1e-6, and beyond ±8 there is nothing.

>>> quantile(np.array([0.0, 0.025, 0.5, 1.0])).round(3).tolist()
[-8.0, -1.96, 0.0, 8.0]
>>> cdf(np.array([-9.0, 0.0, 1.96])).round(3).tolist()
[0.0, 0.5, 0.975]
"""

from __future__ import annotations

import math

import numpy as np

from unpooled.arrays import Floats

FARTHEST = 8.0
_POINTS = np.linspace(-FARTHEST, FARTHEST, 6401)
_BELOW = np.array([0.5 * math.erfc(-point / math.sqrt(2.0)) for point in _POINTS])


def cdf(points: Floats) -> Floats:
    """The probability of a value below each point."""
    below: Floats = np.interp(points, _POINTS, _BELOW)
    return below


def quantile(probabilities: Floats) -> Floats:
    """The point below which a value lies with each probability."""
    points: Floats = np.interp(probabilities, _BELOW, _POINTS)
    return points


def truncated(means: Floats, spread: float, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Draws from normal distributions with these means and one standard deviation, between `low` and `high`."""
    below, above = cdf((low - means) / spread), cdf((high - means) / spread)
    drawn = means + spread * quantile(below + (above - below) * rng.random(len(means)))
    return np.minimum(np.maximum(drawn, low), high)
