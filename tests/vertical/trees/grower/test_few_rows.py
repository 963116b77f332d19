"""What is shown of few rows, and of rows that take no part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Ints, unpacked
from unpooled.vertical.targets import Target
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.binning import apply_bins
from unpooled.vertical.trees.grower import passive
from unpooled.wire import encode

Make = Callable[..., Any]

# bins of few rows

SHOWN = [
    ("gbdt", 2, {}),
    ("xgb", 3, {"hide_bags": False}),
    ("lgb", 0, {}),
    ("rf", 3, {}),
    ("rf", 2, {"hide_bags": False}),
]


@dataclass(frozen=True, eq=False)
class Family:
    """What a passive party knows of a node that was split, or a root, when it shows sums over its children."""

    tree: int
    parent: int
    first: int
    siblings: list[Ints]
    """The rows of each."""
    ends: np.ndarray
    joined: np.ndarray


def families_of(run: Any, lender: str) -> Iterator[list[Family]]:
    """Level by level, from what it was told and what it answered."""
    layout, rows = run.parts[lender].binning.layout, len(run.scene.matrix)
    merged = iter(run.sent(lender, messages.Merged))
    where: list[np.ndarray] = []
    for message in run.messages(lender, messages.Trees, messages.Bags, messages.Level):
        if isinstance(message, messages.Trees):
            where = [np.zeros(rows, np.int32) for _ in message.names]
        elif isinstance(message, messages.Bags):
            parts = [unpacked(bits, rows, "sides", "bank") for bits in message.taking_part]
            where = [np.where(part, 0, -1).astype(np.int32) for part in parts]
        else:
            told = next(merged)
            count = len(message.trees)
            ends = unpacked(told.ends, count * layout.logical, "sides", lender).reshape(count, -1)
            joined = unpacked(told.missing_joined, count * len(layout.features), "sides", lender).reshape(count, -1)
            found: list[Family] = []
            lists = message.trees.tolist(), message.parents.tolist(), message.firsts.tolist()
            families = list(zip(*lists, strict=True))
            if message.parents[0] >= 0:
                moved = [np.flatnonzero(where[tree] == parent) for tree, parent, _ in families]
                sides = unpacked(message.sides, sum(map(len, moved)), "sides", "bank")
                for (tree, _, first), of_node in zip(families, moved, strict=True):
                    where[tree][of_node], sides = first + sides[: len(of_node)], sides[len(of_node) :]
            for tree, parent, first in families:
                nodes = [first] if parent < 0 else [first, first + 1]
                siblings = [np.flatnonzero(where[tree] == node) for node in nodes]
                found.append(Family(tree, parent, first, siblings, ends[len(found)], joined[len(found)]))
            yield found
    assert next(merged, None) is None


@pytest.mark.parametrize(("learner", "classes", "others"), SHOWN)
def test_no_group_of_bins_has_few_rows_of_a_node(
    learner: str, classes: int, others: dict[str, Any], scene: Make, parameters_for: Make, together: Make
) -> None:
    """Nor of its sibling; and the groups of children are unions of their parent's."""
    k, data = 9, scene(rows=250)
    run = together(parameters_for(learner, classes, min_rows=k, depth=5, **others), data=data)
    part = run.parts["telco"]
    bins = apply_bins(part.binning, data.matrix[:, list(run.team["telco"])], "telco")
    layout, groups, merges, levels = part.binning.layout, {}, 0, 0
    for level in families_of(run, "telco"):
        levels += 1
        for family in level:
            if family.parent < 0:
                groups = {key: value for key, value in groups.items() if key[0] != family.tree}
            for number, feature in enumerate(layout.features):
                start = int(layout.starts[number])
                ends = family.ends[start : start + feature.size]
                assert ends[feature.values - 1]
                assert not ends[feature.values :].any()
                group = np.concatenate([[0], np.cumsum(ends[:-1])])  # the last value's end makes missing ones another
                if feature.missing and family.joined[number]:
                    group[-1] = group[-2]
                merges += int(feature.size - 1 - group[-1])
                for rows in family.siblings:
                    counts = np.bincount(group[bins[rows, number]], minlength=group[-1] + 1)
                    assert not ((counts > 0) & (counts < k)).any()
                above = groups.get((family.tree, family.parent, number))
                if above is not None:
                    assert all(len(set(group[above == each].tolist())) == 1 for each in np.unique(above))
                for child in range(family.first, family.first + len(family.siblings)):
                    groups[family.tree, child, number] = group
    assert merges > 100, "bins were merged, or the test shows nothing"
    assert levels >= 3


