"""A random forest: each tree on its own draw of rows, with a draw of columns at each node.

Two classes and numbers go by the variance of the target, which for two classes is half the gini impurity; several
classes by the gini impurity. A tree asks for sums of w y (for several classes, of w for each class) and of w. A leaf's
value is the mean of its rows; the forest's the mean of its trees'. Numbers are counted from their mean, so that their
bits are spent on how they differ.

A secret draw makes every tree's gradients new. Rows drawn without replacement and shown to all (`bootstrap = false`,
`hide_bags = false`) leave them as they are, so that `paillier` encrypts them once for the whole forest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.vertical.numbers import mean_of, to_integers, to_short_integers
from unpooled.vertical.targets import Target, counted, one_hot
from unpooled.vertical.trees.grower.context import FinishedTree, Grow, GrownTree, TreeSpec
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, leaf_sums
from unpooled.vertical.trees.parameters import (
    ForestParameters,
    group_size,
    groups_at_once,
    largest_sum,
    reuses_gradients,
)
from unpooled.vertical.trees.turns import TakeTurns, Turns, in_turns


@dataclass(eq=False)
class Forest:
    """A model while it is fitted: scores are sums over the trees in which a row came along, `seen` how many these were.

    The truth is counted from `base`.
    """

    base: Floats
    truth: Floats
    weights: Floats
    seed: int
    scores: Floats
    seen: Floats
    trees: list[list[FinishedTree]] = field(default_factory=list)

    def predictions(self) -> Floats:
        """The means over the trees in which a row came along; not-a-number for a row that was in none."""
        unknown = np.full(self.scores.shape, np.nan)
        means: Floats = np.divide(self.scores, self.seen, out=unknown, where=self.seen > 0)
        return self.base + means


_Grown = tuple[int, TreeSpec, GrownTree, Floats]


def fit_forest(
    grow: Grow,
    features: int,
    parameters: ForestParameters,
    targets: Sequence[tuple[Target, Floats]],
    take_turns: TakeTurns = in_turns,
) -> list[Forest]:
    """Fit a forest to each target, given with its checked weights; trees of all of them grow in groups."""
    forests = [_start(parameters, target, weights) for target, weights in targets]
    waiting = [(place, number) for number in range(parameters.trees) for place in range(len(forests))]
    size, grown, next_added = group_size(parameters, len(forests)), dict[int, list[_Grown]](), 1

    def group(number: int, trees: Sequence[tuple[int, int]]) -> Turns:
        nonlocal next_added
        made = [_spec(features, parameters, forests[place], place, tree) for place, tree in trees]
        found = yield from grow([spec for spec, _ in made], number)
        each = zip(trees, made, found, strict=True)
        grown[number] = [(place, spec, tree, values) for (place, _), (spec, values), tree in each]
        while next_added in grown:  # in the order of their numbers, since sums of fractions depend on the order
            for place, spec, tree, values in grown.pop(next_added):
                _add(forests[place], parameters, spec, tree, values)
            next_added += 1

    begins = range(0, len(waiting), size)
    groups = (group(number, waiting[begin : begin + size]) for number, begin in enumerate(begins, 1))
    take_turns(groups, groups_at_once(parameters))
    return forests


def _start(parameters: ForestParameters, target: Target, weights: Floats) -> Forest:
    several = parameters.classes > 2
    values = np.where(weights > 0, target.values, 0.0)  # others' may be missing
    truth = one_hot(values, parameters.classes) if several else values[:, np.newaxis]
    base = np.zeros(truth.shape[1]) if parameters.classes else np.array([mean_of(values, weights)])
    return Forest(base, truth - base, weights, target.seed, np.zeros(truth.shape), np.zeros((len(weights), 1)))


def _spec(
    features: int, parameters: ForestParameters, forest: Forest, place: int, number: int
) -> tuple[TreeSpec, Floats]:
    """What a tree is grown from, as whole numbers and as they were: target and weight of each row."""
    rows, rng = np.flatnonzero(forest.weights > 0), np.random.default_rng([forest.seed, number])
    if parameters.bootstrap:
        factors = counted(rows[rng.integers(0, len(rows), len(rows))], len(forest.weights))
    else:
        drawn = rng.choice(rows, max(round(parameters.row_fraction * len(rows)), 1), replace=False)
        factors = counted(drawn, len(forest.weights))
    part = None if parameters.hide_bags else factors > 0
    same = reuses_gradients(parameters)
    weights = forest.weights * (1.0 if same else factors)
    values = np.concatenate([forest.truth, np.ones((len(weights), 1))], axis=1) * weights[:, np.newaxis]
    y, exponents = to_short_integers(
        values, parameters.precision, largest_sum(parameters, len(values)), lambda: rng.random(len(values))
    )
    name = f"forest {place}" if same else f"tree {number} model {place}"
    return TreeSpec(name, y, exponents, part, draw=_draw(parameters, rng, features), reused=same), values


def _draw(parameters: ForestParameters, rng: np.random.Generator, features: int) -> Callable[[Bools], Bools]:
    """Other columns at each node, of those that it can be split by: small nodes have few, if `min_rows` is large."""
    if parameters.column_fraction is not None:
        count = round(parameters.column_fraction * features)
    else:
        count = round(features**0.5) if parameters.classes else features // 3
    count = min(max(count, 1), features)

    def draw(can_be: Bools) -> Bools:
        allowed = np.zeros(can_be.shape, bool)
        for row, candidates in zip(allowed, map(np.flatnonzero, can_be), strict=True):
            row[rng.choice(candidates, min(count, len(candidates)), replace=False)] = True
        return allowed

    return draw


def _add(forest: Forest, parameters: ForestParameters, spec: TreeSpec, tree: GrownTree, of_rows: Floats) -> None:
    totals, exponents = tree.totals, spec.exponents
    if parameters.hide_nodes:  # splits were found by rougher numbers
        whole, exponents = to_integers(of_rows, parameters.precision)
        totals = leaf_sums(tree.where, len(tree.first), whole)
    sums = np.ldexp(totals.astype(float), -np.array(exponents))
    weight = sums[:, -1:]
    if sums.shape[1] > 2:  # shares of several classes are to add up to one, whatever rounding did to the weights
        weight = sums[:, :1].copy()
        for k in range(1, sums.shape[1] - 1):
            weight += sums[:, k : k + 1]
    values = np.divide(sums[:, :-1], weight, out=np.zeros(sums[:, :-1].shape), where=weight > 0)
    if parameters.classes == 2:
        values = np.minimum(values, 1.0)
    came_along = tree.where != OUTSIDE
    forest.scores[came_along] += values[tree.where[came_along]]
    forest.seen[came_along] += 1
    forest.trees.append([FinishedTree(tree, values, tree.cover(of_rows[:, -1]))])
