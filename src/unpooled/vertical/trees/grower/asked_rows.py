"""The rows of a product: which of them nodes ask about, and where they are in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ints, Ints32
from unpooled.vertical.trees.grower.node_rows import Families, NodeRows, TreeRows

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class AskedRows:
    """For a product's families: the rows asked about, and which family asks about each.

    Rows come family by family. A product has either a place for each row of its trees, or just one for each that can be
    asked about: `laid_out` and `nodes_in` put them there.
    """

    rows: Ints
    families: Ints32

    def laid_out(self, values: NDArray[T], count: int, *, part: bool) -> NDArray[T]:
        """What the rows asked about have, in a product of so many rows; zero elsewhere."""
        if len(values) == count and part:
            return values
        found = np.zeros((count, *values.shape[1:]), values.dtype)
        found[slice(len(values)) if part else self.rows] = values
        return found

    def nodes_in(self, count: int, *, part: bool) -> Ints32:
        """Which family asks about each row of a product, or -1."""
        return self.laid_out(self.families + np.int32(1), count, part=part) - np.int32(1)


def rows_in_product(trees: TreeRows, families: Families, rows: NodeRows) -> AskedRows:
    """The rows that families ask about, numbered over the trees of a product: those that have families."""
    of_trees, sizes = [tree for tree, _ in families.by_tree], trees.sizes
    begins = np.zeros(trees.trees, np.int64)
    begins[of_trees] = np.cumsum(sizes[of_trees]) - sizes[of_trees]
    return AskedRows(rows.numbers + (begins - trees.starts[:-1])[families.trees].repeat(rows.counts), rows.nodes)


def rows_together(asked: Sequence[AskedRows], shapes: Sequence[tuple[int, int]]) -> AskedRows:
    """What several trees ask about, as if they were one: its rows, and its families, come tree by tree.

    The shapes are how many rows and families each has.
    """
    if len(asked) == 1:
        return asked[0]
    first_rows, first_families = ([0, *accumulate(each)][:-1] for each in zip(*shapes, strict=True))
    rows = [of_tree.rows + first for of_tree, first in zip(asked, first_rows, strict=True)]
    families = [of_tree.families + np.int32(first) for of_tree, first in zip(asked, first_families, strict=True)]
    return AskedRows(np.concatenate(rows), np.concatenate(families))
