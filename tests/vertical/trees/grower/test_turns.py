"""Groups of trees whose nodes are hidden take turns: nothing changes but the order of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled.vertical.targets import Target
from unpooled.vertical.trees import messages
from unpooled.vertical.trees import parameters as settings

Make = Callable[..., Any]


def several(truth: np.ndarray, count: int) -> list[Target]:
    return [Target(np.random.default_rng(seed).permutation(truth), seed=seed) for seed in range(count)]


def steps(run: Any) -> list[int]:
    """The group of each step, in the order in which the telco is told of them."""
    return [level.group for level in run.messages("telco", messages.HiddenLevel)]


def at_once(groups: list[int]) -> int:
    """How many groups at the most had begun and were not done."""
    last = {group: place for place, group in enumerate(groups)}
    first = {group: groups.index(group) for group in last}
    return max(sum(first[group] <= place <= last[group] for group in last) for place in range(len(groups)))


@pytest.mark.parametrize(
    ("learner", "engine"), [("gbdt", "shares"), ("xgb", "plain"), ("lgb", "plain"), ("rf", "shares")]
)
def test_trees_are_those_of_one_group_and_of_pooled_columns(
    learner: str,
    engine: str,
    scene: Make,
    parameters_for: Make,
    together: Make,
    as_pooled: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = scene(rows=100)
    targets, hidden = several(data.truth[2], 11), {"trees": 3, "depth": 3, "hide_nodes": True}
    run = together(parameters_for(learner, **hidden, lockstep=6), "two", engine, data=data, targets=targets)
    as_pooled(run)
    monkeypatch.setattr(settings, "_GROUPS_AT_ONCE", 1)
    one_group = together(parameters_for(learner, **hidden, lockstep=33), "two", engine, data=data, targets=targets)
    for mine, other in zip(run.fitted.scores, one_group.fitted.scores, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert at_once(steps(run)) == 5
    assert at_once(steps(one_group)) == 1


def test_groups_under_encryption_too(scene: Make, parameters_for: Make, together: Make, as_pooled: Make) -> None:
    data = scene(rows=60)
    parameters = parameters_for("gbdt", trees=2, depth=2, bins=4, hide_nodes=True, lockstep=2)
    run = together(parameters, "two", "paillier", data=data, targets=several(data.truth[2], 2))
    as_pooled(run)
    assert at_once(steps(run)) == 2


@pytest.mark.parametrize(
    "more", [{"hide_nodes": False}, {"hide_bags": False}, {"patience": 1, "validation_fraction": 0.3}]
)
def test_otherwise_one_group_grows_after_the_other(
    more: dict[str, Any], scene: Make, parameters_for: Make, together: Make
) -> None:
    data = scene(rows=100)
    parameters = parameters_for("gbdt", **{"trees": 2, "depth": 2, "hide_nodes": True, "lockstep": 2} | more)
    run = together(parameters, data=data, targets=several(data.truth[2], 4), predicts=False)
    began = [(type(message), message.group) for message in run.messages("telco", messages.Trees, messages.Grown)]
    assert len(began) >= 4
    assert all(begin[1] == end[1] for begin, end in zip(began[::2], began[1::2], strict=True))
