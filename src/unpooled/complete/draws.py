"""Draws of missing cells, each as likely as the predictions say, instead of the one value that is most likely.

A class is drawn by its probability. A number is that of a known cell whose held-out prediction is near (predictive
mean matching: Little, 1988), so draws have the values, gaps and spread of the column. What a model learns from one draw
is noisy; train on several, and on the table with its cells left missing, and take the mean of their predictions.
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats
from unpooled.complete.self_training import Prediction
from unpooled.errors import InputError

DONORS = 20


def drawn(prediction: Prediction, rng: np.random.Generator) -> Floats:
    """The column with its missing cells drawn: classes, or numbers."""
    values, missing = prediction.variable.values.copy(), ~prediction.known
    outputs = prediction.outputs[missing]
    if prediction.variable.classes:
        bounds = np.cumsum(outputs, axis=1)
        chance = rng.random(len(outputs))[:, np.newaxis] * bounds[:, -1:]
        values[missing] = np.minimum((bounds <= chance).sum(axis=1), outputs.shape[1] - 1)
        return values
    judged = prediction.known & ~np.isnan(prediction.held_out[:, 0])
    if not judged.any():
        raise InputError(f"column '{prediction.variable.name}': draws need folds, 2 at least")
    donors = np.flatnonzero(judged)
    donors = donors[np.argsort(prediction.held_out[donors, 0], kind="stable")]
    near = np.searchsorted(prediction.held_out[donors, 0], outputs[:, 0])
    low = np.clip(near - DONORS // 2, 0, max(len(donors) - DONORS, 0))
    chosen = low + rng.integers(min(DONORS, len(donors)), size=len(low))
    values[missing] = prediction.variable.values[donors[chosen]]
    return values
