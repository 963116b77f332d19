"""The best split of each node, from sums of whole numbers; ties go to the first feature, and there to the first bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.compiled import worthwhile
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.grower.min_rows import Groups
from unpooled.vertical.trees.parameters import TreeParameters

_NODES_AT_ONCE = 32  # so that what is computed stays in the processor's caches
_ROUNDING = 1e-12  # of the node's own score: a smaller gain is a rounding error


@dataclass(frozen=True)
class Space:
    """The features of all owners side by side, in their listed order."""

    layouts: tuple[Layout, ...]

    @cached_property
    def every(self) -> Layout:
        """All features as if one party had them; how they are bundled does not matter here."""
        return Layout(tuple(feature for layout in self.layouts for feature in layout.features), ())

    @cached_property
    def first_features(self) -> Ints:
        """The first feature of each owner."""
        return np.cumsum([0, *(len(layout.features) for layout in self.layouts)])[:-1]

    @cached_property
    def thresholds(self) -> Bools:
        """The logical bins after which a feature can be split: all but its last."""
        possible = np.ones(self.every.logical, bool)
        possible[self.every.starts - 1] = False  # of the first feature: the last bin of all
        return possible

    @cached_property
    def last_value(self) -> Bools:
        """The logical bins that are the last of their feature that hold values."""
        last = np.zeros(self.every.logical, bool)
        last[self.every.starts + self.every.values - 1] = True
        return last

    @cached_property
    def missing_bin(self) -> Ints:
        """For each feature the bin of its missing values, -1 if there is none."""
        missing = [feature.missing for feature in self.every.features]
        return np.where(missing, self.every.starts + self.every.values, -1)

    def places_of(self, bins: Ints) -> tuple[Ints, Ints, Ints]:
        """The owners' numbers, their features and the bins within those, of some logical bins."""
        features = self.every.owner[bins]
        owners = np.searchsorted(self.first_features, features, side="right") - 1
        return owners, features - self.first_features[owners], self.every.place[bins]


@dataclass(frozen=True, eq=False)
class Best:
    """For each node the gain, the logical bin after which it is split (-1: not at all), where missing values go.

    `left` are the sums over the rows on the left.
    """

    gains: Floats
    bins: Ints
    missing_left: Bools
    left: Ints


def best_splits(
    space: Space,
    sums: Ints,
    totals: Ints,
    exponents: Ints,
    parameters: TreeParameters,
    groups: Groups | None = None,
    allowed: Bools | None = None,
    least: Floats | None = None,
) -> Best:
    """The best split of each node.

    `sums` are nodes × logical bins × columns, `totals` nodes × columns, the last column the weight; `exponents` say by
    which power of two each column of a node was scaled. A split goes between `groups` of bins, for only there sums are
    known; missing values that are joined to the last group go with it. `allowed` are nodes × features.
    `least` is what each side of a node must weigh, where that is more than `minimum_child_weight`.

    Missing values go to the side where that gains more; where none are missing, later ones go where more weight is.
    """
    if not len(sums) or not space.thresholds.any():
        return Best(np.zeros(len(sums)), np.full(len(sums), -1), np.zeros(len(sums), bool), totals)
    scale: Floats = np.ldexp(1.0, -exponents)
    scaled: Floats = totals * scale  # exact, as are all sums over a node's rows: none passes 2^53
    base = _score(list(scaled.T), parameters)
    nodes = _Nodes(sums, totals, scale, scaled, base, _possible(space, groups, len(sums), allowed), groups, least)
    if worthwhile(sums.size):
        gain, choice, goes_left, left = _choices_compiled(space, nodes, parameters)
    else:
        parts = [slice(begin, begin + _NODES_AT_ONCE) for begin in range(0, len(sums), _NODES_AT_ONCE)]
        found = [_choices(space, nodes.part(part), parameters) for part in parts]
        gain, choice, goes_left, left = (np.concatenate(each) for each in zip(*found, strict=True))
    rows, features = np.arange(len(sums)), space.every.owner[choice]
    worth_it = gain > np.maximum(parameters.minimum_gain, _ROUNDING * base)
    heavier = 2 * left[:, -1] * scale[:, -1] >= scaled[:, -1]
    left += sums[rows, space.missing_bin[features]] * goes_left[:, np.newaxis]
    goes_left = np.where(_none_missing(space, sums, groups, features), heavier, goes_left)
    return Best(np.where(worth_it, gain, 0.0), np.where(worth_it, choice, -1), goes_left, left)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """What is known of some nodes: sums and totals, what scales these, totals scaled, their scores, and limits."""

    sums: Ints
    totals: Ints
    scale: Floats
    scaled: Floats
    base: Floats
    possible: Bools
    groups: Groups | None
    least: Floats | None

    def part(self, part: slice) -> _Nodes:
        groups, least = self.groups, self.least
        return _Nodes(
            self.sums[part],
            self.totals[part],
            self.scale[part],
            self.scaled[part],
            self.base[part],
            self.possible[part],
            None if groups is None else Groups(groups.ends[part], groups.missing_joined[part]),
            None if least is None else least[part],
        )


_Choices = tuple[Floats, Ints, Bools, Ints]
"""Of each node the largest gain, minus infinity if there is no split; after which bin; whether missing values go left;
and the sums on the left without these."""


