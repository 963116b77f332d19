"""The methods as scikit-learn estimators, for columns in one place; needs the extra `sklearn`.

`fit(X, y)`: y has two values, and the greater one marks the known positives; the other rows are unlabelled, not
negative. So 1 with 0 or -1, or True with False. There is no value for negatives, as none is known.

`predict_proba(X)` scores new rows by the models that were made last: for `VfpuClassifier` those of the last iteration.
Of rows that these models were made from, it says more than it knows. For the unlabelled rows that were fitted use
`scores_` and `ranking_`, to which no model contributes that learned the row as a negative.

`estimator` is any classifier with `predict_proba`; None stands for scikit-learn's histogram boosting with small trees,
which takes missing values.

>>> rng = np.random.default_rng(1)
>>> X = rng.normal(size=(300, 2))
>>> positive = X[:, 0] > 1
>>> y = np.where(positive & (np.arange(300) % 2 == 0), 1, -1)
>>> from sklearn.linear_model import LogisticRegression
>>> found = BaggingPuClassifier(LogisticRegression(), bags=5, random_state=1).fit(X, y)
>>> bool(positive[found.ranking_.order[:10]].all())
True
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unpooled.arrays import Bools, Floats
from unpooled.pu.bags import fold_bags, outside_means
from unpooled.pu.estimates.elkan_noto import HeldOut, folds_of, held_out
from unpooled.pu.methods import rank
from unpooled.pu.pooled.classifiers import PooledClassifiers, small_trees
from unpooled.pu.pooled.trees import Learner
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings

_SEEDS = 2**31 - 1
_NEARLY = 1 - 1e-6  # so that either side has rows
_VFPU, _BAGGING, _TWO_STEP, _NAIVE = VfpuSettings(), BaggingSettings(), TwoStepSettings(), NaiveSettings()


class _PuClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What all have in common: labels, learners, and predictions by the models made last.

    Those that are a method of `pu.methods` have its settings as parameters of the same names.
    """

    _method: ClassVar[type[AnyMethod]]
    estimator: Any = None
    random_state: Any

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Learn from known positives and unlabelled rows."""
        X, y = validate_data(self, X, y, ensure_all_finite=self._finite, dtype="numeric")  # noqa: N806
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            raise ValueError(
                f"y has {len(self.classes_)} classes; it must have 2, one for known positives and one for "
                f"unlabelled rows. Only binary classification is supported."
            )
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        self.ranking_ = self._ranked(X, y == self.classes_[1], seed)
        self.scores_ = self.ranking_.scores
        return self

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """For new rows the scores of either class; they are probabilities only as far as the method makes them so."""
        check_is_fitted(self)
        X = validate_data(self, X, ensure_all_finite=self._finite, dtype="numeric", reset=False)  # noqa: N806
        found = self._scored(X)
        return np.stack([1.0 - found, found], axis=1)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The known positives' value for rows with a score of one half or more, else the other."""
        chances = self.predict_proba(X)[:, 1]
        return self.classes_[(chances >= 0.5).astype(np.int64)]

    def _ranked(self, matrix: Any, known: Bools, seed: int) -> Ranking:
        settings = self._method(**{name: getattr(self, name) for name in self._method.model_fields if name != "name"})
        self._learner = self._new_learner(matrix)
        return rank(known, settings, self._learner, seed)

    def _scored(self, matrix: Any) -> Floats:
        return self._learner.score(matrix)

    def _new_learner(self, matrix: Any) -> Learner:
        if self.estimator is not None:
            return PooledClassifiers(matrix, self.estimator)
        return PooledClassifiers(np.asfortranarray(matrix), small_trees())  # trees read few columns of many rows

    @property
    def _finite(self) -> Any:
        return "allow-nan" if self.estimator is None else True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = self.estimator is None
        return tags


