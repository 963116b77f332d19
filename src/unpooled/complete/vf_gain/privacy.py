"""How much noise activations need: local differential privacy, accounted by dp-accounting.

A row's activations are a point within a ball, plus normal noise. If the row were any other, the point would move by the
diameter of the ball at the most, so its activations are (ε, δ)-private by the Gaussian mechanism (Balle and Wang 2018),
whatever else is known, the network included. They leave once: nothing adds up within a run. The network itself is
learned from all rows together, and what it tells of a single one of them by that is not counted.

>>> round(noise_for(8.0, 1e-5, 1.0), 3), round(noise_for(1.0, 1e-5, 1.0), 3)
(1.2, 7.461)
"""

from __future__ import annotations

from unpooled.errors import InputError


def noise_for(epsilon: float, delta: float, radius: float) -> float:
    """The standard deviation of the noise on points within a ball of this radius."""
    try:
        from dp_accounting import get_sigma_gaussian
    except ImportError:
        raise InputError("activations need: pip install 'unpooled[generate]'") from None
    return 2.0 * radius * float(get_sigma_gaussian(epsilon, delta))
