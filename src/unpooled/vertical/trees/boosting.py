"""Boosting: each round adds a tree for what the trees before it left over, for all models and classes together.

With scores s, the gradient and second derivative of the loss are, for a row of weight w:
- two classes, p = sigmoid(s): g = w (p - y), h = w p (1 - p)
- K classes, p = softmax(s), a tree for each: g = w (p - y), h = c w p (1 - p), c = 2 for `xgb` as in XGBoost, else
  K / (K - 1)
- numbers: g = w (s - y), h = w

`xgb` and `lgb` split by G and H and give a leaf -G / (H + l2). `gbdt` splits by G and the weights, and takes one Newton
step in each leaf, with the same formula. g and h become whole numbers before anything is summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.vertical.numbers import exact_sum, log, mean_of, sigmoid, softmax, to_integers, to_short_integers
from unpooled.vertical.targets import Target, class_fractions, one_hot, set_aside
from unpooled.vertical.trees.grower.context import FinishedTree, Grow, GrownTree, TreeSpec
from unpooled.vertical.trees.grower.node_rows import leaf_sums
from unpooled.vertical.trees.grower.splitting import shrunk
from unpooled.vertical.trees.parameters import (
    AnyBoosting,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
    group_size,
    groups_at_once,
    in_rounds,
    largest_sum,
    outputs_of,
)
from unpooled.vertical.trees.turns import TakeTurns, Turns, in_turns

_LEAST_FRACTION = 1e-9
_FEW = 0.5


@dataclass(eq=False)
class Booster:
    """A model while it is fitted: scores are rows × outputs, of the rows that are not cut out.

    `training` are the weights without those of the rows that are set `aside` for validation. `learned_from` says where
    they are not zero, if that is seldom: other rows have no gradients.
    """

    parameters: AnyBoosting
    truth: Floats
    weights: Floats
    aside: Bools
    training: Floats
    learned_from: Ints | slice
    seed: int
    base: Floats
    scores: Floats
    taking_part: Bools | None
    trees: list[list[FinishedTree]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    stopped: bool = False

    def add(self, trees: list[FinishedTree]) -> None:
        """Add a round of trees, one for each output."""
        self.trees.append(trees)
        for k, tree in enumerate(trees):
            self.scores[:, k] += tree.values[:, 0].take(tree.grown.where)

    def predictions(self) -> Floats:
        """Probabilities or numbers of all rows; not-a-number for those that were cut out."""
        found = probabilities(self.parameters, self.scores)
        if self.taking_part is None:
            return found
        of_all = np.full((len(self.taking_part), found.shape[1]), np.nan)
        of_all[self.taking_part] = found
        return of_all


def fit_boosting(
    grow: Grow,
    features: int,
    parameters: AnyBoosting,
    targets: Sequence[tuple[Target, Floats]],
    take_turns: TakeTurns = in_turns,
) -> list[Booster]:
    """Fit a model to each target, given with its checked weights, by trees on so many features.

    All in step, or, where groups of trees take turns, in parts that need not wait for each other.
    """
    boosters = [_start(parameters, target, weights) for target, weights in targets]
    size = group_size(parameters, len(boosters))
    beside = size if groups_at_once(parameters) > 1 and not in_rounds(parameters) else len(boosters)
    firsts = range(0, len(boosters), beside)
    parts = (
        _rounds(grow, features, parameters, boosters[first : first + beside], first, size, count(part + 1, len(firsts)))
        for part, first in enumerate(firsts)
    )
    take_turns(parts, groups_at_once(parameters))
    if parameters.patience is not None:
        for booster in boosters:
            kept, booster.trees = booster.trees[: int(np.argmin(booster.losses)) + 1], []
            booster.scores = np.tile(booster.base, (len(booster.weights), 1))
            for trees in kept:
                booster.add(trees)
    return boosters


def _rounds(
    grow: Grow,
    features: int,
    parameters: AnyBoosting,
    boosters: Sequence[Booster],
    first: int,
    size: int,
    numbers: Iterator[int],
) -> Turns:
    """All rounds of some of the models, from the `first` one on; groups of trees have this size and these numbers."""
    outputs = outputs_of(parameters)
    for number in range(parameters.trees):
        alive = [booster for booster in boosters if not booster.stopped]
        specs, derivatives = list[TreeSpec](), list[Floats]()
        for place, booster in enumerate(alive, first):
            rng = np.random.default_rng([booster.seed, number + 1])
            rows, training = booster.learned_from, booster.training[booster.learned_from]
            gradients, hessians = _derivatives(booster)
            factors = _row_factors(booster, gradients, number, rng)
            sampled = bool((factors[training > 0] == 0).any())
            draw = _draw(parameters, features, rng)
            every = len(booster.training)
            most, rounding = largest_sum(parameters, every), partial(_drawn, rng, every, rows)
            for k in range(outputs):
                h = hessians[:, k] * factors
                weights = factors * training if isinstance(parameters, GbdtParameters) else h
                g = gradients[:, k] * factors
                whole, exponents = to_short_integers(np.stack([g, weights], 1), parameters.precision, most, rounding)
                y = whole if isinstance(rows, slice) else _spread(whole, rows, every)
                name = f"round {number} model {place} class {k}"
                specs.append(TreeSpec(name, y, exponents, booster.taking_part, cut=True, draw=draw, sampled=sampled))
                derivatives.append(np.stack([g, h], 1))
        grown = []
        for begin in range(0, len(specs), size):
            grown += yield from grow(specs[begin : begin + size], next(numbers))
        each = iter(zip(specs, grown, derivatives, strict=True))
        for booster in alive:
            round_of_trees = islice(each, outputs)
            booster.add([_finished(booster, spec, tree, rows) for spec, tree, rows in round_of_trees])
            _stop_early(booster)


def _start(parameters: AnyBoosting, target: Target, weights: Floats) -> Booster:
    part = None if parameters.hide_bags else weights > 0
    values = target.values
    if part is not None:
        values, weights = values[part], weights[part]
    aside = np.zeros(len(weights), bool)
    if parameters.patience is not None:
        aside = set_aside(weights, parameters.validation_fraction, np.random.default_rng([target.seed, 0]))
    training = np.where(aside, 0.0, weights)
    values, classes = np.where(weights > 0, values, 0.0), parameters.classes  # others' may be missing
    truth = one_hot(values, classes) if classes > 2 else values[:, np.newaxis]
    if classes:
        fractions = np.array(class_fractions(values, training, classes))
        logs = log(np.clip(fractions, _LEAST_FRACTION, 1 - _LEAST_FRACTION))
        base = logs if classes > 2 else logs[1:] - logs[:1]
    else:
        base = np.array([mean_of(values, training)])
    scores = np.tile(base, (len(weights), 1))
    rows = np.flatnonzero(training)
    learned_from = rows if len(rows) < _FEW * len(weights) else slice(None)
    return Booster(parameters, truth, weights, aside, training, learned_from, target.seed, base, scores, part)


def probabilities(parameters: AnyBoosting, scores: Floats) -> Floats:
    """Scores as probabilities, rows × outputs; numbers as they are."""
    if not parameters.classes:
        return scores
    return softmax(scores) if parameters.classes > 2 else sigmoid(scores)


def _derivatives(booster: Booster) -> tuple[Floats, Floats]:
    """Gradients and second derivatives of the rows that are learned from, both times the weights."""
    classes, rows = booster.parameters.classes, booster.learned_from
    weights, p = booster.training[rows, np.newaxis], probabilities(booster.parameters, booster.scores[rows])
    gradients = weights * (p - booster.truth[rows])
    if not classes:
        return gradients, weights * np.ones_like(p)
    factor = 1.0 if classes == 2 else 2.0 if isinstance(booster.parameters, XgbParameters) else classes / (classes - 1)
    return gradients, factor * weights * p * (1.0 - p)


def _row_factors(booster: Booster, gradients: Floats, number: int, rng: np.random.Generator) -> Floats:
    """A factor for each row that is learned from: 0 for those not drawn, 1, or more where few stand for many."""
    parameters, factors = booster.parameters, np.ones(len(gradients))
    rows = np.flatnonzero(booster.training[booster.learned_from] > 0)
    if parameters.row_fraction < 1:
        drawn = rng.choice(rows, max(round(parameters.row_fraction * len(rows)), 1), replace=False)
        factors = np.zeros(len(gradients))
        factors[drawn] = 1.0
        rows = np.sort(drawn)
    if not isinstance(parameters, LgbParameters) or number * parameters.learning_rate < 1:
        return factors  # as LightGBM does, all rows while the scores are still rough
    size = np.zeros(len(rows))
    for k in range(gradients.shape[1]):
        size += np.abs(gradients[rows, k])
    others = rows[np.argsort(-size, kind="stable")][round(parameters.top_fraction * len(rows)) :]
    count = min(round(parameters.other_fraction * len(rows)), len(others))
    if count == len(others):
        return factors
    kept = rng.choice(others, count, replace=False)
    factors[others] = 0.0
    factors[kept] = len(others) / count if count else 0.0
    return factors


def _spread(numbers: Ints, rows: Ints, every: int) -> Ints:
    """Numbers of some rows as those of all, zero elsewhere."""
    found = np.zeros((every, numbers.shape[1]), numbers.dtype)
    found[rows] = numbers
    return found


def _drawn(rng: np.random.Generator, count: int, rows: Ints | slice) -> Floats:
    """Numbers between 0 and 1 for these rows: what a row gets does not depend on which others there are."""
    return rng.random(count)[rows]


def _draw(parameters: AnyBoosting, features: int, rng: np.random.Generator) -> Callable[[Bools], Bools] | None:
    """The same columns for all nodes of the tree."""
    if parameters.column_fraction >= 1:
        return None
    allowed = np.zeros(features, bool)
    allowed[rng.choice(features, max(round(parameters.column_fraction * features), 1), replace=False)] = True
    return lambda can_be: np.tile(allowed, (len(can_be), 1))


def _finished(booster: Booster, spec: TreeSpec, tree: GrownTree, derivatives: Floats) -> FinishedTree:
    """All training rows weigh in its nodes, also those that were not drawn for it."""
    values = _leaf_values(booster.parameters, spec, tree, tree.where[booster.learned_from], derivatives)
    return FinishedTree(tree, values[:, np.newaxis], tree.cover(booster.training))


def _leaf_values(
    parameters: AnyBoosting, spec: TreeSpec, tree: GrownTree, leaf_of_row: Ints, derivatives: Floats
) -> Floats:
    """One Newton step in each leaf. Where nodes are hidden, splits are found by rougher numbers than these."""
    g, curvature = np.ldexp(tree.totals.astype(float), -np.array(spec.exponents)).T
    if parameters.hide_nodes or isinstance(parameters, GbdtParameters):
        whole, exponents = to_integers(derivatives, parameters.precision)
        sums = np.ldexp(leaf_sums(leaf_of_row, len(tree.first), whole).astype(float), -np.array(exponents))
        g, curvature = sums[:, 0] if parameters.hide_nodes else g, sums[:, 1]
    steps = shrunk(g, parameters.l1)
    weight = curvature + parameters.l2
    values: Floats = -parameters.learning_rate * np.divide(steps, weight, out=np.zeros(len(g)), where=weight > 0)
    return values


def _stop_early(booster: Booster) -> None:
    """Stop if the validation rows have not got better for too long."""
    parameters = booster.parameters
    if parameters.patience is None:
        return
    aside, weights = booster.aside, booster.weights[booster.aside]
    p, truth = probabilities(parameters, booster.scores[aside]), booster.truth[aside]
    if not parameters.classes:
        losses = (p[:, 0] - truth[:, 0]) ** 2
    elif parameters.classes == 2:
        losses = -log(np.maximum(np.where(truth[:, 0] > 0, p[:, 0], 1.0 - p[:, 0]), _LEAST_FRACTION))
    else:
        losses = -log(np.maximum(p[truth > 0], _LEAST_FRACTION))
    booster.losses.append(exact_sum(losses * weights))
    best = int(np.argmin(booster.losses))
    booster.stopped = len(booster.losses) - 1 - best >= parameters.patience
