"""The best split of each node, from sums of whole numbers; ties go to the first feature, and there to the first bin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unpooled.codec import Bools, Floats, Ints
from unpooled.vertical.groups import Groups
from unpooled.vertical.layout import Layout
from unpooled.vertical.parameters import TreeParameters

_ROUNDING = 1e-12  # of the node's own score: a smaller gain is a rounding error


@dataclass(frozen=True)
class Space:
    """The features of all owners side by side, in their listed order."""

    layouts: tuple[Layout, ...]

    @cached_property
    def first_features(self) -> Ints:
        """For each owner its first feature, and at the end how many there are."""
        return np.cumsum([0, *(len(layout.features) for layout in self.layouts)])

    @cached_property
    def features(self) -> int:
        return int(self.first_features[-1])

    @cached_property
    def first_bins(self) -> Ints:
        """For each owner its first logical bin, and at the end how many there are."""
        return np.cumsum([0, *(layout.logical for layout in self.layouts)])

    @cached_property
    def owner_of_bin(self) -> Ints:
        """The feature of each logical bin."""
        shifted = [layout.owner + first for layout, first in zip(self.layouts, self.first_features, strict=False)]
        return np.concatenate([np.empty(0, np.int64), *shifted])

    @cached_property
    def starts(self) -> Ints:
        """The first logical bin of each feature."""
        shifted = [layout.starts + first for layout, first in zip(self.layouts, self.first_bins, strict=False)]
        return np.concatenate([np.empty(0, np.int64), *shifted])

    @cached_property
    def thresholds(self) -> Ints:
        """The logical bins after which a feature can be split: all but the last, missing values apart."""
        places = np.concatenate([np.empty(0, np.int64), *(layout.place for layout in self.layouts)])
        return np.flatnonzero(places < (self._values + self._missing - 1)[self.owner_of_bin])

    @cached_property
    def missing_bins(self) -> Ints:
        """For each threshold the bin of its feature's missing values, -1 if there is none."""
        bins = np.where(self._missing > 0, self.starts + self._values, -1)
        return bins[self.owner_of_bin[self.thresholds]]

    @cached_property
    def after_values(self) -> Bools:
        """For each threshold whether all values are on its left, and only missing ones on its right."""
        last: Ints = (self.starts + self._values - 1)[self.owner_of_bin[self.thresholds]]
        return np.equal(self.thresholds, last)

    @cached_property
    def _values(self) -> Ints:
        return np.array([feature.values for layout in self.layouts for feature in layout.features], np.int64)

    @cached_property
    def _missing(self) -> Ints:
        return np.array([feature.missing for layout in self.layouts for feature in layout.features], np.int64)

    def place_of(self, logical: int) -> tuple[int, int, int]:
        """The owner's number, its feature and the bin within that, of a logical bin."""
        owner = int(np.searchsorted(self.first_bins, logical, side="right")) - 1
        feature = int(self.owner_of_bin[logical])
        return owner, feature - int(self.first_features[owner]), logical - int(self.starts[feature])


@dataclass(frozen=True, eq=False)
class Best:
    """For each node the gain, the logical bin after which it is split (-1: not at all), where missing values go."""

    gains: Floats
    bins: Ints
    missing_left: Bools


