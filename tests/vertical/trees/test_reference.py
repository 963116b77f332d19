"""Single trees beside a slow reference, their gradients and leaves beside the formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Floats
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees.binning import apply_bins
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.ensemble import fit
from unpooled.vertical.trees.grower.context import TreeSpec
from unpooled.vertical.trees.grower.splitting import Space, best_splits
from unpooled.vertical.trees.model import Model
from unpooled.vertical.trees.parameters import AnyTrees, LgbParameters, XgbParameters

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
    sampled: bool = False

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

    def least(self, node: Leaf) -> Fraction:
        """What each side must weigh. Where rows are drawn, `lgb` wants as much as `min_rows` of these on average."""
        least = Fraction(self.parameters.minimum_child_weight)
        if not isinstance(self.parameters, LgbParameters) or not self.sampled:
            return least
        drawn = [row for row in node.rows if self.y[row][-1]]
        return max(least, self.parameters.min_rows * self.sums(drawn)[-1] / len(drawn))

    def find(self, node: Leaf) -> None:
        """The first of the best splits."""
        total, parameters = self.sums(node.rows), self.parameters
        base, least = self.score(total), self.least(node)
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
                    if lightest <= 0 or lightest < least:
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


def small_data(seed: int, rows: int = 40) -> tuple[Floats, Floats, Floats]:
    """Columns of few values with holes, the last one a copy of the first; a number to learn; weights, some zero."""
    rng = np.random.default_rng(seed)
    matrix = np.stack([rng.integers(0, rng.integers(2, 9), rows).astype(float) for _ in range(5)], axis=1)
    number = matrix @ rng.normal(size=5) + matrix[:, 0] * matrix[:, 1] + rng.normal(size=rows)
    matrix[rng.random(matrix.shape) < rng.choice([0.0, 0.1, 0.4], 5)] = np.nan
    matrix[:, 4] = matrix[:, 0]
    return matrix, number, rng.choice([0.0, 0.5, 1.0, 3.0], rows, p=[0.1, 0.3, 0.3, 0.3])


def reference_for(spec: TreeSpec, model: Model, matrix: Floats, parameters: AnyTrees) -> Reference:
    bins = apply_bins(model.part.binning, matrix, "pooled").astype(int).tolist()
    features = model.part.binning.layout.features
    return Reference(bins, features, spec.y.tolist(), list(spec.exponents), parameters, spec.sampled)


VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {"min_rows": 1},
    "min_rows = 5": {"min_rows": 5},
    "shrinking": {"min_rows": 2, "l1": 0.4, "l2": 1.7, "minimum_gain": 0.2, "minimum_child_weight": 3.0},
    "bundled": {"min_rows": 3, "bundle": True},
}


CASES = [
    (learner, classes, variant, place % 2)
    for place, learner in enumerate(LEARNERS)
    for row, classes in enumerate((0, 2, 3))
    for column, variant in enumerate(VARIANTS)
    if (place + row + column) % 2 == 0
]
"""Every learner has every task and every variant."""


@pytest.mark.parametrize(("learner", "classes", "variant", "seed"), CASES)
def test_trees_are_those_of_the_reference(
    learner: str,
    classes: int,
    variant: str,
    seed: int,
    parameters_for: Make,
    splits_of: Make,
    trees: list[tuple[TreeSpec, Any]],
) -> None:
    matrix, number, weights = small_data(seed)
    truth = np.digitize(number, np.quantile(number, [0.4, 0.7])).clip(max=classes - 1) if classes else number
    others = {"depth": 4, "trees": 2, "bundle": False}
    if learner == "rf":
        others |= {"column_fraction": 1.0}
    parameters = parameters_for(learner, classes, **others | VARIANTS[variant])
    target = Target(truth.astype(float), weights, seed)
    fitted = fit(alone(), parameters, Columns(matrix, tuple("abcde")), [target])
    assert len(trees) == len(fitted.model.ensembles[0].trees)
    for place, (spec, growing) in enumerate(trees):
        nodes = reference_for(spec, fitted.model, matrix, parameters).grow()
        assert splits_of(fitted.model, place) == [(n.first, None if n.first == -1 else n.split) for n in nodes]
        for own, node in zip(growing.nodes, nodes, strict=True):
            assert own.rows == len(node.rows)
            if node.split is not None:
                assert own.gain == pytest.approx(float(node.gain), rel=1e-9)
                assert node.split[0] != 4, "the last column is a copy of the first, which comes before it"


@pytest.mark.parametrize("learner", ["gbdt", "xgb"])
def test_gradients_and_leaves_follow_the_formulas(
    learner: str, parameters_for: Make, trees: list[tuple[TreeSpec, Any]]
) -> None:
    """First trees, with fractions of Python's own; a unit of whole numbers is 2^-31 of the largest."""
    matrix, number, weights = small_data(7)
    w = [Fraction(weight) for weight in weights.tolist()]
    for classes in (0, 2, 3):
        trees.clear()
        truth = np.digitize(number, np.quantile(number, [0.4, 0.7])).clip(max=classes - 1) if classes else number
        parameters = parameters_for(learner, classes, trees=1, precision=31, l1=0.1, learning_rate=0.3)
        fitted = fit(alone(), parameters, Columns(matrix, tuple("abcde")), [Target(truth.astype(float), weights)])
        t = [Fraction(value) for value in truth.tolist()]
        for k, (spec, growing) in enumerate(trees):
            wanted = t if not classes else [Fraction(value == (1 if classes == 2 else k)) for value in t]
            mean = sum(a * b for a, b in zip(w, wanted, strict=True)) / sum(w)
            second = mean * (1 - mean) if classes else Fraction(1)
            second *= 1 if classes < 3 else 2 if learner == "xgb" else Fraction(3, 2)
            g = [weight * (mean - value) for weight, value in zip(w, wanted, strict=True)]
            h = [weight * second for weight in w]
            split_by = w if learner == "gbdt" else h
            for column, exact in enumerate((g, split_by)):
                unit = max(map(abs, exact)) / 2**29
                own = [value * Fraction(2) ** -spec.exponents[column] for value in spec.y[:, column].tolist()]
                assert all(abs(a - b) <= unit for a, b in zip(own, exact, strict=True))
            tree = fitted.model.ensembles[0].trees[k]
            for leaf in np.unique(growing.where):
                inside = np.flatnonzero(growing.where == leaf).tolist()
                total, weight = sum(g[row] for row in inside), sum(h[row] for row in inside)
                shrunk = max(abs(total) - Fraction(0.1), 0) * (1 if total > 0 else -1)
                value = -Fraction(0.3) * shrunk / (weight + Fraction(parameters.l2))
                assert tree.values[leaf][0] == pytest.approx(float(value), rel=1e-6, abs=1e-9)


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
