"""Models are as good as those of well-known libraries; where nothing is left to choice or chance they are the same.

All of it is about pooled columns: that several parties get the same models is tested elsewhere.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import polars as pl
import pytest
import xgboost
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from unpooled.arrays import Floats
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings, clean, transform
from unpooled.data.prepare import fit as learn_preparation
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc, macro_auc, r2
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import alone
from unpooled.vertical.trees.ensemble import Target, fit
from unpooled.vertical.trees.model import Model
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters, GbdtParameters, LgbParameters, XgbParameters
from unpooled.vertical.trees.predictor import scores

NUMBERS, TWO, SEVERAL = 0, 2, 3


class Rows(NamedTuple):
    """Rows to learn from, and new ones; `classes` is 0 for numbers."""

    matrix: Floats
    values: Floats
    new_matrix: Floats
    new_values: Floats
    classes: int
    weights: Floats | None = None


# What they say: probabilities of all classes, of the second of two, or numbers


def model_of(parameters: AnyTrees, rows: Rows) -> Model:
    names = tuple(f"column {place}" for place in range(rows.matrix.shape[1]))
    target = Target(rows.values, rows.weights, seed=1)
    return fit(alone(), parameters, Columns(rows.matrix, names), [target]).model


def ours(parameters: AnyTrees, rows: Rows) -> Floats:
    (found,) = scores(alone(), model_of(parameters, rows), rows.new_matrix)
    return found if rows.classes > 2 else found[:, 0]


def of_xgboost(rows: Rows, trees: int, **settings: Any) -> tuple[xgboost.Booster, Floats]:
    """Its bins, `hist`, have all values as edges where there are few of them."""
    objective = {NUMBERS: "reg:squarederror", TWO: "binary:logistic"}.get(rows.classes, "multi:softprob")
    settings = {"objective": objective, "tree_method": "hist", "nthread": 1} | settings
    settings |= {"num_class": rows.classes} if rows.classes > 2 else {}
    booster = xgboost.train(settings, xgboost.DMatrix(rows.matrix, rows.values, weight=rows.weights), trees)
    return booster, booster.predict(xgboost.DMatrix(rows.new_matrix)).astype(float)


def of_lightgbm(rows: Rows, trees: int, **settings: Any) -> Floats:
    objective = {NUMBERS: "regression", TWO: "binary"}.get(rows.classes, "multiclass")
    settings = {"objective": objective, "num_threads": 1, "seed": 1, "verbose": -1} | settings
    settings |= {"num_class": rows.classes} if rows.classes > 2 else {}
    booster = lightgbm.train(settings, lightgbm.Dataset(rows.matrix, rows.values, weight=rows.weights), trees)
    return np.asarray(booster.predict(rows.new_matrix))


def of_sklearn(rows: Rows, classifier: Any, regressor: Any, **settings: Any) -> Floats:
    made = (classifier if rows.classes else regressor)(random_state=1, **settings)
    made.fit(rows.matrix, rows.values, sample_weight=rows.weights)
    if not rows.classes:
        return np.asarray(made.predict(rows.new_matrix))
    chances = np.asarray(made.predict_proba(rows.new_matrix))
    return chances if rows.classes > 2 else chances[:, 1]


# The same models: few distinct values leave no choice of bins, `min_rows = 1` no bins to merge, full shares no chance

EXACTLY: dict[str, Any] = {"depth": 4, "precision": 31, "min_rows": 1}
TREES = 20
NEAR = 1e-5  # XGBoost has floats of 32 bits


def few_values(classes: int, *, missing: bool = False, weighed: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 16, (3000, 6)).astype(float)
    a, b, c, d, e, _ = matrix.T
    numbers = np.sin(a / 2) + b * c / 60 - (d > 7) * e / 8 + rng.normal(size=len(matrix))
    weights = rng.integers(1, 4, len(matrix)).astype(float)
    if missing:
        matrix[rng.random(matrix.shape) < np.linspace(0, 0.5, matrix.shape[1])] = np.nan
    values = np.digitize(numbers, np.quantile(numbers, [0.3, 0.7][-(classes - 1) :])).astype(float)
    values = values if classes else numbers
    return Rows(matrix, values, matrix, values, classes, weights if weighed else None)


EVERY_TASK = pytest.mark.parametrize("classes", [NUMBERS, TWO, SEVERAL], ids=["numbers", "two", "several"])
PLAIN_OR_NOT = pytest.mark.parametrize("options", [False, True], ids=["plain", "all options"])


@EVERY_TASK
@PLAIN_OR_NOT
def test_xgb_is_xgboost(classes: int, options: bool) -> None:
    rows = few_values(classes, missing=options, weighed=options)
    # XGBoost's gain is twice the loss that is saved.
    mine = {"l1": 0.5, "l2": 2.0, "minimum_child_weight": 5.0, "minimum_gain": 1.0} if options else {}
    their = {"alpha": 0.5, "lambda": 2.0, "min_child_weight": 5.0, "gamma": 2.0} if options else {}
    parameters = XgbParameters(classes=classes, trees=TREES, **EXACTLY, **mine)
    _, expected = of_xgboost(rows, TREES, max_depth=4, eta=0.1, **their)
    np.testing.assert_allclose(ours(parameters, rows), expected, atol=NEAR)


@EVERY_TASK
@PLAIN_OR_NOT
def test_lgb_is_lightgbm(classes: int, options: bool) -> None:
    """Without a smallest gain: LightGBM never looks again at a column that had too small a gain at the parent.

    It guesses how many rows a bin has from their second derivatives, so its smallest number of rows is switched off.
    """
    rows = few_values(classes, missing=options, weighed=options)
    mine = {"l1": 0.5, "l2": 2.0, "minimum_child_weight": 5.0} if options else {}
    their = {"lambda_l1": 0.5, "lambda_l2": 2.0, "min_sum_hessian_in_leaf": 5.0} if options else {}
    parameters = LgbParameters(classes=classes, trees=TREES, leaves=12, top_fraction=1.0, **EXACTLY, **mine)
    exactly = {"max_depth": 4, "num_leaves": 12, "learning_rate": 0.1, "min_data_in_leaf": 0, "min_data_in_bin": 1}
    np.testing.assert_allclose(ours(parameters, rows), of_lightgbm(rows, TREES, **exactly, **their), atol=NEAR)


@EVERY_TASK
@PLAIN_OR_NOT
def test_gbdt_is_that_of_sklearn(classes: int, options: bool) -> None:
    rows = few_values(classes, weighed=options)
    expected = of_sklearn(rows, GradientBoostingClassifier, GradientBoostingRegressor, n_estimators=TREES, max_depth=4)
    np.testing.assert_allclose(ours(GbdtParameters(classes=classes, trees=TREES, **EXACTLY), rows), expected, atol=NEAR)


@EVERY_TASK
@PLAIN_OR_NOT
def test_tree_of_a_forest_is_that_of_sklearn(classes: int, options: bool) -> None:
    rows = few_values(classes, missing=options, weighed=options)
    everything = {"bootstrap": False, "row_fraction": 1.0, "column_fraction": 1.0}
    expected = of_sklearn(rows, DecisionTreeClassifier, DecisionTreeRegressor, max_depth=4)
    np.testing.assert_allclose(
        ours(ForestParameters(classes=classes, trees=1, **EXACTLY, **everything), rows), expected, atol=NEAR
    )


def test_first_tree_has_the_splits_and_leaves_of_xgboost() -> None:
    rows = few_values(TWO)
    model = model_of(XgbParameters(trees=1, **EXACTLY), rows)
    booster, _ = of_xgboost(rows, 1, max_depth=4, eta=0.1)
    (tree,), features = model.ensembles[0].trees, model.part.binning.features

    def our_node(number: int) -> Any:
        if tree.first[number] < 0:
            return pytest.approx(tree.values[number][0], abs=NEAR)
        feature, place, _ = model.part.table.splits[tree.split[number]]
        below = int(np.sum(np.arange(16) <= features[feature].edges[place]))
        return (feature, below, our_node(tree.first[number]), our_node(tree.first[number] + 1))

    def their_node(node: dict[str, Any]) -> Any:
        if "leaf" in node:
            return node["leaf"]
        left, right = sorted(node["children"], key=lambda child: child["nodeid"] != node["yes"])
        below = int(np.sum(np.arange(16) < node["split_condition"]))
        return (int(node["split"][1:]), below, their_node(left), their_node(right))

    (dump,) = booster.get_dump(dump_format="json")
    assert their_node(json.loads(dump)) == our_node(0)
    assert len(tree.first) == 2**5 - 1


# As good: real data, parameters at their defaults (depth 6, rate 0.1, 32 bins, min_rows 10), fewer trees

DEFAULTS: dict[str, type[AnyTrees]] = {
    "xgb": XgbParameters,
    "lgb": LgbParameters,
    "gbdt": GbdtParameters,
    "rf": ForestParameters,
}
WORSE_AT_THE_MOST = {"xgb": 0.005, "lgb": 0.005, "gbdt": 0.005, "rf": 0.01}
TRAINING_ROWS, NEW_ROWS = 4_000, 12_000


@cache
def real(name: str, target: str | None, keep_missing: bool = False) -> Rows:
    """Some rows to learn from and others to judge by, the same ones each time.

    The target is that of the data set, or one of its columns: a category, without those who have none, or a number.
    """
    there = all((datasets.cache_folder() / part.file).is_file() for part in datasets.PUBLISHED[name].values())
    if not os.environ.get(datasets.FOLDER_VARIABLE) and not there:
        pytest.skip(f"{name}: neither in the cache nor in {datasets.FOLDER_VARIABLE}")
    data = datasets.load(name)
    frame, values, classes = data.frame, data.label.astype(float), TWO
    if target is not None:
        frame = frame.filter(~frame[target].cast(pl.String).is_in(datasets.MISSING[name]))
        cells, frame = frame[target].to_numpy(), frame.drop(target)
        is_number = cells.dtype.kind in "if"
        levels, places = np.unique(cells, return_inverse=True)
        values, classes = (cells if is_number else places).astype(float), NUMBERS if is_number else len(levels)
    settings = PrepareSettings(**({"missing": "keep", "categories": "in order"} if keep_missing else {}))
    table, _ = clean(table_from_frame(frame, "id", name, datasets.TYPES[name], datasets.MISSING[name]), settings)
    order = np.random.default_rng(7).permutation(len(values))
    training, new = order[:TRAINING_ROWS], order[TRAINING_ROWS:][:NEW_ROWS]
    matrix = transform(learn_preparation(table, settings, training), table).matrix
    return Rows(matrix[training], values[training], matrix[new], values[new], classes)


def trees_of(learner: str) -> int:
    """A forest is quick to grow, and with few trees chance decides which one is better."""
    return 50 if learner == "rf" else TREES


def theirs(learner: str, rows: Rows) -> Floats:
    """The library's model with the same parameters, as far as it has them.

    - `min_rows` merges bins of small nodes; XGBoost has nothing like it, the others get it as the smallest leaf, which
      leaves them more freedom.
    - scikit-learn has no bins, but tries all values. LightGBM and XGBoost choose their 32 bins in other ways.
    - rows and columns are drawn with other random numbers. LightGBM ranks rows by |g h| for GOSS, not by |g|.
    """
    if learner == "xgb":
        return of_xgboost(rows, TREES, max_depth=6, eta=0.1, max_bin=32)[1]
    if learner == "lgb":
        shape = {"max_depth": 6, "num_leaves": 31, "learning_rate": 0.1, "max_bin": 32, "min_data_in_leaf": 10}
        return of_lightgbm(rows, TREES, data_sample_strategy="goss", top_rate=0.2, other_rate=0.1, **shape)
    shape = {"n_estimators": trees_of(learner), "max_depth": 6, "min_samples_leaf": 10}
    if learner == "gbdt":
        return of_sklearn(rows, GradientBoostingClassifier, GradientBoostingRegressor, learning_rate=0.1, **shape)
    columns = "sqrt" if rows.classes else 1 / 3
    return of_sklearn(rows, RandomForestClassifier, RandomForestRegressor, max_features=columns, **shape)


def quality(rows: Rows, found: Floats) -> float:
    if not rows.classes:
        return r2(rows.new_values, found)
    return macro_auc(rows.new_values, found) if rows.classes > 2 else auc(rows.new_values, found)


def assert_as_good(learner: str, rows: Rows) -> None:
    reached = quality(rows, ours(DEFAULTS[learner](classes=rows.classes, trees=trees_of(learner)), rows))
    expected = quality(rows, theirs(learner, rows))
    assert reached >= expected - WORSE_AT_THE_MOST[learner]


@pytest.mark.parametrize("learner", DEFAULTS)
@pytest.mark.parametrize("name", ["bank", "credit"])
def test_two_classes(name: str, learner: str) -> None:
    assert_as_good(learner, real(name, None))


@pytest.mark.parametrize("learner", DEFAULTS)
def test_several_classes(learner: str) -> None:
    rows = real("bank", "marital")
    assert rows.classes == 3
    assert_as_good(learner, rows)


@pytest.mark.parametrize("learner", DEFAULTS)
def test_numbers(learner: str) -> None:
    rows = real("census", "hours-per-week")
    assert rows.classes == 0
    assert_as_good(learner, rows)


@pytest.mark.parametrize("learner", ["xgb", "lgb", "rf"])
def test_missing_values_and_categories_in_order(learner: str) -> None:
    """Without scikit-learn's boosting, which takes no missing values."""
    rows = real("census", None, keep_missing=True)
    assert np.isnan(rows.matrix).any()
    assert_as_good(learner, rows)
