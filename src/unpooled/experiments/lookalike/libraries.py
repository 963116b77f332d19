"""The same learners of scikit-learn, LightGBM and XGBoost, with settings that correspond to ours."""

from __future__ import annotations

from typing import Any, cast

from unpooled.errors import InputError
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters, GbdtParameters, LgbParameters

PACKAGES = {
    "linear": "scikit-learn",
    "rf": "scikit-learn",
    "gbdt": "scikit-learn",
    "xgb": "xgboost-cpu",
    "lgb": "lightgbm",
}


def classifier_of(parameters: LearnerParameters) -> Any:
    """A classifier, on one core.

    Where a library lacks one of our settings its default stays: none has `min_rows`, and scikit-learn's gradient
    boosting has no bins. Logistic regression is solved, not stepped towards: its C is 1 / (rows · l2).
    """
    try:
        return _classifier(parameters)
    except ImportError:
        raise InputError("the libraries to compare with need: pip install 'unpooled[experiments]'") from None


def _classifier(parameters: LearnerParameters) -> Any:
    if isinstance(parameters, LinearParameters):
        return _regression(parameters.l2)
    trees = cast(AnyTrees, parameters)
    if isinstance(trees, ForestParameters):
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_estimators=trees.trees, max_depth=trees.depth, n_jobs=1)
    if isinstance(trees, GbdtParameters):
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(
            n_estimators=trees.trees, max_depth=trees.depth, learning_rate=trees.learning_rate
        )
    if isinstance(trees, LgbParameters):
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=trees.trees,
            max_depth=trees.depth,
            num_leaves=trees.leaves,
            learning_rate=trees.learning_rate,
            data_sample_strategy="goss",
            top_rate=trees.top_fraction,
            other_rate=trees.other_fraction,
            max_bin=trees.bins,
            min_child_weight=trees.minimum_child_weight,
            min_child_samples=trees.min_rows,
            n_jobs=1,
            verbose=-1,
        )
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=trees.trees,
        max_depth=trees.depth,
        learning_rate=trees.learning_rate,
        max_bin=trees.bins,
        reg_lambda=trees.l2,
        min_child_weight=trees.minimum_child_weight,
        tree_method="hist",
        n_jobs=1,
    )


def _regression(l2: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    class Regression(LogisticRegression):  # type: ignore[misc]
        """Logistic regression whose C follows the rows of the bag."""

        def __init__(self, l2: float) -> None:
            super().__init__(max_iter=1_000)
            self.l2 = l2

        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
            self.C = 1 / (len(y) * self.l2)
            return super().fit(X, y, sample_weight)

    return Regression(l2)
