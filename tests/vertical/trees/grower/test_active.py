"""What must hold in any tree, and how rows and columns are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import unpacked
from unpooled.errors import ProtocolError
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees.ensemble import fit
from unpooled.vertical.trees.grower.context import TreeSpec
from unpooled.vertical.trees.grower.node_rows import members
from unpooled.vertical.trees.parameters import XgbParameters

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")


@pytest.mark.parametrize(
    ("learner", "classes", "hidden"),
    [
        (learner, classes, bool((i + j) % 2))
        for i, learner in enumerate(LEARNERS)
        for j, classes in enumerate((2, 3, 0))
    ],
)
def test_what_must_hold_in_any_tree(
    learner: str,
    classes: int,
    hidden: bool,
    scene: Make,
    parameters_for: Make,
    together: Make,
    trees: list[tuple[TreeSpec, Any]],
) -> None:
    data = scene(rows=200)
    limits = {"depth": 5, "min_rows": 7, "minimum_gain": 0.01, "minimum_child_weight": 1.5, "hide_nodes": hidden}
    more = {"leaves": 6} if learner == "lgb" else {}
    parameters = parameters_for(learner, classes, **limits | more)
    weights = np.random.default_rng(1).choice([0.0, 0.4, 1.0, 2.0], 200)
    together(parameters, "the active in the middle", data=data, targets=[Target(data.truth[classes], weights)])
    assert len(trees) == parameters.trees * (classes if classes > 2 and learner != "rf" else 1)
    deepest = 0
    for spec, tree in trees:
        rows = np.bincount(tree.where, minlength=len(tree.nodes))
        leaves = [number for number, node in enumerate(tree.nodes) if node.first == -1]
        assert sorted(set(tree.where.tolist())) == leaves
        assert rows.sum() == 200, "rows of weight zero come along"
        deepest = max(deepest, *(node.depth for node in tree.nodes))
        assert learner != "lgb" or len(leaves) <= 6
        assert rows[leaves].min() >= 7
        for number, node in enumerate(tree.nodes):
            if node.first == -1:
                assert node.rows == rows[number]
                assert (node.totals == spec.y[tree.where == number].sum(axis=0)).all()
                continue
            assert node.gain > 0.01
            for child in tree.nodes[node.first : node.first + 2]:
                assert child.depth == node.depth + 1
                assert np.ldexp(float(child.totals[-1]), -spec.exponents[-1]) >= 1.5
    assert 3 <= deepest <= 5


def test_a_smaller_limit_of_depth_leaves_the_upper_part_as_it_is(scene: Make, splits_of: Make) -> None:
    data = scene()
    every = range(9)
    deep, flat = (
        fit(alone(), XgbParameters(trees=1, depth=depth), data.columns(every), [Target(data.truth[2])])
        for depth in (6, 2)
    )
    small, large = splits_of(flat.model), splits_of(deep.model)
    assert len(small) == 7
    assert [split for _, split in small[:3]] == [split for _, split in large[:3]]
    assert [first for first, _ in small] == [1, 3, 5, -1, -1, -1, -1]


# sampling


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_the_largest_gradients_are_kept_and_few_others_count_for_all(
    classes: int, scene: Make, parameters_for: Make, trees: list[tuple[TreeSpec, Any]]
) -> None:
    """As long as scores are rough, all rows count: while the rates of the trees so far add up to less than 1."""
    data, rows = scene(rows=200), 200
    outputs = max(classes, 1) if classes != 2 else 1
    parameters = parameters_for(
        "lgb", classes, trees=4, learning_rate=0.4, top_fraction=0.3, other_fraction=0.2, precision=31
    )
    fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[classes], seed=4)])
    assert len(trees) == 4 * outputs
    for place in range(3 * outputs):
        assert trees[place][0].y[:, 1].min() > 0
    sampled = [spec for spec, _ in trees[-outputs:]]
    weight = sampled[0].y[:, 1]
    assert all(((spec.y[:, 1] > 0) == (weight > 0)).all() for spec in sampled), "all classes keep the same rows"
    assert (weight > 0).sum() == round(0.3 * rows) + round(0.2 * rows)
    size = sum(np.abs(np.ldexp(s.y[:, 0].astype(float), -s.exponents[0])) for s in sampled)
    kept = np.flatnonzero(weight > 0)
    amplified = 3.5
    if not classes:  # the second derivative is 1, so that weights show who stands for many
        factors = np.ldexp(weight[kept].astype(float), -sampled[0].exponents[1])
        assert np.unique(factors).tolist() == [1.0, amplified]
        assert (factors == 1.0).sum() == round(0.3 * rows)
        assert size[kept][factors == 1.0].min() >= (size[kept][factors > 1.0] / amplified).max()


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_each_side_weighs_as_much_as_enough_drawn_rows(
    classes: int, hidden: bool, scene: Make, parameters_for: Make, trees: list[tuple[TreeSpec, Any]]
) -> None:
    """Rows that were not drawn come along, and would do for `min_rows`."""
    data, k = scene(rows=300), 12
    sampling = {"trees": 3, "learning_rate": 1.0, "top_fraction": 0.2, "other_fraction": 0.1}
    parameters = parameters_for("lgb", classes, min_rows=k, hide_nodes=hidden, **sampling)
    fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[classes], seed=4)])
    sides = 0
    for spec, tree in trees:
        if spec.y[:, -1].all():
            continue
        below: list[set[int]] = [{number} for number in range(len(tree.nodes))]  # and, of inner nodes, all leaves there
        for number in reversed(range(len(tree.nodes))):
            node = tree.nodes[number]
            if node.first != -1:
                below[number] = below[node.first] | below[node.first + 1]
                drawn = spec.y[:, -1][np.isin(tree.where, list(below[number]))]
                least = k * drawn.sum() / (drawn > 0).sum()
                assert all(child.totals[-1] >= least for child in tree.nodes[node.first : node.first + 2])
                sides += 2
    assert sides >= 4


@pytest.mark.parametrize("learner", ["gbdt", "xgb", "rf"])
def test_the_share_of_rows_and_columns_is_drawn_anew_for_each_tree(
    learner: str, scene: Make, parameters_for: Make, trees: list[tuple[TreeSpec, Any]]
) -> None:
    data = scene(rows=200)
    more = {"bootstrap": False} if learner == "rf" else {}
    parameters = parameters_for(learner, 0, trees=3, depth=6, min_rows=1, row_fraction=0.3, column_fraction=0.2, **more)
    weights = np.where(np.arange(200) % 2 == 0, 1.0, 0.0)
    fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0], weights)])
    drawn = [np.flatnonzero(spec.y[:, 1]) for spec, _ in trees]
    assert [len(rows) for rows in drawn] == [30, 30, 30]
    assert len({tuple(rows) for rows in drawn}) == 3
    assert all((rows % 2 == 0).all() for rows in drawn), "rows of weight zero are not drawn"


@pytest.mark.parametrize("learner", ["gbdt", "xgb", "lgb"])
def test_a_share_of_columns_is_the_same_for_a_whole_tree(
    learner: str, scene: Make, parameters_for: Make, splits_of: Make
) -> None:
    data = scene(rows=200)
    parameters = parameters_for(learner, 0, trees=5, min_rows=1, column_fraction=0.2)
    model = fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0])]).model
    used = [{split[0] for _, split in splits_of(model, tree) if split} for tree in range(5)]
    assert all(1 <= len(columns) <= 2 for columns in used)
    assert len(set().union(*used)) > 2


def test_a_bootstrap_draws_as_many_rows_as_take_part(
    scene: Make, parameters_for: Make, trees: list[tuple[TreeSpec, Any]]
) -> None:
    data = scene(rows=200)
    weights = np.where(np.arange(200) % 4 == 0, 0.0, 1.0)
    parameters = parameters_for("rf", 2, trees=3, precision=8)
    fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[2], weights)])
    for spec, _ in trees:
        times = np.ldexp(spec.y[:, 1].astype(float), -spec.exponents[1])
        assert times.sum() == 150
        assert times.max() > 1
        assert not times[::4].any()


def test_columns_are_drawn_among_those_that_a_node_can_be_split_by(parameters_for: Make, splits_of: Make) -> None:
    """Columns that stand out in fewer than `min_rows` rows have one group of bins, and never get in the way."""
    rng = np.random.default_rng(0)
    rare = np.zeros((200, 8))
    rare[np.arange(32), np.arange(32) % 8] = 1.0
    number = rng.normal(size=200)
    columns = Columns(np.column_stack([rare[:, :4], number, rare[:, 4:]]), tuple("abcdefghi"))
    parameters = parameters_for("rf", 2, trees=8, column_fraction=0.1, bundle=False)
    model = fit(alone(), parameters, columns, [Target((number > 0).astype(float))]).model
    for tree in range(8):
        assert {split[0] for _, split in splits_of(model, tree) if split} == {4}


# rows and nodes


def test_members_come_node_by_node_in_the_order_of_rows() -> None:
    where = np.array([3, -1, 0, 4, 3, 0, 7, 3], np.int32)
    rows, counts = members(where, np.array([3, 0, 5], np.int32))
    assert rows.tolist() == [0, 4, 7, 2, 5]
    assert counts.tolist() == [3, 2, 0]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_sides_travel_as_bits(count: int) -> None:
    sides = np.random.default_rng(count).random(count) < 0.5
    bits = np.packbits(sides)
    assert len(bits) == (count + 7) // 8
    assert (unpacked(bits, count, "sides", "telco") == sides).all()
    for wrong in (np.append(bits, np.uint8(0)), bits[:-1], bits[np.newaxis]):
        if wrong.shape != bits.shape:
            with pytest.raises(ProtocolError, match="telco"):
                unpacked(wrong, count, "sides", "telco")
