"""Single trees beside a slow reference, and what must hold in any tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from unpooled.codec import Floats, Ints
from unpooled.errors import ProtocolError
from unpooled.vertical import boosting, forest, lending, messages
from unpooled.vertical.binning import apply_bins
from unpooled.vertical.ground import Growing, Seedling
from unpooled.vertical.layout import Feature, Layout
from unpooled.vertical.model import Model
from unpooled.vertical.parameters import AnyTrees, LgbParameters, XgbParameters
from unpooled.vertical.splitting import Space, best_splits
from unpooled.vertical.standing import members, packed, unpacked
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees import Columns, fit
from unpooled.wire import encode

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")

# a reference: bin by bin, in whole numbers and fractions, straight from the rules

Cut = tuple[list[list[int]], bool]
"""The groups of one feature's bins of values, and whether missing ones belong to the last."""


@dataclass
class Leaf:
    """A node of the reference."""

    rows: list[int]
    depth: int
    cuts: list[Cut] = field(default_factory=list)
    gain: Fraction = Fraction(0)
    split: tuple[int, int, bool] | None = None
    """Feature, last bin on the left, whether missing values go left."""
    first: int = -1


@dataclass(frozen=True)
class Reference:
    """Everything that a tree is grown from; bins are rows × features, the last one of a feature for missing values."""

    bins: list[list[int]]
    features: tuple[Feature, ...]
    y: list[list[int]]
    exponents: list[int]
    parameters: AnyTrees

    def sums(self, rows: list[int]) -> list[Fraction]:
        return [
            sum(self.y[row][k] for row in rows) * Fraction(2) ** -exponent for k, exponent in enumerate(self.exponents)
        ]

    def score(self, sums: list[Fraction]) -> Fraction:
        shrunk = [max(abs(g) - Fraction(self.parameters.l1), Fraction(0)) for g in sums[:-1]]
        return sum((g * g for g in shrunk), Fraction(0)) / (sums[-1] + Fraction(self.parameters.l2))

    def may_split(self, node: Leaf, leaves: int) -> bool:
        parameters = self.parameters
        weight = self.sums(node.rows)[-1]
        return (
            node.depth < parameters.depth
            and len(node.rows) >= 2 * parameters.min_rows
            and weight > 0
            and weight >= 2 * Fraction(parameters.minimum_child_weight)
            and (not isinstance(parameters, LgbParameters) or leaves < parameters.leaves)
        )

    def cut(self, parents: list[Cut], siblings: list[Leaf]) -> list[Cut]:
        """From the first bin up a group ends as soon as no sibling has too few rows in it."""
        k = self.parameters.min_rows
        found = []
        for number, (feature, (groups, joined)) in enumerate(zip(self.features, parents, strict=True)):

            def too_few(bins: list[int], number: int = number) -> bool:
                counts = [sum(self.bins[row][number] in bins for row in sibling.rows) for sibling in siblings]
                return any(0 < count < k for count in counts)

            merged: list[list[int]] = [[]]
            for group in groups:
                merged[-1] = merged[-1] + group
                if not too_few(merged[-1]):
                    merged.append([])
            if not merged[-1]:
                merged.pop()
            missing = [feature.values] if feature.missing else []
            joined = joined or too_few(missing)
            while len(merged) > 1 and too_few(merged[-1] + (missing if joined else [])):
                last = merged.pop()
                merged[-1] = merged[-1] + last
            found.append((merged, joined or (feature.missing and len(merged) == 1 and too_few(merged[0]))))
        return found

    def find(self, node: Leaf) -> None:
        """The first of the best splits."""
        total, parameters = self.sums(node.rows), self.parameters
        base = self.score(total)
        node.gain, node.split = max(Fraction(parameters.minimum_gain), Fraction(1e-12) * base), None
        for number, (feature, (groups, joined)) in enumerate(zip(self.features, node.cuts, strict=True)):
            missing = [row for row in node.rows if self.bins[row][number] == feature.values]
            for place in (group[-1] for group in groups):
                last = place == feature.values - 1
                if last and (joined or not feature.missing):
                    continue
                left = [row for row in node.rows if self.bins[row][number] <= place]
                ways = [(left, False)]
                if feature.missing and not joined and self.sums(left)[-1] > 0:
                    ways.append((left + missing, True))
                for rows, with_missing in ways:
                    one = self.sums(rows)
                    other = [t - s for t, s in zip(total, one, strict=True)]
                    lightest = min(one[-1], other[-1])
                    if lightest <= 0 or lightest < Fraction(parameters.minimum_child_weight):
                        continue
                    gain = (self.score(one) + self.score(other) - base) / 2
                    if gain > node.gain:
                        goes_left = with_missing
                        if not joined and not any(any(self.y[row]) for row in missing):
                            weight = self.sums(left)[-1]
                            goes_left = weight >= total[-1] - weight
                        node.gain, node.split = gain, (number, place, goes_left)

    def grow(self) -> list[Leaf]:
        nodes = [Leaf(list(range(len(self.bins))), 0)]
        leaves, whole = 1, [([[place] for place in range(feature.values)], False) for feature in self.features]
        if self.may_split(nodes[0], leaves):
            nodes[0].cuts = self.cut(whole, nodes)
            self.find(nodes[0])
        waiting = [0]
        while waiting := [number for number in waiting if nodes[number].split is not None]:
            if isinstance(self.parameters, LgbParameters):
                if leaves >= self.parameters.leaves:
                    break
                now = [max(waiting, key=lambda number: (nodes[number].gain, -number))]
            else:
                now = waiting
            for number in now:
                self.divide(nodes, nodes[number])
            leaves += len(now)
            for number in now:
                children = nodes[nodes[number].first : nodes[number].first + 2]
                for child in children:
                    child.cuts = self.cut(nodes[number].cuts, children)
                for child in children:
                    if self.may_split(child, leaves):
                        self.find(child)
            waiting = [number for number in waiting if number not in now]
            waiting += [child for number in now for child in (nodes[number].first, nodes[number].first + 1)]
        return nodes

    def divide(self, nodes: list[Leaf], node: Leaf) -> None:
        assert node.split is not None
        number, place, missing_left = node.split
        feature = self.features[number]
        right = [
            row
            for row in node.rows
            if self.bins[row][number] > place and not (missing_left and self.bins[row][number] == feature.values)
        ]
        node.first = len(nodes)
        nodes.append(Leaf([row for row in node.rows if row not in set(right)], node.depth + 1))
        nodes.append(Leaf(right, node.depth + 1))


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Seedling, Growing]]:
    """What was grown, in the order of growing."""
    found: list[tuple[Seedling, Growing]] = []
    grow = boosting.grow

    def watched(ground: Any, seedlings: Any) -> Any:
        grown = grow(ground, seedlings)
        found.extend(zip(seedlings, grown, strict=True))
        return grown

    monkeypatch.setattr(boosting, "grow", watched)
    monkeypatch.setattr(forest, "grow", watched)
    return found