def _choices(space: Space, of: _Nodes, parameters: TreeParameters) -> _Choices:
    sums, totals, scale, columns, owners = of.sums, of.totals, of.scale, range(of.sums.shape[2]), space.every.owner
    running = [np.cumsum(sums[..., k], axis=1) for k in columns]  # over all features, which may pass 2^53
    # From here on node by node the bins that a split may go after: of small nodes these are few.
    at, counts = np.flatnonzero(of.possible), np.count_nonzero(of.possible, axis=1)
    nodes = np.arange(len(sums)).repeat(counts)
    features = owners.take(at - nodes * sums.shape[1])
    left: list[Floats] = []
    for k in columns:
        earlier = features * totals[:, k].repeat(counts)  # each feature's bins add up to the node's total
        left.append((running[k].reshape(-1).take(at) - earlier) * scale[:, k].repeat(counts))
    whole, bases = [of.scaled[:, k].repeat(counts) for k in columns], of.base.repeat(counts)
    least = None if of.least is None else of.least.repeat(counts)
    found_gains = _gains(left, whole, bases, parameters, least)
    missing_left = np.zeros(sums.shape[:2], bool)
    if (space.missing_bin >= 0).any():
        some, moved = _missing_moved(space, sums, scale, of.groups, nodes, features, left[-1])
        other = _gains(
            [left[k][some] + moved[:, k] for k in columns],
            [whole[k][some] for k in columns],
            bases[some],
            parameters,
            None if least is None else least[some],
        )
        missing_left.reshape(-1)[at[some]] = other > found_gains[some]
        found_gains[some] = np.maximum(other, found_gains[some])
    gains = np.full(sums.shape[:2], -np.inf)
    gains.reshape(-1)[at] = found_gains
    rows, choice = np.arange(len(sums)), gains.argmax(axis=1)
    sums_left = np.stack([running[k][rows, choice] for k in columns], axis=1)
    sums_left -= owners[choice, np.newaxis] * totals
    return gains[rows, choice], choice, missing_left[rows, choice], sums_left


def _choices_compiled(space: Space, of: _Nodes, parameters: TreeParameters) -> _Choices:
    from unpooled.vertical.trees import kernels

    no_groups = np.zeros((len(of.sums), len(space.every.features)), bool)
    joined = no_groups if of.groups is None else of.groups.missing_joined
    least = np.zeros(len(of.sums)) if of.least is None else of.least
    limits = parameters.l1, parameters.l2, parameters.minimum_child_weight
    nodes = of.sums, of.totals, of.scale, of.scaled, of.base, of.possible, joined, least
    return kernels.choices(*nodes, space.every.owner, space.missing_bin, *limits)


def _missing_moved(
    space: Space,
    sums: Ints,
    scale: Floats,
    groups: Groups | None,
    nodes: Ints,
    features: Ints,
    weight_left: Floats,
) -> tuple[Ints, Floats]:
    """Which splits can have missing values on the left as well, and the sums that these add there.

    Missing values alone on the left are the same as all others there, which the last value's threshold says.
    """
    missing = space.missing_bin.take(features)
    with_missing = (missing >= 0) & (weight_left > 0)
    if groups is not None:
        with_missing &= ~groups.missing_joined[nodes, features]
    (some,) = with_missing.nonzero()
    return some, sums[nodes[some], missing[some]] * scale[nodes[some]]


def _none_missing(space: Space, sums: Ints, groups: Groups | None, features: Ints) -> Bools:
    """Whether a node has no missing values of the feature that it is split by."""
    rows, bins = np.arange(len(sums)), space.missing_bin[features]
    none: Bools = (bins < 0) | ~(sums[rows, bins] != 0).any(axis=1)
    return none if groups is None else none & ~groups.missing_joined[rows, features]


def _possible(space: Space, groups: Groups | None, nodes: int, allowed: Bools | None = None) -> Bools:
    """The thresholds between groups of bins, of the features that are allowed, nodes × logical bins."""
    possible = np.broadcast_to(space.thresholds, (nodes, len(space.thresholds)))
    if groups is not None:
        possible = possible & groups.ends & ~(groups.missing_joined[:, space.every.owner] & space.last_value)
    return possible if allowed is None else possible & allowed[:, space.every.owner]


def splittable(space: Space, groups: Groups | None, nodes: int) -> Bools:
    """The features that nodes can be split by, nodes × features: those with a threshold between groups of bins."""
    found: Bools = np.logical_or.reduceat(_possible(space, groups, nodes), space.every.starts, axis=1)
    return found


def _gains(
    left: Sequence[Floats], whole: Sequence[Floats], base: Floats, parameters: TreeParameters, least: Floats | None
) -> Floats:
    """The gain of each split, minus infinity where a side weighs too little."""
    right = [total - part for total, part in zip(whole, left, strict=True)]
    gains = _score(left, parameters)
    gains += _score(right, parameters)
    gains -= base
    gains *= 0.5
    lightest = np.minimum(left[-1], right[-1])
    too_light = lightest < parameters.minimum_child_weight if parameters.minimum_child_weight else lightest <= 0
    gains[too_light if least is None else too_light | (lightest < least)] = -np.inf
    return gains


def _score(sums: Sequence[Floats], parameters: TreeParameters) -> Floats:
    """G² / (H + l2), summed over the columns of G one after the other, so that its order is fixed."""
    squares = shrunk(sums[0], parameters.l1) ** 2
    for column in sums[1:-1]:
        squares += shrunk(column, parameters.l1) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):  # a side without weight is no side
        squares /= sums[-1] + parameters.l2
    return squares


def shrunk(gradients: Floats, l1: float) -> Floats:
    """Gradients with l1 taken off their absolute value."""
    return gradients if not l1 else np.sign(gradients) * np.maximum(np.abs(gradients) - l1, 0.0)
