"""The same learners of scikit-learn, LightGBM and XGBoost, with settings that correspond to ours."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unpooled.errors import InputError
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of

_MOMENTUM = 10.0
"""How many times as far steps go that keep nine tenths of the one before."""

PACKAGES = {
    "linear": "scikit-learn",
    "rf": "scikit-learn",
    "gbdt": "scikit-learn",
    "xgb": "xgboost-cpu",
    "lgb": "lightgbm",
}


def classifier_of(parameters: LearnerParameters, columns: Columns) -> Any:
    """A classifier for bags of rows with these columns, on one core.

    Where a library lacks one of our settings its default stays. `min_rows` counts rows outside a bag too if bags are
    hidden, and so hardly limits what trees learn from a bag; only `lgb` has it of the drawn rows, as LightGBM has.
    scikit-learn's gradient boosting has no bins. Logistic regression is by stochastic gradient descent, which goes as
    far in each pass over a bag as our batches do.
    """
    try:
        return _classifier(parameters, columns)
    except ImportError:
        raise InputError("the libraries to compare with need: pip install 'unpooled[experiments]'") from None


def _classifier(parameters: LearnerParameters, columns: Columns) -> Any:
    settings = parameters.model_dump()
    if parameters.learner == "linear":
        return _regression(parameters, columns)
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
        min_child_samples=settings["min_rows"],
        verbose=-1,
    )


def _regression(parameters: LearnerParameters, columns: Columns) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import SGDClassifier

    learner, settings = learner_of(parameters), parameters.model_dump()
    if learner.batch_rows is None or learner.rounds_of is None:
        raise InputError(f"{parameters.learner}: it does not learn in batches")
    batch, epochs = learner.batch_rows(parameters, max(columns.blocks)), learner.rounds_of
    judges = settings["reveal"] == "gradients"  # else no loss says when it is enough
    rate = settings["learning_rate"] * (_MOMENTUM if settings["optimiser"] == "momentum" else 1)

    def limited(matrix: Any) -> Any:
        return np.clip(matrix, -settings["limit"], settings["limit"])

    class Regression(SGDClassifier):  # type: ignore[misc]
        """Logistic regression whose step for a row follows from how many rows a bag has."""

        def __init__(self, rows: int | None = None, random_state: int | None = None) -> None:
            super().__init__(
                loss="log_loss",
                alpha=settings["l2"],
                learning_rate="constant",
                tol=(judges and settings["tolerance"]) or None,
                n_iter_no_change=settings["patience"],
                random_state=random_state,
            )
            self.rows = rows

        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
            batches = max((self.rows or len(y)) // batch, 1)
            self.eta0, self.max_iter = batches * rate / len(y), epochs(parameters, batches)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # ours has as many epochs, and stops alike
                return super().fit(limited(X), y, sample_weight=sample_weight)

        def decision_function(self, X: Any) -> Any:  # noqa: N803
            return super().decision_function(limited(X))

    return Regression(len(columns.matrix) if settings["hide_bags"] else None)
