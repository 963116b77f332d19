"""Whoever holds the columns, and whichever engine protects them: the same trees, scores and predictions as pooled.

`as_pooled` compares to the last bit: scores of the training rows, every node of every tree, gains, how often each
column was used, predictions for other rows (with values never seen, and missing where none were), and predictions
for the training rows with their scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled.vertical.targets import Target

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")
TASKS = (2, 3, 0)

TALKING: dict[str, dict[str, Any]] = {
    "default": {},
    "hide_nodes": {"hide_nodes": True},
    "hide_bags = false": {"hide_bags": False},
    "neither": {"hide_nodes": True, "hide_bags": False},
    "min_rows = 1": {"min_rows": 1},
    "lent_bins": {"lent_bins": 4},
    "hide_nodes, min_rows = 1": {"hide_nodes": True, "min_rows": 1},
    "hide_nodes, min_rows = 12": {"hide_nodes": True, "min_rows": 12},
    "bundle = false": {"bundle": False},
}
"""What changes the conversation."""

GROWING: dict[str, dict[str, Any]] = {
    "shrinking": {"l1": 0.3, "l2": 2.5, "minimum_gain": 0.05, "minimum_child_weight": 2.0},
    "4 bins": {"bins": 4},
    "256 bins": {"bins": 256, "min_rows": 1},
    "31 bits": {"precision": 31},
    "8 bits": {"precision": 8},
    "one at a time": {"lockstep": 1},
    "three at a time": {"lockstep": 3},
}
"""What makes other trees, in the same way whatever the task."""

BOOSTING: dict[str, dict[str, Any]] = {
    "balanced": {"balanced": True},
    "patience": {"trees": 6, "learning_rate": 0.9, "patience": 2, "validation_fraction": 0.3},
    "patience, shown": {
        "trees": 5,
        "learning_rate": 0.9,
        "patience": 1,
        "validation_fraction": 0.3,
        "hide_bags": False,
    },
    "shares of rows and columns": {"row_fraction": 0.6, "column_fraction": 0.5},
}
LEAFWISE: dict[str, dict[str, Any]] = {
    "much sampling": {"top_fraction": 0.1, "other_fraction": 0.3},
    "no others": {"top_fraction": 0.5, "other_fraction": 0.0},
    "two leaves": {"leaves": 2},
}
FOREST: dict[str, dict[str, Any]] = {
    "balanced": {"balanced": True},
    "no bootstrap": {"bootstrap": False},
    "no bootstrap, shown": {"bootstrap": False, "hide_bags": False, "row_fraction": 0.8},
    "all columns": {"column_fraction": 1.0},
}


def options_of(learner: str) -> dict[str, dict[str, Any]]:
    own = FOREST if learner == "rf" else BOOSTING | (LEAFWISE if learner == "lgb" else {})
    return TALKING | own | GROWING


def turn(learner: str, option: str) -> int:
    """A task for each option of each learner, all tasks taking turns."""
    return TASKS[(LEARNERS.index(learner) + list(options_of(learner)).index(option)) % 3]


CASES = [
    (learner, classes, option)
    for learner in LEARNERS
    for option in options_of(learner)
    for classes in TASKS
    if option == "default" or classes == turn(learner, option)
]
"""Every learner has every task and every option; every option that several learners have, every task."""


def weighed(truth: np.ndarray, seed: int = 5) -> list[Target]:
    """Two targets: one with weights, some of them zero and with rows whose truth is missing; one without."""
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], len(truth))
    unknown = truth.copy()
    unknown[np.flatnonzero(weights == 0)[::2]] = np.nan
    return [Target(unknown, weights, seed=2), Target(truth, seed=3)]


@pytest.mark.parametrize(("learner", "classes", "option"), CASES)
def test_every_option_of_every_learner(
    learner: str, classes: int, option: str, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    data = scene(rows=100)
    parameters = parameters_for(learner, classes, **options_of(learner)[option])
    targets = weighed(data.truth[classes])[:1]
    run = together(parameters, data=data, targets=targets, predicts=option in TALKING)
    as_pooled(run)
    bundled = any(len(bundle) > 1 for bundle in run.parts["telco"].binning.bundles)
    assert bundled == (option != "bundle = false")
    most = {owner: max(len(feature.edges) for feature in part.binning.features) for owner, part in run.parts.items()}
    assert most["telco"] == 3 or parameters.lent_bins is None
    assert max(len(feature.edges) for feature in run.model.part.binning.features) > 3 or parameters.bins == 4
    used = [part for part in (run.model.part, *run.parts.values()) if part.splits]
    assert option not in TALKING or len(used) == 2, "both parties' columns should count, or the test shows little"


@pytest.mark.parametrize("classes", TASKS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_under_encryption(
    learner: str, classes: int, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    data, option = scene(rows=60, new=10), ("default", "neither")[(LEARNERS.index(learner) + classes) % 2]
    parameters = parameters_for(learner, classes, trees=1, depth=2, bins=5, **TALKING[option])
    as_pooled(together(parameters, engine="paillier", data=data, targets=weighed(data.truth[classes])[:1]))


TEAMS = (
    "the active first",
    "the active in the middle",
    "the active last",
    "five",
    "the active without columns",
    "a passive one without columns",
)


TALKERS = [
    ("gbdt", 0, "default"),
    ("lgb", 3, "hide_nodes"),
    ("xgb", 2, "hide_bags = false"),
    ("rf", 3, "min_rows = 1"),
]


@pytest.mark.parametrize(
    ("team", "learner", "classes", "option"),
    [(team, *talker) for place, team in enumerate(TEAMS) for talker in TALKERS[place % 2 :: 2]],
)
def test_any_number_of_parties_in_any_order(
    team: str, learner: str, classes: int, option: str, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    as_pooled(together(parameters_for(learner, classes, **TALKING[option]), team))


@pytest.mark.parametrize("team", ["five", "the active without columns", "a passive one without columns"])
def test_many_parties_under_encryption(
    team: str, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    as_pooled(together(parameters_for("xgb", 2, trees=1, depth=2, bins=4), team, "paillier", data=scene(rows=60)))


@pytest.mark.parametrize(("learner", "option"), list(zip(LEARNERS, ["default", "neither"] * 2, strict=True)))
def test_targets_learned_together_are_as_if_learned_one_by_one(
    learner: str, option: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    """With patience they stop at different times."""
    data = scene(rows=100)
    more = {} if learner == "rf" else {"trees": 6, "patience": 1, "learning_rate": 0.6, "validation_fraction": 0.3}
    parameters = parameters_for(learner, 3, **TALKING[option] | more | {"lockstep": 4})
    targets = [*weighed(data.truth[3]), Target(np.random.default_rng(6).permutation(data.truth[3]), seed=2)]
    at_once = together(parameters, data=data, targets=targets)
    assert learner == "rf" or len({len(ensemble.trees) for ensemble in at_once.model.ensembles}) > 1
    for place, target in enumerate(targets):
        alone = together(parameters, data=data, targets=[target])
        np.testing.assert_array_equal(at_once.fitted.scores[place], alone.fitted.scores[0])
        np.testing.assert_array_equal(at_once.predictions[place], alone.predictions[0])


@pytest.mark.parametrize("learner", LEARNERS)
def test_lockstep_changes_nothing_but_the_number_of_messages(
    learner: str, scene: Make, parameters_for: Make, together: Make, grown: Make
) -> None:
    data = scene(rows=100)
    targets = weighed(data.truth[3])
    runs = {
        lockstep: together(parameters_for(learner, 3, lockstep=lockstep), data=data, targets=targets, predicts=False)
        for lockstep in (1, 3, 10)
    }
    for run in runs.values():
        for own, reference in zip(run.fitted.scores, runs[1].fitted.scores, strict=True):
            np.testing.assert_array_equal(own, reference)
        assert grown(run.model, run.parts) == grown(runs[1].model, runs[1].parts)
    assert len(runs[1].frames) > len(runs[3].frames) > len(runs[10].frames)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_none_missing_and_half_missing(
    learner: str, missing: float, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    data = scene(rows=100, missing=missing)
    as_pooled(together(parameters_for(learner), data=data))


@pytest.mark.parametrize("learner", LEARNERS)
def test_without_row_counts(learner: str, parameters_for: Make, together: Make, as_pooled: Make) -> None:
    as_pooled(together(parameters_for(learner, 3), "the active in the middle", rules={"count_rows": False}))


@pytest.mark.parametrize("hidden", [False, True])
def test_fewer_thresholds_are_as_pooled_with_those(
    hidden: bool, scene: Make, parameters_for: Make, together: Make
) -> None:
    data = scene()
    run = together(parameters_for("xgb", hide_nodes=hidden), data=data, most_thresholds=7)
    edges = {feature.name: len(feature.edges) for feature in run.parts["telco"].binning.features}
    assert sum(edges.values()) <= 7
    assert len({split[:2] for split in run.parts["telco"].splits}) <= 7
    np.testing.assert_array_equal(run.again[0], run.fitted.scores[0])
    assert np.isfinite(run.predictions[0]).all()
    none = together(parameters_for("xgb", hide_nodes=hidden), data=data, most_thresholds=0)
    assert all(not feature.edges for feature in none.parts["telco"].binning.features)
    assert all(place == 0 for _, place, _ in none.parts["telco"].splits), "missing values alone can be split off"
