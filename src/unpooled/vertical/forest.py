"""A random forest: each tree on its own draw of rows, with a draw of columns at each node.

Two classes and numbers go by the variance of the target, which for two classes is half the gini impurity; several
classes by the gini impurity. A tree asks for sums of w y (for several classes, of w for each class) and of w. A leaf's
value is the mean of its rows; the forest's the mean of its trees'. Numbers are counted from their mean, so that their
bits are spent on how they differ.

A secret draw makes every tree's gradients new. Rows drawn without replacement and shown to all (`bootstrap = false`,
`hide_bags = false`) leave them as they are, so that they are hidden or encrypted once for the whole forest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.codec import Bools, Floats
from unpooled.vertical.ground import Ground, Growing, Seedling
from unpooled.vertical.growing import grow
from unpooled.vertical.numbers import mean_of, to_integers
from unpooled.vertical.parameters import ForestParameters
from unpooled.vertical.standing import OUTSIDE
from unpooled.vertical.targets import Target, counted, one_hot


@dataclass(eq=False)
class Forest:
    """A model on its way: scores are sums over the trees in which a row came along, `seen` how many these were.

    The truth is what it is above `base`.
    """

    base: Floats
    truth: Floats
    weights: Floats
    seed: int
    scores: Floats
    seen: Floats
    trees: list[list[tuple[Growing, Floats]]] = field(default_factory=list)


def plant(
    ground: Ground,
    parameters: ForestParameters,
    targets: Sequence[tuple[Target, Floats]],
    begin_group: Callable[[], None],
) -> list[Forest]:
    """Fit a forest to each target, given with its checked weights; trees of all of them grow in lock-step."""
    forests = [_begun(parameters, target, weights) for target, weights in targets]
    waiting = [(place, number) for number in range(parameters.trees) for place in range(len(forests))]
    for begin in range(0, len(waiting), parameters.lockstep):
        group = waiting[begin : begin + parameters.lockstep]
        begin_group()
        seedlings = [_seedling(ground, parameters, forests[place], place, number) for place, number in group]
        for (place, _), tree in zip(group, grow(ground, seedlings), strict=True):
            _add(forests[place], tree, parameters.classes)
    return forests


def _begun(parameters: ForestParameters, target: Target, weights: Floats) -> Forest:
    several = parameters.classes > 2
    values = np.where(weights > 0, target.values, 0.0)  # others' may be missing
    truth = one_hot(values, parameters.classes) if several else values[:, np.newaxis]
    base = np.zeros(truth.shape[1]) if parameters.classes else np.array([mean_of(values, weights)])
    return Forest(base, truth - base, weights, target.seed, np.zeros(truth.shape), np.zeros((len(weights), 1)))


def _seedling(ground: Ground, parameters: ForestParameters, forest: Forest, place: int, number: int) -> Seedling:
    rows, rng = np.flatnonzero(forest.weights > 0), np.random.default_rng([forest.seed, number])
    if parameters.bootstrap:
        factors = counted(rows[rng.integers(0, len(rows), len(rows))], len(forest.weights))
    else:
        drawn = rng.choice(rows, max(round(parameters.row_share * len(rows)), 1), replace=False)
        factors = counted(drawn, len(forest.weights))
    part = None if parameters.hide_bags else factors > 0
    same = not parameters.bootstrap and part is not None
    weights = forest.weights * (1.0 if same else factors)
    values = np.concatenate([forest.truth, np.ones((len(weights), 1))], axis=1) * weights[:, np.newaxis]
    y, exponents = to_integers(values, parameters.precision)
    name = f"forest {place}" if same else f"tree {number} model {place}"
    drawn_features = _drawn(parameters, rng, ground.space.features)
    return Seedling(name, y, exponents, part, drawn=drawn_features, serve_again=same)


def _drawn(parameters: ForestParameters, rng: np.random.Generator, features: int) -> Callable[[int], Bools]:
    """Other columns at each node."""
    if parameters.column_share is not None:
        count = round(parameters.column_share * features)
    else:
        count = round(features**0.5) if parameters.classes else features // 3
    count = min(max(count, 1), features)

    def draw(nodes: int) -> Bools:
        allowed = np.zeros((nodes, features), bool)
        for row in allowed:
            row[rng.choice(features, count, replace=False)] = True
        return allowed

    return draw


def _add(forest: Forest, tree: Growing, classes: int) -> None:
    totals, exponents = np.stack([node.totals for node in tree.nodes]), tree.seedling.exponents
    sums = np.ldexp(totals.astype(float), -np.array(exponents))
    weight = sums[:, -1:]
    if sums.shape[1] > 2:  # shares of several classes are to add up to one, whatever rounding did to the weights
        weight = sums[:, :1].copy()
        for k in range(1, sums.shape[1] - 1):
            weight += sums[:, k : k + 1]
    values = np.divide(sums[:, :-1], weight, out=np.zeros(sums[:, :-1].shape), where=weight > 0)
    if classes == 2:
        values = np.minimum(values, 1.0)
    came_along = tree.where != OUTSIDE
    forest.scores[came_along] += values[tree.where[came_along]]
    forest.seen[came_along] += 1
    forest.trees.append([(tree, values)])
