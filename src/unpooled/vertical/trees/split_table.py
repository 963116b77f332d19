"""The splits that a party's columns are used for: what it keeps of a model, besides how its values become bins."""

from __future__ import annotations

from dataclasses import dataclass, field

from unpooled.arrays import Bools, Ints
from unpooled.compiled import worthwhile
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

    def used(self, number: int, rows: int) -> None:
        self.uses[number] += 1
        self.rows[number] += rows


def right_of(table: SplitTable, layout: Layout, features: Bins, rows: Ints | slice, number: int) -> Bools:
    """Whether rows fall to the right of a split."""
    feature, place, missing_left = table.splits[number]
    if not isinstance(rows, slice) and worthwhile(len(rows)):
        from unpooled.vertical.trees import kernels

        end = layout.features[feature].values if missing_left else 2**16
        return kernels.right_of(features, rows, feature, place, end)
    bins = features[rows, feature]
    right: Bools = bins > place
    if missing_left:
        right &= bins < layout.features[feature].values
    return right
