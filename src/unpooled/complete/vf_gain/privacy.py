"""How much noise activations need: local differential privacy.

A row's activations are a point within a ball, plus noise. If the row were any other, the point would move by the
diameter of the ball at the most, so its activations are (ε, δ)-private whatever else is known, the network included:
by the Laplace mechanism (Dwork and others 2006; then δ is 0), or by the Gaussian one (Balle and Wang 2018, accounted by
dp-accounting), whichever needs less noise: Laplace's for a few units, the Gaussian for many. Activations leave once:
nothing adds up within a run. The network itself is learned from all rows together, and what it tells of a single one of
them by that is not counted.

>>> noise_for(8.0, 1e-5, 1.0, 1)
Noise(law='laplace', spread=0.353...)
>>> noise_for(8.0, 1e-5, 1.0, 64)
Noise(law='normal', spread=1.200...)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from unpooled.arrays import Floats
from unpooled.data.normal import quantile
from unpooled.errors import InputError


@dataclass(frozen=True)
class Noise:
    """A distribution around 0, and its standard deviation."""

    law: Literal["laplace", "normal"]
    spread: float

    def at(self, chances: Floats) -> Floats:
        """The values, in standard deviations, below which noise lies with these chances."""
        if self.law == "normal":
            return quantile(chances)
        away = chances - 0.5
        values: Floats = -np.sign(away) * np.log1p(-2.0 * np.abs(away)) / sqrt(2.0)
        return values


def noise_for(epsilon: float, delta: float, radius: float, units: int) -> Noise:
    """The noise on each unit of points within a ball of this radius."""
    try:
        from dp_accounting import get_sigma_gaussian
    except ImportError:
        raise InputError("activations need: pip install 'unpooled[generate]'") from None
    diameter = 2.0 * radius
    normal = diameter * float(get_sigma_gaussian(epsilon, delta))
    laplace = sqrt(2.0) * diameter * sqrt(units) / epsilon  # a step in all units at once is the longest in their sum
    return Noise("laplace", laplace) if laplace <= normal else Noise("normal", normal)