def best_splits(
    space: Space,
    sums: Ints,
    totals: Ints,
    exponents: Ints,
    parameters: TreeParameters,
    groups: Groups | None = None,
    allowed: Bools | None = None,
) -> Best:
    """Look at all thresholds of all nodes at once.

    `sums` are nodes × logical bins × columns, `totals` nodes × columns, the last column the weight; `exponents` say by
    which power of two each column of a node was scaled. A split goes between `groups` of bins, for only there sums are
    known; missing values that are joined to the last group go with it. `allowed` are nodes × features.

    Missing values go to the side where that gains more; where none are missing, later ones go where more weight is.
    """
    nodes, (places, owners) = len(sums), (space.thresholds, space.owner_of_bin[space.thresholds])
    if not places.size:
        return Best(np.zeros(nodes), np.full(nodes, -1), np.zeros(nodes, bool))
    running = np.zeros((nodes, sums.shape[1] + 1, sums.shape[2]), np.int64)
    np.cumsum(sums, axis=1, out=running[:, 1:])
    left = running[:, places + 1] - running[:, space.starts[owners]]
    has_missing = np.flatnonzero(space.missing_bins >= 0)
    scale = np.ldexp(1.0, -exponents)
    base = _score(totals, scale, parameters)
    gains = _gains(left, totals, scale, base, parameters)
    missing_left = np.zeros(gains.shape, bool)
    if has_missing.size:
        missing = sums[:, space.missing_bins[has_missing]]
        with_missing = left[:, has_missing] + missing
        other = _gains(with_missing, totals, scale, base, parameters)
        other[left[:, has_missing, -1] <= 0] = -np.inf  # the same as all others on the left, which is a threshold too
        if groups is not None:
            other[groups.missing_joined[:, owners[has_missing]]] = -np.inf
        better = other > gains[:, has_missing]
        missing_left[:, has_missing] = better
        gains[:, has_missing] = np.where(better, other, gains[:, has_missing])
    if groups is not None:
        gains[~groups.ends[:, places] | (groups.missing_joined[:, owners] & space.after_values)] = -np.inf
    if allowed is not None:
        gains[~allowed[:, owners]] = -np.inf
    gains[gains <= np.maximum(parameters.minimum_gain, _ROUNDING * base)[:, np.newaxis]] = -np.inf
    choice = gains.argmax(axis=1)
    rows = np.arange(nodes)
    found = gains[rows, choice] > -np.inf
    chosen_left, goes_left = left[rows, choice], missing_left[rows, choice]
    none_missing = _none_missing(space, sums, choice)
    if groups is not None:
        none_missing &= ~groups.missing_joined[rows, owners[choice]]
    heavier = chosen_left[:, -1] >= totals[:, -1] - chosen_left[:, -1]
    return Best(
        np.where(found, gains[rows, choice], 0.0),
        np.where(found, places[choice], -1),
        np.where(none_missing, heavier, goes_left),
    )


def _none_missing(space: Space, sums: Ints, choice: Ints) -> Bools:
    bins = space.missing_bins[choice]
    present: Bools = (sums[np.arange(len(sums)), bins] != 0).any(axis=1)
    return (bins < 0) | ~present


def _gains(left: Ints, totals: Ints, scale: Floats, base: Floats, parameters: TreeParameters) -> Floats:
    """The gain of each split, minus infinity where a side weighs too little."""
    right = totals[:, np.newaxis] - left
    wide = scale[:, np.newaxis]
    gains = _score(left, wide, parameters) + _score(right, wide, parameters) - base[:, np.newaxis]
    gains *= 0.5
    lightest = np.minimum(left[..., -1], right[..., -1])
    gains[(lightest <= 0) | (lightest * wide[..., -1] < parameters.minimum_child_weight)] = -np.inf
    return gains


def _score(sums: Ints, scale: Floats, parameters: TreeParameters) -> Floats:
    """G² / (H + l2), summed over the columns of G one after the other, so that its order is fixed."""
    weight = sums[..., -1] * scale[..., -1] + parameters.l2
    squares = np.zeros(sums.shape[:-1])
    for column in range(sums.shape[-1] - 1):
        squares += shrunk(sums[..., column] * scale[..., column], parameters.l1) ** 2
    return np.divide(squares, weight, out=np.zeros(squares.shape), where=weight > 0)


def shrunk(gradients: Floats, l1: float) -> Floats:
    """Gradients with l1 taken off their absolute value."""
    return gradients if not l1 else np.sign(gradients) * np.maximum(np.abs(gradients) - l1, 0.0)
