"""The same seeds give the same files, on any engine and any processor; other seeds give other draws."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees.ensemble import fit
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters, LgbParameters, XgbParameters
from unpooled.vertical.trees.predictor import scores

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")
DRAWING: dict[str, dict[str, Any]] = {
    "gbdt": {"row_fraction": 0.7, "column_fraction": 0.6},
    "xgb": {"patience": 1, "validation_fraction": 0.3, "trees": 3},
    "lgb": {"other_fraction": 0.3},
    "rf": {},
}
"""Draws of rows and columns."""


def files(run: Any) -> dict[str, str]:
    """Everybody's part as it is saved, without its random name."""
    found = {}
    for party, part in {"bank": run.model, **run.parts}.items():
        content = json.loads(part.model_dump_json())
        (content["part"] if party == "bank" else content).pop("name")
        found[party] = json.dumps(content)
    return found


@pytest.mark.parametrize(("learner", "classes"), [("gbdt", 0), ("xgb", 2), ("lgb", 2), ("rf", 3)])
def test_the_same_seeds_give_the_same_files(
    learner: str, classes: int, scene: Make, parameters_for: Make, together: Make
) -> None:
    """On every engine, however often."""
    data, parameters = scene(rows=60), parameters_for(learner, classes, bins=6, **DRAWING[learner])
    ways = [("shares", True), ("shares", True), ("shares", False), ("paillier", True), ("plain", True)]
    runs = [
        together(parameters, engine=engine, data=data, seeds={"telco": 3}, rules={"count_rows": count}, predicts=False)
        for engine, count in ways
    ]
    assert len({run.model.part.name for run in runs}) == len(ways)
    for run in runs[1:]:
        assert files(run) == files(runs[0])
        np.testing.assert_array_equal(run.fitted.scores[0], runs[0].fitted.scores[0])


@pytest.mark.parametrize("learner", LEARNERS)
def test_another_order_of_columns_gives_another_file_and_the_same_predictions(
    learner: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    """Unless two splits are as good as each other, or columns are drawn."""
    data = scene(rows=100, missing=0.0)
    more = {"column_fraction": 1.0} if learner == "rf" else {}
    runs = [
        together(parameters_for(learner, 0, **more), engine="plain", data=data, seeds={"telco": seed})
        for seed in range(1, 4)
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.predictions[0], runs[0].predictions[0])
    assert len({files(run)["telco"] for run in runs}) > 1


@pytest.mark.parametrize("learner", LEARNERS)
def test_another_seed_of_the_target_draws_other_rows(learner: str, scene: Make, parameters_for: Make) -> None:
    data, parameters = scene(), parameters_for(learner, 0, **DRAWING[learner])
    found = [fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0], seed=seed)]) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0].scores[0], found[1].scores[0])
    assert (found[0].scores[0] != found[2].scores[0]).any()


@pytest.mark.parametrize("learner", ["gbdt", "xgb"])
def test_without_draws_the_seed_does_not_matter(learner: str, scene: Make, parameters_for: Make) -> None:
    data, parameters = scene(), parameters_for(learner, 3)
    one, other = (fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[3], seed=s)]) for s in (1, 2))
    np.testing.assert_array_equal(one.scores[0], other.scores[0])


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_order_of_rows_does_not_matter(learner: str, scene: Make, parameters_for: Make) -> None:
    """Sums are of whole numbers, and the rest is done number by number; draws of rows go by their order."""
    data = scene()
    more = {"bootstrap": False, "row_fraction": 1.0, "column_fraction": 1.0} if learner == "rf" else {}
    more |= {"top_fraction": 1.0} if learner == "lgb" else {}
    parameters, order = parameters_for(learner, 3, **more), np.random.default_rng(1).permutation(160)
    columns = data.columns(range(9))
    weights = np.random.default_rng(2).uniform(0.1, 3.0, 160)
    one = fit(alone(), parameters, columns, [Target(data.truth[3], weights)])
    shuffled = Columns(columns.matrix[order], columns.names)
    other = fit(alone(), parameters, shuffled, [Target(data.truth[3][order], weights[order])])
    np.testing.assert_array_equal(one.scores[0][order], other.scores[0])


# processors


def digest() -> str:
    """Of all learners' scores and predictions, computed here."""
    rng = np.random.default_rng(5)
    matrix = rng.integers(-500, 500, (200, 6)) / 64.0
    matrix[rng.random(matrix.shape) < 0.05] = np.nan
    filled = np.where(np.isnan(matrix), 0.0, matrix)
    number = filled[:, 0] * filled[:, 1] / 8 + filled[:, 2]
    truth = {0: number / 7, 2: (number > 0.25).astype(float), 3: np.digitize(number, [-3.0, 3.0]).astype(float)}
    weights = rng.integers(0, 9, 200) / 3.0
    found = hashlib.sha256()
    for learner in (GbdtParameters, XgbParameters, LgbParameters, ForestParameters):
        more = {} if learner is ForestParameters else {"learning_rate": 0.3}
        for classes, values in truth.items():
            parameters = learner(classes=classes, trees=3, depth=4, min_rows=3, **more)
            fitted = fit(alone(), parameters, Columns(matrix, tuple("abcdef")), [Target(values, weights, seed=8)])
            found.update(fitted.scores[0].tobytes())
            found.update(scores(alone(), fitted.model, matrix[::-1] * 1.5)[0].tobytes())
            found.update(fitted.model.model_dump_json(exclude={"part": {"name"}}).encode())
    return found.hexdigest()


def test_the_processors_extensions_change_nothing(digest_without_extensions: Make) -> None:
    assert digest_without_extensions(__file__) == digest()
