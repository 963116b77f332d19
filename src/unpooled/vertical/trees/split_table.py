"""The splits that a party's columns are used for: what it keeps of a model, besides how its values become bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Bools, Ints, Ints32
from unpooled.vertical.trees.bundles import Bins, Layout


@dataclass(eq=False)
class SplitTable:
    """Distinct splits in the order of first use: feature, the last bin on the left, whether missing values go left.

    `uses` and `rows` count, for each, the nodes that it split and the rows these had.
    """

    splits: list[tuple[int, int, bool]] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    _numbers: dict[tuple[int, int, bool], int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._numbers = {split: number for number, split in enumerate(self.splits)}

    def number(self, feature: int, place: int, missing_left: bool) -> int:
        """The number of a split, new or known."""
        split = (feature, place, missing_left)
        if split not in self._numbers:
            self._numbers[split] = len(self.splits)
            self.splits.append(split)
            self.uses.append(0)
            self.rows.append(0)
        return self._numbers[split]

    def as_places(self, layout: Layout, numbers: Sequence[int]) -> Ints32:
        """For each number the split's feature, -1 for none, and the places between which bins are on the right."""
        found = np.empty((len(numbers), 3), np.int32)
        for at, number in enumerate(numbers):
            if number == NO_SPLIT:
                found[at] = -1, 0, 0
            else:
                feature, place, missing_left = self.splits[number]
                found[at] = feature, place, layout.features[feature].values if missing_left else 2**16
        return found

    def used(self, number: int, rows: int) -> None:
        self.uses[number] += 1
        self.rows[number] += rows


NO_SPLIT = -1


def right_of(table: SplitTable, layout: Layout, features: Bins, rows: Ints | slice, number: int) -> Bools:
    """Whether rows fall to the right of a split."""
    feature, place, missing_left = table.splits[number]
    bins = features[rows, feature]
    right: Bools = bins > place
    if missing_left:
        right &= bins < layout.features[feature].values
    return right
