"""The same learners of scikit-learn, LightGBM and XGBoost, with settings that correspond to ours."""

from __future__ import annotations

from typing import Any

from unpooled.errors import InputError
from unpooled.vertical.learner import LearnerParameters

PACKAGES = {
    "linear": "scikit-learn",
    "rf": "scikit-learn",
    "gbdt": "scikit-learn",
    "xgb": "xgboost-cpu",
    "lgb": "lightgbm",
}


def classifier_of(parameters: LearnerParameters) -> Any:
    """A classifier, on one core.

    Where a library lacks one of our settings its default stays. None has `min_rows`, which counts rows outside a bag
    too if bags are hidden, and so hardly limits what trees learn from a bag; scikit-learn's gradient boosting has no
    bins. Logistic regression is solved, not stepped towards.
    """
    try:
        return _classifier(parameters)
    except ImportError:
        raise InputError("the libraries to compare with need: pip install 'unpooled[experiments]'") from None


def _classifier(parameters: LearnerParameters) -> Any:
    settings = parameters.model_dump()
    if parameters.learner == "linear":
        return _regression(settings["l2"])
    size = {"n_estimators": settings["trees"], "max_depth": settings["depth"]}
    if parameters.learner == "rf":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(**size, n_jobs=1)
    size["learning_rate"] = settings["learning_rate"]
    if parameters.learner == "gbdt":
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(**size)
    more = {"max_bin": settings["bins"], "min_child_weight": settings["minimum_child_weight"], "n_jobs": 1}
    if parameters.learner == "xgb":
        from xgboost import XGBClassifier

        return XGBClassifier(**size, **more, reg_lambda=settings["l2"], tree_method="hist")
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        **size,
        **more,
        num_leaves=settings["leaves"],
        data_sample_strategy="goss",
        top_rate=settings["top_fraction"],
        other_rate=settings["other_fraction"],
        min_child_samples=1,
        verbose=-1,
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
