"""Learning labels of one party from the columns of several; needs the extra `sklearn`.

>>> rng = np.random.default_rng(1)
>>> X = rng.normal(size=(300, 4))
>>> y = np.where(X[:, 0] * X[:, 3] > 0, "yes", "no")
>>> split = {"telco": [0, 1], "bank": [2, 3]}
>>> few = {"trees": 10, "learning_rate": 0.5, "random_state": 1}
>>> found = VerticalClassifier(split=split, **few).fit(X, y)
>>> pooled = VerticalClassifier(split=split, engine="pooled", **few).fit(X, y)
>>> bool((found.predict_proba(X) == pooled.predict_proba(X)).all()), bool(found.score(X, y) > 0.9)
(True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.estimators.apart import Apart
from unpooled.estimators.base import VerticalEstimator, labels_of, with_value_errors
from unpooled.estimators.settings import LEARNER_SETTINGS, LEARNERS, chosen
from unpooled.estimators.together import fit
from unpooled.vertical.learners import learner_of
from unpooled.vertical.targets import Target


class _Vertical(VerticalEstimator):
    """What both have in common."""

    def _learn(self, rows: Apart, values: Floats, sample_weight: Any, classes: Sequence[str]) -> Self:
        given = self._given(LEARNER_SETTINGS)
        base = chosen("learner", LEARNERS, self.learner, {**given, "classes": len(classes)})
        weights = None if sample_weight is None else np.asarray(sample_weight, float)
        parties, columns = self._begin(rows, learner_of(base))
        self._end(fit(parties, base, columns, Target(values, weights, parties.seed), classes))
        return self


class VerticalClassifier(ClassifierMixin, _Vertical):  # type: ignore[misc]
    """Parties learn classes together, which may be any labels; docs/estimators.md says how to use it.

    The settings of `learner` are keywords. X is one table, which `split` deals to parties, or a table for each party.
    """

    @with_value_errors
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Learn the active party's labels `y` from everybody's columns."""
        rows = self._rows(X, reset=True)
        labels = labels_of(y, len(rows), classes=True)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has one class only, {self.classes_.tolist()[0]!r}; there must be two at least")
        return self._learn(rows, numbers.astype(float), sample_weight, tuple(map(str, self.classes_)))

    @with_value_errors
    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """The probability of each class, in the order of `classes_`."""
        return self._probabilities(X)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class VerticalRegressor(RegressorMixin, _Vertical):  # type: ignore[misc]
    """Parties learn a number together; everything else is as for `VerticalClassifier`."""

    @with_value_errors
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Learn the active party's numbers `y` from everybody's columns."""
        rows = self._rows(X, reset=True)
        return self._learn(rows, labels_of(y, len(rows), classes=False).astype(float), sample_weight, ())

    @with_value_errors
    def predict(self, X: Any) -> Floats:  # noqa: N803
        """The number of each row."""
        return self._scores(X)[:, 0]