def small_data(seed: int, rows: int = 40) -> tuple[Floats, Floats, Floats]:
    """Columns of few values with holes, the last one a copy of the first; a number to learn; weights, some zero."""
    rng = np.random.default_rng(seed)
    matrix = np.stack([rng.integers(0, rng.integers(2, 9), rows).astype(float) for _ in range(5)], axis=1)
    number = matrix @ rng.normal(size=5) + matrix[:, 0] * matrix[:, 1] + rng.normal(size=rows)
    matrix[rng.random(matrix.shape) < rng.choice([0.0, 0.1, 0.4], 5)] = np.nan
    matrix[:, 4] = matrix[:, 0]
    return matrix, number, rng.choice([0.0, 0.5, 1.0, 3.0], rows, p=[0.1, 0.3, 0.3, 0.3])


def splits_of(model: Model, tree: int = 0) -> list[tuple[int, tuple[int, int, bool] | None]]:
    """For each node its first child and its split."""
    grown, part = model.ensembles[0].trees[tree], model.part
    each = zip(grown.first, grown.split, strict=True)
    return [(first, None if first == -1 else part.splits[split]) for first, split in each]


def reference_for(seedling: Seedling, model: Model, matrix: Floats, parameters: AnyTrees) -> Reference:
    bins = apply_bins(model.part.binning, matrix, "pooled").astype(int).tolist()
    features = model.part.binning.layout.features
    return Reference(bins, features, seedling.y.tolist(), list(seedling.exponents), parameters)


VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {"min_rows": 1},
    "min_rows = 5": {"min_rows": 5},
    "shrinking": {"min_rows": 2, "l1": 0.4, "l2": 1.7, "minimum_gain": 0.2, "minimum_child_weight": 3.0},
    "bundled": {"min_rows": 3, "bundle": True},
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_trees_are_those_of_the_reference(
    learner: str, classes: int, variant: str, seed: int, parameters_for: Make, trees: list[tuple[Seedling, Growing]]
) -> None:
    matrix, number, weights = small_data(seed)
    truth = np.digitize(number, np.quantile(number, [0.4, 0.7])).clip(max=classes - 1) if classes else number
    others = {"depth": 4, "trees": 2, "bundle": False}
    if learner == "rf":
        others |= {"column_share": 1.0}
    parameters = parameters_for(learner, classes, **others | VARIANTS[variant])
    target = Target(truth.astype(float), weights, seed)
    fitted = fit(alone(), parameters, Columns(matrix, tuple("abcde")), [target])
    assert len(trees) == len(fitted.model.ensembles[0].trees)
    for place, (seedling, growing) in enumerate(trees):
        nodes = reference_for(seedling, fitted.model, matrix, parameters).grow()
        assert splits_of(fitted.model, place) == [(n.first, None if n.first == -1 else n.split) for n in nodes]
        for own, node in zip(growing.nodes, nodes, strict=True):
            assert own.rows == len(node.rows)
            if node.split is not None:
                assert own.gain == pytest.approx(float(node.gain), rel=1e-9)
                assert node.split[0] != 4, "the last column is a copy of the first, which comes before it"


@pytest.mark.parametrize("learner", ["gbdt", "xgb"])
def test_gradients_and_leaves_follow_the_formulas(
    learner: str, parameters_for: Make, trees: list[tuple[Seedling, Growing]]
) -> None:
    """First trees, with fractions of Python's own; a unit of whole numbers is 2^-31 of the largest."""
    matrix, number, weights = small_data(7)
    w = [Fraction(weight) for weight in weights.tolist()]
    for classes in (0, 2, 3):
        trees.clear()
        truth = np.digitize(number, np.quantile(number, [0.4, 0.7])).clip(max=classes - 1) if classes else number
        parameters = parameters_for(learner, classes, trees=1, precision=31, l1=0.1, rate=0.3)
        fitted = fit(alone(), parameters, Columns(matrix, tuple("abcde")), [Target(truth.astype(float), weights)])
        t = [Fraction(value) for value in truth.tolist()]
        for k, (seedling, growing) in enumerate(trees):
            wanted = t if not classes else [Fraction(value == (1 if classes == 2 else k)) for value in t]
            mean = sum(a * b for a, b in zip(w, wanted, strict=True)) / sum(w)
            second = mean * (1 - mean) if classes else Fraction(1)
            second *= 1 if classes < 3 else 2 if learner == "xgb" else Fraction(3, 2)
            g = [weight * (mean - value) for weight, value in zip(w, wanted, strict=True)]
            h = [weight * second for weight in w]
            split_by = w if learner == "gbdt" else h
            for column, exact in enumerate((g, split_by)):
                unit = max(map(abs, exact)) / 2**29
                own = [value * Fraction(2) ** -seedling.exponents[column] for value in seedling.y[:, column].tolist()]
                assert all(abs(a - b) <= unit for a, b in zip(own, exact, strict=True))
            tree = fitted.model.ensembles[0].trees[k]
            for leaf in np.unique(growing.where):
                inside = np.flatnonzero(growing.where == leaf).tolist()
                total, weight = sum(g[row] for row in inside), sum(h[row] for row in inside)
                shrunk = max(abs(total) - Fraction(0.1), 0) * (1 if total > 0 else -1)
                value = -Fraction(0.3) * shrunk / (weight + Fraction(parameters.l2))
                assert tree.values[leaf][0] == pytest.approx(float(value), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 0])