@pytest.mark.parametrize(("learner", "classes", "others"), SHOWN)
def test_what_is_multiplied_are_groups_of_enough_rows(
    learner: str,
    classes: int,
    others: dict[str, Any],
    scene: Make,
    parameters_for: Make,
    together: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    k, seen = 9, []
    product = passive.product

    def watched(engine: Any, batch: Any, **how: Any) -> Any:
        seen.extend(batch)
        return product(engine, batch, **how)

    monkeypatch.setattr(passive, "product", watched)
    run = together(parameters_for(learner, classes, min_rows=k, depth=5, **others), data=scene(rows=250))
    bundles = run.parts["telco"].binning.bundles
    assert any(len(bundle) > 1 for bundle in bundles)
    for call, inputs in seen:
        for column, size in enumerate(call.left.sizes):
            inside = inputs.nodes >= 0
            places = inputs.nodes[inside].astype(int) * size + inputs.x[inside, column]
            counts = np.bincount(places, minlength=call.left.nodes * size).reshape(-1, size)
            assert not ((counts > 0) & (counts < k)).any()


# rows that take no part


def doubled(scene: Make) -> Any:
    """Every row twice, first all of them and then all again."""
    data = scene(rows=90)
    twice = {classes: np.tile(values, 2) for classes, values in data.truth.items()}
    return replace(data, matrix=np.tile(data.matrix, (2, 1)), truth=twice)


@pytest.mark.parametrize(("learner", "classes"), [("gbdt", 2), ("xgb", 3), ("lgb", 0)])
def test_a_passive_party_cannot_tell_which_rows_take_part(
    learner: str, classes: int, scene: Make, parameters_for: Make, together: Make
) -> None:
    """Of rows that are all there twice, it makes no difference whether one half counts, the other, or both by half."""
    data, seen = doubled(scene), []
    first = np.where(np.arange(180) < 90, 1.0, 0.0)
    for weights in (first, 1 - first, np.full(180, 0.5)):
        more = {"top_fraction": 1.0} if learner == "lgb" else {}
        parameters = parameters_for(learner, classes, **more)
        run = together(parameters, data=data, targets=[Target(data.truth[classes], weights)], predicts=False)
        kinds = (messages.Trees, messages.Bags, messages.Level, messages.SplitRequest, messages.Grown)
        frames = [encode(message).joined() for message in run.messages("telco", *kinds)]
        seen.append([frame.replace(run.model.part.name.encode(), b"") for frame in frames])
        for level in families_of(run, "telco"):
            for family in level:
                assert all((np.unique(rows % 90, return_counts=True)[1] == 2).all() for rows in family.siblings)
    assert len(seen[0]) > 10
    assert seen[0] == seen[1] == seen[2]


def test_shown_bags_show_which_rows_take_part(scene: Make, parameters_for: Make, together: Make) -> None:
    data = scene()
    weights = np.where(np.arange(160) % 3 == 0, 0.0, 1.0)
    run = together(parameters_for("xgb", hide_bags=False), data=data, targets=[Target(data.truth[2], weights)])
    for bags in run.messages("telco", messages.Bags):
        assert bags.cut
        assert (unpacked(bags.taking_part[0], 160, "sides", "bank") == (weights > 0)).all()
