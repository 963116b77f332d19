"""Finding look-alikes in the columns of several parties; needs the extra `sklearn`.

`fit(X, y)`: y has two values, of which the greater one marks the known positives; the other rows are unlabelled.
Learners have the defaults of the job `lookalike`: small trees, whose nodes the passive parties do not see.

`pu.pooled.estimators` has the same methods for columns in one place and any classifier: take these to compare methods,
and this one for what parties find that keep their columns.

>>> rng = np.random.default_rng(1)
>>> X = rng.normal(size=(300, 2))
>>> positive = X.sum(axis=1) > 1
>>> known = positive & (np.arange(300) % 2 == 0)
>>> finder = LookalikeFinder("bagging", split=2, bags=3, trees=10, random_state=1).fit(X, known)
>>> bool(positive[finder.top(10)].mean() > 0.7)
True
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError
from unpooled.estimators.base import VerticalEstimator, labels_of, with_value_errors
from unpooled.estimators.settings import LEARNER_SETTINGS, LEARNERS, METHOD_SETTINGS, METHODS, chosen, with_settings
from unpooled.estimators.together import search
from unpooled.pu.settings import VfpuSettings
from unpooled.vertical.learners import begun_secret, learner_of


@with_settings
class LookalikeFinder(ClassifierMixin, VerticalEstimator):  # type: ignore[misc]
    """Parties rank unlabelled rows by how likely they are positive; docs/estimators.md says how to use it.

    All settings of method and learner are keywords; what has the same name in both is the method's, which balances all
    bags that the learner could.

    `predict_proba` scores new rows by the models that were made last. Of rows that these models were made from, it says
    more than it knows: for the unlabelled rows that were fitted there are `scores_` and `ranking_`.
    """

    setting_names = tuple(dict.fromkeys((*METHOD_SETTINGS, *LEARNER_SETTINGS)))

    def __init__(self, method: str = VfpuSettings().name, **settings: Any) -> None:
        super().__init__(**settings)
        self.method = method

    @with_value_errors
    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Rank the unlabelled rows; the greater value in `y` marks the known positives."""
        rows = self._rows(X, reset=True)
        labels = labels_of(y, len(rows), classes=True)
        self.classes_ = np.unique(labels)
        if len(self.classes_) != 2:
            raise InputError(
                f"y has {len(self.classes_)} classes; it must have 2, one for known positives and one for unlabelled "
                "rows. Only binary classification is supported."
            )
        method = chosen("method", METHODS, self.method, self._given(METHOD_SETTINGS))
        given = self._given([name for name in LEARNER_SETTINGS if name not in METHOD_SETTINGS])
        base = chosen("learner", LEARNERS, self.learner, begun_secret({"learner": self.learner, **given}))
        parties, columns = self._begin(rows, learner_of(base))
        learned, self.ranking_ = search(parties, base, columns, labels == self.classes_[1], method)
        self.scores_, self.iteration_ = self.ranking_.scores, self.ranking_.iterations
        self._end(learned)
        return self

    def top(self, rows: int) -> Ints:
        """The places of so many unlabelled rows, the likeliest first."""
        check_is_fitted(self)
        return self.ranking_.order[:rows]

    @with_value_errors
    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """For new rows the scores of either class; they are probabilities only as far as the method makes them so."""
        return self._probabilities(X)

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """By how much the score is above one half, from where on a row is predicted as positive."""
        return self.predict_proba(X)[:, 1] - 0.5

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The known positives' value for rows with a score above one half, else the other."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