@pytest.mark.parametrize("learner", LEARNERS)
def test_what_must_hold_in_any_tree(
    learner: str,
    classes: int,
    hidden: bool,
    scene: Make,
    parameters_for: Make,
    together: Make,
    trees: list[tuple[Seedling, Growing]],
) -> None:
    data = scene(rows=200)
    limits = {"depth": 5, "min_rows": 7, "minimum_gain": 0.01, "minimum_child_weight": 1.5, "hide_nodes": hidden}
    more = {"leaves": 6} if learner == "lgb" else {}
    parameters = parameters_for(learner, classes, **limits | more)
    weights = np.random.default_rng(1).choice([0.0, 0.4, 1.0, 2.0], 200)
    together(parameters, "the active in the middle", data=data, targets=[Target(data.truth[classes], weights)])
    assert len(trees) == parameters.trees * (classes if classes > 2 and learner != "rf" else 1)
    deepest = 0
    for seedling, tree in trees:
        rows = np.bincount(tree.where, minlength=len(tree.nodes))
        leaves = [number for number, node in enumerate(tree.nodes) if node.first == -1]
        assert sorted(set(tree.where.tolist())) == leaves
        assert rows.sum() == 200, "rows of weight zero come along"
        deepest = max(deepest, *(node.depth for node in tree.nodes))
        assert learner != "lgb" or len(leaves) <= 6
        assert hidden or rows[leaves].min() >= 7
        for number, node in enumerate(tree.nodes):
            if node.first == -1:
                assert node.rows == rows[number]
                assert (node.totals == seedling.y[tree.where == number].sum(axis=0)).all()
                continue
            assert node.gain > 0.01
            for child in tree.nodes[node.first : node.first + 2]:
                assert child.depth == node.depth + 1
                assert np.ldexp(float(child.totals[-1]), -seedling.exponents[-1]) >= 1.5
    assert 3 <= deepest <= 5


def test_a_smaller_limit_of_depth_leaves_the_upper_part_as_it_is(scene: Make) -> None:
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
    classes: int, scene: Make, parameters_for: Make, trees: list[tuple[Seedling, Growing]]
) -> None:
    """As long as scores are rough, all rows count: while the rates of the trees so far add up to less than 1."""
    data, rows = scene(rows=200), 200
    outputs = max(classes, 1) if classes != 2 else 1
    parameters = parameters_for("lgb", classes, trees=4, rate=0.4, top_share=0.3, other_share=0.2, precision=31)
    fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[classes], seed=4)])
    assert len(trees) == 4 * outputs
    for place in range(3 * outputs):
        assert trees[place][0].y[:, 1].min() > 0
    sampled = [seedling for seedling, _ in trees[-outputs:]]
    weight = sampled[0].y[:, 1]
    assert all(((seedling.y[:, 1] > 0) == (weight > 0)).all() for seedling in sampled), "all classes keep the same rows"
    assert (weight > 0).sum() == round(0.3 * rows) + round(0.2 * rows)
    size = sum(np.abs(np.ldexp(s.y[:, 0].astype(float), -s.exponents[0])) for s in sampled)
    kept = np.flatnonzero(weight > 0)
    amplified = 3.5
    if not classes:  # the second derivative is 1, so that weights show who stands for many
        factors = np.ldexp(weight[kept].astype(float), -sampled[0].exponents[1])
        assert np.unique(factors).tolist() == [1.0, amplified]
        assert (factors == 1.0).sum() == round(0.3 * rows)
        assert size[kept][factors == 1.0].min() >= (size[kept][factors > 1.0] / amplified).max()


@pytest.mark.parametrize("learner", ["gbdt", "xgb", "rf"])
def test_the_share_of_rows_and_columns_is_drawn_anew_for_each_tree(
    learner: str, scene: Make, parameters_for: Make, trees: list[tuple[Seedling, Growing]]
) -> None:
    data = scene(rows=200)
    more = {"bootstrap": False} if learner == "rf" else {}
    parameters = parameters_for(learner, 0, trees=3, depth=6, min_rows=1, row_share=0.3, column_share=0.2, **more)
    weights = np.where(np.arange(200) % 2 == 0, 1.0, 0.0)
    fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0], weights)])
    drawn = [np.flatnonzero(seedling.y[:, 1]) for seedling, _ in trees]
    assert [len(rows) for rows in drawn] == [30, 30, 30]
    assert len({tuple(rows) for rows in drawn}) == 3
    assert all((rows % 2 == 0).all() for rows in drawn), "rows of weight zero are not drawn"


@pytest.mark.parametrize("learner", ["gbdt", "xgb", "lgb"])
def test_a_share_of_columns_is_the_same_for_a_whole_tree(learner: str, scene: Make, parameters_for: Make) -> None:
    data = scene(rows=200)
    parameters = parameters_for(learner, 0, trees=5, min_rows=1, column_share=0.2)
    model = fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0])]).model
    used = [{split[0] for _, split in splits_of(model, tree) if split} for tree in range(5)]
    assert all(1 <= len(columns) <= 2 for columns in used)
    assert len(set().union(*used)) > 2