class VfpuClassifier(_PuClassifier):
    """Algorithm 3-1: bagging again and again, the likeliest rows becoming positives each time."""

    _method = VfpuSettings

    def __init__(
        self,
        estimator: Any = None,
        *,
        iterations: int = _VFPU.iterations,
        bags: int = _VFPU.bags,
        fraction: float = _VFPU.fraction,
        negatives: Literal["unlabelled", "reliable"] = _VFPU.negatives,
        negative_fraction: float = _VFPU.negative_fraction,
        gamma: float = _VFPU.gamma,
        order: Literal["score", "promotion"] = _VFPU.order,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.iterations = iterations
        self.bags = bags
        self.fraction = fraction
        self.negatives = negatives
        self.negative_fraction = negative_fraction
        self.gamma = gamma
        self.order = order
        self.random_state = random_state


class BaggingPuClassifier(_PuClassifier):
    """Bags of all positives and as many random unlabelled rows (Mordelet and Vert, 2014)."""

    _method = BaggingSettings

    def __init__(self, estimator: Any = None, *, bags: int = _BAGGING.bags, random_state: Any = None) -> None:
        self.estimator = estimator
        self.bags = bags
        self.random_state = random_state


class TwoStepPuClassifier(_PuClassifier):
    """Reliable rows first, then a model of these; `first` says of which side."""

    _method = TwoStepSettings

    def __init__(
        self,
        estimator: Any = None,
        *,
        first: Literal["negatives", "positives"] = _TWO_STEP.first,
        negative_fraction: float = _TWO_STEP.negative_fraction,
        positive_fraction: float = _TWO_STEP.positive_fraction,
        folds: int = _TWO_STEP.folds,
        balanced: bool = _TWO_STEP.balanced,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.first = first
        self.negative_fraction = negative_fraction
        self.positive_fraction = positive_fraction
        self.folds = folds
        self.balanced = balanced
        self.random_state = random_state


class NaivePuClassifier(_PuClassifier):
    """Unlabelled rows count as negative."""

    _method = NaiveSettings

    def __init__(
        self,
        estimator: Any = None,
        *,
        folds: int = _NAIVE.folds,
        balanced: bool = _NAIVE.balanced,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.folds = folds
        self.balanced = balanced
        self.random_state = random_state


class ElkanNotoClassifier(_PuClassifier):
    """The probability of being known, divided by that of being known if positive (Elkan and Noto, 2008).

    `c_` is the latter, from known rows that were held out. With `weighted` there is a second model, for which each
    unlabelled row counts as positive with its probability and as negative with the rest.
    """

    def __init__(
        self, estimator: Any = None, *, folds: int = _NAIVE.folds, weighted: bool = False, random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.folds = folds
        self.weighted = weighted
        self.random_state = random_state

    def _ranked(self, matrix: Any, known: Bools, seed: int) -> Ranking:
        self._learner = self._new_learner(matrix)
        self._held_out = held_out(known, self._learner, seed, self.folds)
        self.c_ = self._held_out.c
        scores = self._held_out.positive_if_unlabelled(self._held_out.scores)
        if self.weighted:
            scores = self._weighted_scores(matrix, self._held_out, scores, seed)
        return Ranking(known, np.where(known, np.nan, scores), np.zeros(len(known), np.int64))

    def _weighted_scores(self, matrix: Any, first: HeldOut, chances: Floats, seed: int) -> Floats:
        """Unlabelled rows are there twice, the second time as negatives, both in the same fold."""
        rows, again, chances = len(matrix), np.flatnonzero(~first.known), np.minimum(chances, _NEARLY)
        self._learner = self._new_learner(np.concatenate([matrix, matrix[again]]))
        positive = np.arange(rows + len(again)) < rows
        weights = np.concatenate([np.where(first.known, 1.0, chances), 1.0 - chances[again]])
        fold = folds_of(first.known, self.folds, seed)
        rng = np.random.default_rng([seed, 2])
        bags = fold_bags(positive, weights, np.append(fold, fold[again]), rng, balanced=False)
        return outside_means(bags, self._learner(bags))[:rows]

    def _scored(self, matrix: Any) -> Floats:
        found = self._learner.score(matrix)
        return found if self.weighted else self._held_out.positive(found)


class RandomPuClassifier(_PuClassifier):
    """Scores without any meaning, to compare with."""

    def __init__(self, *, random_state: Any = None) -> None:
        self.random_state = random_state

    def _ranked(self, matrix: Any, known: Bools, seed: int) -> Ranking:
        self._seed = seed
        scores = np.random.default_rng([seed, 1]).random(len(matrix))
        return Ranking(known, np.where(known, np.nan, scores), np.zeros(len(known), np.int64))

    def _scored(self, matrix: Any) -> Floats:
        return np.random.default_rng([self._seed, 2]).random(len(matrix))
