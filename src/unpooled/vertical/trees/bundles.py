"""How a party's features lie in bins: all that others learn of them, and how sums over sent bins become each feature's.

A *feature* has bins for its values, in order, and if values were missing in training one more, the last, for those. A
*column* is what is multiplied: the bins of one feature, or a bundle of several that are never away from their usual bin
in the same row. Bin 0 of a bundle says that all its features are in their usual bin; after it come, feature by feature,
the other bins. *Logical bins* are those of all features, one feature after the other.

>>> hot = Feature(values=2, missing=False, usual=0)
>>> layout = Layout((hot, Feature(values=3, missing=True, usual=1), hot), ((0, 2), (1,)))
>>> layout.sizes, layout.bins, layout.logical
((3, 4), 7, 8)
>>> to_physical_bins(layout, np.array([[0, 1, 0], [1, 3, 0], [0, 2, 1]], np.uint16)).tolist()
[[0, 1], [1, 3], [2, 2]]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Ints
from unpooled.errors import InputError

Bins = NDArray[np.unsignedinteger]

MOST_BINS = 2**16 - 1
"""A column's largest number of bins: 65535 marks a missing value that has no bin."""


_IN_A_BYTE = 256


@dataclass(frozen=True)
class Feature:
    """One feature's bins; `usual` is the most frequent one in training, which matters only inside a bundle."""

    values: int
    missing: bool
    usual: int

    @property
    def size(self) -> int:
        """How many bins it has, that for missing values included."""
        return self.values + self.missing


@dataclass(frozen=True)
class Layout:
    """A party's features, and for each column the features in it: all that a peer learns before training."""

    features: tuple[Feature, ...]
    bundles: tuple[tuple[int, ...], ...]

    def check(self) -> None:
        """Refuse an impossible layout."""
        for number, feature in enumerate(self.features):
            if not 1 <= feature.values <= MOST_BINS - feature.missing:
                raise InputError(f"layout: feature {number} must have 1 to {MOST_BINS} bins")
            if not 0 <= feature.usual < feature.size:
                raise InputError(f"layout: the usual bin of feature {number} is none of its bins")
        if sorted(number for bundle in self.bundles for number in bundle) != list(range(len(self.features))):
            raise InputError("layout: every feature must be in exactly one column")
        if not all(self.bundles):
            raise InputError("layout: a column has no feature")
        if any(size > MOST_BINS for size in self.sizes):
            raise InputError(f"layout: a column has more than {MOST_BINS} bins")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many bins each column has."""
        features = self.features
        return tuple(
            features[bundle[0]].size if len(bundle) == 1 else 1 + sum(features[number].size - 1 for number in bundle)
            for bundle in self.bundles
        )

    @cached_property
    def first_bins(self) -> Ints:
        """The first bin of each column among those of all."""
        return _fixed([0, *accumulate(self.sizes)][:-1])

    @cached_property
    def bins(self) -> int:
        """The bins of all columns."""
        return sum(self.sizes)

    @cached_property
    def logical(self) -> int:
        """The bins of all features."""
        return sum(feature.size for feature in self.features)

    @cached_property
    def values(self) -> Ints:
        """How many bins each feature has for values."""
        return _fixed([feature.values for feature in self.features])

    @cached_property
    def missing(self) -> Bools:
        """Whether each feature has a bin for missing values."""
        return np.array([feature.missing for feature in self.features], bool)

    @cached_property
    def alone(self) -> bool:
        """Whether every feature has its column, in order, so that logical bins are those of the columns."""
        return all(bundle == (number,) for number, bundle in enumerate(self.bundles))

    @cached_property
    def starts(self) -> Ints:
        """The first logical bin of each feature."""
        return _fixed([0, *accumulate(feature.size for feature in self.features)][:-1])

    @cached_property
    def owner(self) -> Ints:
        """The feature of each logical bin."""
        return _fixed(np.repeat(np.arange(len(self.features)), [feature.size for feature in self.features]))

    @cached_property
    def place(self) -> Ints:
        """The place of each logical bin within its feature."""
        return _fixed(np.arange(self.logical) - self.starts[self.owner])

    @cached_property
    def shared(self) -> Ints:
        """The features that share their column with others."""
        return _fixed(sorted(number for bundle in self.bundles if len(bundle) > 1 for number in bundle))

    @cached_property
    def usual(self) -> Ints:
        """The logical bin that is the usual one of each feature."""
        return _fixed(self.starts + np.array([feature.usual for feature in self.features], np.int64))

    @cached_property
    def inside(self) -> Ints:
        """For each logical bin its bin within its column, from 0."""
        found = self.place.copy()
        for bundle in self.bundles:
            if len(bundle) > 1:
                following = 1
                for number in bundle:
                    feature, start = self.features[number], self.starts[number]
                    rising = np.arange(feature.size)
                    codes = following + rising - (rising > feature.usual)
                    codes[feature.usual] = 0
                    found[start : start + feature.size] = codes
                    following += feature.size - 1
        return _fixed(found)

    @cached_property
    def physical(self) -> Ints:
        """For each logical bin its place among the bins of all columns; usual bins in a bundle are at its bin 0."""
        first = np.zeros(len(self.features), np.int64)
        for bundle, end, size in zip(self.bundles, accumulate(self.sizes), self.sizes, strict=True):
            first[list(bundle)] = end - size
        return _fixed(first[self.owner] + self.inside)


def narrow(sizes: Iterable[int]) -> type[np.unsignedinteger]:
    """What the bins of training rows are kept in, by how many bins columns have: a byte wherever that is enough."""
    return np.uint8 if max(sizes, default=0) <= _IN_A_BYTE else np.uint16


def to_logical(layout: Layout, sums: Ints, totals: Ints) -> Ints:
    """Sums by node and bin of the columns as sums by node and logical bin; `totals` are those of the nodes.

    The usual bin of a feature in a bundle has what the node has and the feature's other bins have not.
    """
    if layout.alone:
        return sums
    found = sums.take(layout.physical, axis=1)
    if len(layout.shared):
        usual = layout.usual[layout.shared]
        found[:, usual] = 0
        found[:, usual] = totals[:, np.newaxis] - np.add.reduceat(found, layout.starts, axis=1)[:, layout.shared]
    return found


def to_physical_bins(layout: Layout, feature_bins: Bins) -> Bins:
    """The bins of training rows by feature as bins by column."""
    if layout.alone:
        return feature_bins
    columns = np.zeros((len(feature_bins), len(layout.bundles)), narrow(layout.sizes))
    for place, bundle in enumerate(layout.bundles):
        if len(bundle) == 1:
            columns[:, place] = feature_bins[:, bundle[0]]
            continue
        column = np.zeros(len(feature_bins), columns.dtype)
        for number in bundle:
            feature, start = layout.features[number], layout.starts[number]
            codes = layout.inside[start : start + feature.size].astype(columns.dtype)
            bins = feature_bins[:, number]
            away = np.flatnonzero(bins != feature.usual)
            if column[away].any():
                raise InputError("layout: two features of a bundle are away from their usual bins in the same row")
            column[away] = codes[bins[away]]
        columns[:, place] = column
    return columns


def _fixed(values: list[int] | Ints) -> Ints:
    array = np.array(values, np.int64)
    array.setflags(write=False)
    return array
