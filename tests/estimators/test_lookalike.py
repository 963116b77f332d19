"""Look-alikes found by parties with scikit-learn's manners are those that pooled columns would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Bools, Floats
from unpooled.estimators.lookalike import LookalikeFinder
from unpooled.estimators.settings import METHODS
from unpooled.pu.methods import rank
from unpooled.pu.pooled.trees import PooledModels
from unpooled.pu.settings import BaggingSettings
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learners import begun_secret, parameter_kinds

ROWS = 240
SPLIT = {"telco": [0, 2], "bank": [1, 3]}
FEW: dict[str, Any] = {"trees": 3, "depth": 2, "split": SPLIT, "random_state": 1}
FEW_BAGS: dict[str, dict[str, Any]] = {
    "vfpu": {"iterations": 2, "bags": 2, "fraction": 0.1},
    "bagging": {"bags": 2},
    "two-step": {"folds": 2},
    "naive": {"folds": 2, "balanced": False},
}


def matrix(seed: int = 5) -> Floats:
    return np.random.default_rng(seed).normal(size=(ROWS, 4))


def standardised(columns: Floats) -> Floats:
    """As the parties make their columns ready."""
    return (columns - matrix().mean(axis=0)) / matrix().std(axis=0)


def positive(seed: int = 5) -> Bools:
    return matrix(seed)[:, :2].sum(axis=1) > 1


def known() -> Bools:
    return positive() & (np.arange(ROWS) % 2 == 0)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ranks_as_on_pooled_columns(method: str) -> None:
    together, pooled = (
        LookalikeFinder(method, engine=engine, **FEW, **FEW_BAGS[method]).fit(matrix(), known())
        for engine in ("plain", "pooled")
    )
    np.testing.assert_array_equal(together.scores_, pooled.scores_)
    np.testing.assert_array_equal(together.iteration_, pooled.iteration_)
    np.testing.assert_array_equal(together.top(ROWS), pooled.top(ROWS))
    np.testing.assert_array_equal(together.predict_proba(matrix(6)), pooled.predict_proba(matrix(6)))
    assert together.ledgers_.keys() == SPLIT.keys()
    assert pooled.ledgers_ == {}


def test_the_list_holds_unlabelled_rows_and_new_ones_are_scored() -> None:
    settings = {**FEW, **FEW_BAGS["vfpu"], "trees": 10, "bags": 3}
    found = LookalikeFinder("vfpu", engine="shares", **settings).fit(matrix(), np.where(known(), 1, -1))
    assert sorted(found.top(ROWS).tolist()) == np.flatnonzero(~known()).tolist()
    assert positive()[found.top(10)].mean() > 2 * positive()[~known()].mean()
    assert np.isnan(found.scores_[known()]).all()
    assert set(found.iteration_.tolist()) == {0, 1, 2}
    scores = found.decision_function(matrix(6))
    assert positive(6)[np.argsort(-scores)[:20]].mean() > 2 * positive(6).mean()
    assert set(found.predict(matrix(6)).tolist()) == {1, -1}
    assert (found.predict(matrix(6)) == 1).tolist() == (scores > 0).tolist()


def test_new_rows_are_scored_by_the_last_models_with_the_defaults_of_the_job() -> None:
    """The same by the method and the learner themselves."""
    found = LookalikeFinder("bagging", engine="pooled", bags=2, trees=3, split=SPLIT, random_state=1)
    found.fit(matrix(), known())
    seed = int(np.random.RandomState(1).randint(2**31 - 1))
    base = parameter_kinds()["gbdt"].model_validate(begun_secret({"trees": 3}))
    assert (base.depth, base.hide_nodes, base.lent_bins, base.mean_bits) == (3, True, 9, -4)  # type: ignore[attr-defined]
    order = found._learned.model.part.columns
    places = [int(name.partition("/x")[2]) for name in order]
    learner = PooledModels(Columns(standardised(matrix())[:, places], tuple(order), blocks=(2, 2), active=1), base)
    expected = rank(known(), BaggingSettings(bags=2), learner, seed)
    np.testing.assert_array_equal(found.scores_, expected.scores)
    new = standardised(matrix(6))[:, places]
    np.testing.assert_array_equal(found.predict_proba(matrix(6))[:, 1], learner.score(new))


@pytest.mark.parametrize(
    ("settings", "labels", "text"),
    [
        ({"method": "guess"}, known(), "method: 'guess' is none; there are: naive, two-step, bagging, vfpu"),
        ({"method": "naive", "bags": 3}, known(), "bags: the method 'naive' has no such setting"),
        ({"learner": "linear", "trees": 3}, known(), "trees: the learner 'linear' has no such setting"),
        ({"learner": "forest"}, known(), "learner: 'forest' is none"),
        ({}, np.arange(ROWS) % 3, "y has 3 classes; it must have 2"),
        ({}, np.ones(ROWS), "y has 1 classes; it must have 2"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, Any], labels: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LookalikeFinder(**{"split": SPLIT, **settings}).fit(matrix(), labels)
