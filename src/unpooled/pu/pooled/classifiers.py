"""Learning from bags with any scikit-learn classifier; needs the extra `sklearn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import has_fit_parameter

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.pu.bags import Bag
from unpooled.vertical.numbers import mean_of_models

_SEEDS = 2**32


def small_trees() -> HistGradientBoostingClassifier:
    """The default classifier: few and small trees, because bags are small; missing values are allowed."""
    return HistGradientBoostingClassifier(
        max_iter=25, learning_rate=0.2, max_leaf_nodes=8, min_samples_leaf=10, early_stopping=False
    )


class PooledClassifiers:
    """Clones of a classifier, one for each bag.

    A row that was drawn twice is there twice. Weights that are not whole numbers are the classifier's `sample_weight`;
    if it knows none, rows are repeated as often as their weight rounded, at least once. Whatever is called
    `random_state` is set from the bag's seed.
    """

    def __init__(self, matrix: Any, classifier: Any) -> None:
        if not hasattr(classifier, "predict_proba"):
            raise InputError(f"look-alikes: {type(classifier).__name__} gives no probabilities")
        self._matrix, self._classifier = matrix, classifier
        self._made: list[Any] = []

    def __call__(self, bags: Sequence[Bag]) -> list[Floats]:
        self._made = [self._fitted(bag) for bag in bags]
        return [_positive(made, self._matrix) for made in self._made]

    def score(self, matrix: Any) -> Floats:
        """The mean probability by the classifiers made last."""
        if not self._made:
            raise InputError("look-alikes: nothing has been learned yet")
        return mean_of_models([_positive(made, matrix) for made in self._made])

    def _fitted(self, bag: Bag) -> Any:
        made = clone(self._classifier)
        names = [name for name in made.get_params() if name == "random_state" or name.endswith("__random_state")]
        made.set_params(**dict.fromkeys(names, bag.seed % _SEEDS))
        rows = np.flatnonzero(~bag.outside)
        weights = bag.weights[rows]
        times = np.maximum(np.rint(weights), 1).astype(np.int64)
        if (times != weights).any() and has_fit_parameter(made, "sample_weight"):
            return made.fit(self._matrix[rows], bag.labels[rows], sample_weight=weights)
        rows = np.repeat(rows, times)
        return made.fit(self._matrix[rows], bag.labels[rows])


def _positive(made: Any, matrix: Any) -> Floats:
    found: Floats = np.asarray(made.predict_proba(matrix), float)[:, 1]
    return found