def test_a_bootstrap_draws_as_many_rows_as_take_part(
    scene: Make, parameters_for: Make, trees: list[tuple[Seedling, Growing]]
) -> None:
    data = scene(rows=200)
    weights = np.where(np.arange(200) % 4 == 0, 0.0, 1.0)
    parameters = parameters_for("rf", 2, trees=3, precision=8)
    fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[2], weights)])
    for seedling, _ in trees:
        times = np.ldexp(seedling.y[:, 1].astype(float), -seedling.exponents[1])
        assert times.sum() == 150
        assert times.max() > 1
        assert not times[::4].any()


# what is shown of few rows

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
            parts = [unpacked(bits, rows, "bank") for bits in message.taking_part]
            where = [np.where(part, 0, -1).astype(np.int32) for part in parts]
        else:
            told = next(merged)
            count = sum(len(tree.firsts) for tree in message.trees)
            ends = unpacked(told.ends, count * layout.logical, lender).reshape(count, -1)
            joined = unpacked(told.missing_joined, count * len(layout.features), lender).reshape(count, -1)
            found: list[Family] = []
            for tree in message.trees:
                at = where[tree.tree]
                if tree.parents[0] >= 0:
                    moved, counts = members(at, tree.parents)
                    sides = unpacked(tree.sides, len(moved), "bank")
                    at[moved] = np.repeat(tree.firsts, counts) + sides
                for parent, first in zip(tree.parents.tolist(), tree.firsts.tolist(), strict=True):
                    nodes = [first] if parent < 0 else [first, first + 1]
                    siblings = [np.flatnonzero(at == node) for node in nodes]
                    found.append(Family(tree.tree, parent, first, siblings, ends[len(found)], joined[len(found)]))
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
    product = lending.product

    def watched(engine: Any, batch: Any) -> Any:
        seen.extend(batch)
        return product(engine, batch)

    monkeypatch.setattr(lending, "product", watched)
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
        more = {"top_share": 1.0} if learner == "lgb" else {}
        parameters = parameters_for(learner, classes, **more)
        run = together(parameters, data=data, targets=[Target(data.truth[classes], weights)], predicts=False)
        kinds = (messages.Trees, messages.Bags, messages.Level, messages.Open, messages.Grown)
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
        assert (unpacked(bags.taking_part[0], 160, "bank") == (weights > 0)).all()


# splits of large sums


def test_sums_of_any_size_are_exact() -> None:
    """Many columns of many rows in 31 bits: a side that weighs nothing is no side, however large the other is."""
    features, rows, bound = 400, 2**20, 2**31 - 1
    space = Space((Layout((Feature(3, False, 0),) * features, tuple((number,) for number in range(features))),))
    total = np.array([-(bound * rows // 3) * 2 - 1, bound * rows - 1])
    sums = np.zeros((2, features, 3, 2), np.int64)
    sums[:, :, 2] = total  # one bin has it all, but in the last column of the second node
    sums[1, -1, 1] = total // 3 + [bound, 0]
    sums[1, -1, 2] = total - sums[1, -1, 1]
    totals, exponents = np.stack([total, total]), np.zeros((2, 2), np.int64)
    best = best_splits(space, sums.reshape(2, -1, 2), totals, exponents, XgbParameters())
    assert best.bins.tolist() == [-1, features * 3 - 2]
    exact = Reference([], (), [], [0, 0], XgbParameters())
    left, right = ([Fraction(int(value)) for value in sums[1, -1, place]] for place in (1, 2))
    whole = [a + b for a, b in zip(left, right, strict=True)]
    gain = (exact.score(left) + exact.score(right) - exact.score(whole)) / 2
    assert best.gains[1] == pytest.approx(float(gain), rel=0.01)


# rows and nodes


def test_members_come_node_by_node_in_the_order_of_rows() -> None:
    where = np.array([3, -1, 0, 4, 3, 0, 7, 3], np.int32)
    rows, counts = members(where, np.array([3, 0, 5], np.int32))
    assert rows.tolist() == [0, 4, 7, 2, 5]
    assert counts.tolist() == [3, 2, 0]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_sides_travel_as_bits(count: int) -> None:
    sides = np.random.default_rng(count).random(count) < 0.5
    bits = packed(sides)
    assert len(bits) == (count + 7) // 8
    assert (unpacked(bits, count, "telco") == sides).all()
    for wrong in (np.append(bits, np.uint8(0)), bits[:-1], bits[np.newaxis]):
        if wrong.shape != bits.shape:
            with pytest.raises(ProtocolError, match="telco sent sides for another number of rows"):
                unpacked(wrong, count, "telco")
