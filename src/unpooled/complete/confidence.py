"""How sure a predicted cell is, between 0 and 1.

`paper` has the two formulas of the FedPSG-PUM paper. For numbers that favours predictions near the mean, however
uncertain. `calibrated` looks at known cells that were predicted by models which had not seen them: for classes it is
the chance that the prediction is right; for numbers 1 minus the expected absolute error, relative to that of the
median for every cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Bools, Floats


def paper(outputs: Floats, classes: int, waiting: Bools) -> Floats:
    """The largest probability; for numbers 1 - |ŷ - μ| / σ, with mean and deviation of the predictions of `waiting`."""
    if classes:
        largest: Floats = outputs.max(axis=1)
        return largest
    predicted = outputs[:, 0]
    among = predicted[waiting]
    spread = float(among.std()) if among.size else 0.0
    if spread == 0:
        return np.ones(len(predicted))
    near: Floats = np.clip(1 - np.abs(predicted - among.mean()) / spread, 0.0, 1.0)
    return near


def calibrated(
    each: Sequence[Floats], outputs: Floats, held_out: Floats, truth: Floats, judged: Bools, classes: int
) -> Floats:
    """By what the held-out predictions of the `judged` rows show: the surer a prediction seemed, the better it was.

    What a prediction seemed is, for classes, its largest probability; for numbers the spread of the models (`each`).
    """
    if classes:
        right = (held_out[judged].argmax(axis=1) == truth[judged]).astype(float)
        return increasing(held_out[judged].max(axis=1), right, outputs.max(axis=1))
    spread = np.std([one[:, 0] for one in each], axis=0)
    errors = np.abs(held_out[judged, 0] - truth[judged])
    expected = increasing(spread[judged], errors, spread)
    usual = float(np.abs(truth[judged] - np.median(truth[judged])).mean())
    return np.clip(1 - expected / usual, 0.0, 1.0) if usual > 0 else np.ones(len(outputs))


def increasing(x: Floats, y: Floats, at: Floats) -> Floats:
    """The increasing function of x that is nearest to y (pool adjacent violators), at other places.

    >>> increasing(np.array([1.0, 2, 3, 4]), np.array([0.0, 2, 1, 5]), np.array([2.5, 9])).tolist()
    [1.5, 5.0]
    """
    order = np.argsort(x, kind="stable")
    means: list[float] = []
    weights: list[int] = []
    starts: list[float] = []
    for place, value in zip(x[order].tolist(), y[order].tolist(), strict=True):
        means.append(value)
        weights.append(1)
        starts.append(place)
        while len(means) > 1 and (means[-2] >= means[-1] or starts[-2] == starts[-1]):
            total = weights[-2] + weights[-1]
            means[-2] = (means[-2] * weights[-2] + means[-1] * weights[-1]) / total
            weights[-2] = total
            del means[-1], weights[-1], starts[-1]
    places = np.searchsorted(np.array(starts), at, side="right") - 1
    found: Floats = np.array(means)[np.clip(places, 0, len(means) - 1)]
    return found
