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


def asked_of(rows: int) -> int:
    """How many of a tree's rows can be asked about where each node has a sibling: of two the smaller one is."""
    return rows // 2


@dataclass(frozen=True, eq=False)
class AskedRows:
    """For a product's families: the rows asked about, and which family asks about each.

    Rows come family by family. A product has, tree by tree, either a place for each row, or just one for each that can
    be asked about: `laid_out` and `nodes_in` put them there. Of the latter, `places` are those taken, where these are
    not simply the first ones.
    """

    rows: Ints
    families: Ints32
    places: Ints | None = None

    @property
    def needed(self) -> int:
        """How many places a product must have at least, where there is just one for each that can be asked about."""
        return len(self.rows) if self.places is None else int(self.places.max(initial=-1)) + 1

    def laid_out(self, values: NDArray[T], count: int, *, part: bool) -> NDArray[T]:
        """What the rows asked about have, in a product of so many rows; zero elsewhere."""
        if part and self.places is None and len(values) == count:
            return values
        found = np.zeros((count, *values.shape[1:]), values.dtype)
        first = slice(len(values)) if self.places is None else self.places
        found[first if part else self.rows] = values
        return found

    def nodes_in(self, count: int, *, part: bool) -> Ints32:
        """Which family asks about each row of a product, or -1."""
        return self.laid_out(self.families + np.int32(1), count, part=part) - np.int32(1)


def rows_in_product(trees: TreeRows, families: Families, rows: NodeRows) -> AskedRows:
    """The rows that families ask about, numbered over the trees of a product: those that have families."""
    of_trees, sizes = [tree for tree, _ in families.by_tree], trees.sizes
    begins = np.zeros(trees.trees, np.int64)
    begins[of_trees] = np.cumsum(sizes[of_trees]) - sizes[of_trees]
    places = None
    if len(of_trees) > 1:
        asked = [int(rows.counts[some].sum()) for _, some in families.by_tree]
        places = _places(asked, sizes[of_trees].tolist())
    numbers = rows.numbers + (begins - trees.starts[:-1])[families.trees].repeat(rows.counts)
    return AskedRows(numbers, rows.nodes, places)


def _places(asked: Sequence[int], sizes: Sequence[int]) -> Ints:
    """The places of rows asked about, where each tree has one for each of its rows that can be."""
    shifts = np.cumsum([0, *map(asked_of, sizes)])[:-1] - np.cumsum([0, *asked])[:-1]
    found: Ints = np.arange(sum(asked)) + shifts.repeat(asked)
    return found


def rows_together(asked: Sequence[AskedRows], shapes: Sequence[tuple[int, int]]) -> AskedRows:
    """What several trees ask about, as if they were one: its rows, and its families, come tree by tree.

    The shapes are how many rows and families each has.
    """
    if len(asked) == 1:
        return asked[0]
    first_rows, first_families = ([0, *accumulate(each)][:-1] for each in zip(*shapes, strict=True))
    rows = [of_tree.rows + first for of_tree, first in zip(asked, first_rows, strict=True)]
    families = [of_tree.families + np.int32(first) for of_tree, first in zip(asked, first_families, strict=True)]
    places = _places([len(each) for each in rows], [size for size, _ in shapes])
    return AskedRows(np.concatenate(rows), np.concatenate(families), places)
