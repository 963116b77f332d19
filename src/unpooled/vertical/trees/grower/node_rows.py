"""The rows of a tree while it grows, at any party: the node of each row, and the bins as they may be shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Ints, Ints32
from unpooled.compiled import worthwhile
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.bundles import Bins, Layout, to_logical
from unpooled.vertical.trees.grower.min_rows import Groups, NodeGroups, covered, merged, shown_bins, whole

T = TypeVar("T", bound=np.generic)

OUTSIDE = -1
ROOT = 0
_CELLS_AT_ONCE = 2**20


@dataclass(eq=False)
class TreeRows:
    """One tree: its rows' bins, the node of each row, and by node the groups of bins and how many rows each bin has.

    `min_rows` is the rule for bins that are shown; 1 shows them as they are. `opened` are nodes whose split this party
    has opened, `split` all that it knows to be split; `depths` are those of the nodes whose histograms were asked for,
    and `asked` counts the histograms that were shown.
    """

    own: Binned
    node_of_row: Ints32
    min_rows: int
    groups: dict[int, NodeGroups] = field(default_factory=dict)
    counts: dict[int, Ints] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)
    split: set[int] = field(default_factory=set)
    depths: dict[int, int] = field(default_factory=dict)
    asked: int = 0

    @property
    def layout(self) -> Layout:
        return self.own.layout


@dataclass(frozen=True, eq=False)
class Families:
    """The children of some splits, or the root: the parents, the first child of each, and which child is asked about.

    The other child's histogram is what is left of the parent's.
    """

    parents: Ints32
    firsts: Ints32
    asked: Ints32

    @property
    def siblings(self) -> int:
        return 1 if self.parents.size and self.parents[0] < 0 else 2

    @property
    def asked_nodes(self) -> Ints32:
        return self.firsts + self.asked

    def nodes(self) -> list[int]:
        return [node for first in self.firsts.tolist() for node in range(first, first + self.siblings)]

    def __len__(self) -> int:
        return len(self.firsts)


def root_family() -> Families:
    return Families(np.array([OUTSIDE], np.int32), np.array([ROOT], np.int32), np.array([0], np.int32))


def rows_in_bag(own: Binned, taking_part: Bools | None, min_rows: int, *, cut: bool) -> TreeRows:
    """The rows of a tree before its first split: all, or those that take part; the others are cut off, or outside."""
    if taking_part is not None and cut:
        columns = own.columns[taking_part]
        apart = own.feature_bins is not own.columns
        own = Binned(own.feature_bins[taking_part] if apart else columns, columns, own.layout)
    elif taking_part is not None:
        return TreeRows(own, np.where(taking_part, np.int32(ROOT), np.int32(OUTSIDE)), min_rows)
    return TreeRows(own, np.zeros(len(own.columns), np.int32), min_rows)


def members(node_of_row: Ints32, nodes: Ints32) -> tuple[Ints, Ints]:
    """The rows of some nodes, node by node and in each in the order of rows, and how many each has."""
    if worthwhile(len(node_of_row)):
        from unpooled.vertical.trees import kernels

        return kernels.members(node_of_row, nodes)
    size = max(int(node_of_row.max(initial=0)), int(nodes.max(initial=0))) + 2
    slots = np.full(size, len(nodes), np.min_scalar_type(len(nodes)))  # numpy sorts 16 bits and fewer by counting
    slots[nodes] = np.arange(len(nodes))
    found = slots.take(node_of_row, mode="wrap")  # rows outside, whose node is -1, have the last one
    counts = np.bincount(found, minlength=len(nodes))[: len(nodes)]
    return found.argsort(kind="stable")[: int(counts.sum())], counts


def cut(values: NDArray[T], lengths: Ints) -> list[NDArray[T]]:
    """Views of parts of these lengths, one after the other; quicker than numpy's `split`."""
    each = lengths.tolist()
    return [values[end - length : end] for end, length in zip(accumulate(each), each, strict=True)]


def right_totals(y: Ints, rows: Ints, counts: Ints, sides: Bools) -> tuple[Ints, list[int]]:
    """For nodes that are split, whose rows come node by node: the sums of y on the right, and how many rows are there.

    Every node has rows.
    """
    if worthwhile(rows.size):
        from unpooled.vertical.trees import kernels

        sums, on_the_right = kernels.right_totals(y, rows, counts, sides)
    else:
        begins = np.cumsum(counts) - counts
        sums = np.add.reduceat(y[rows] * sides[:, np.newaxis], begins)
        on_the_right = np.add.reduceat(sides, begins, dtype=np.int64)
    return sums, on_the_right.tolist()


def move_rows(node_of_row: Ints32, rows: Ints, counts: Ints, sides: Bools, firsts: Ints32) -> None:
    """Put the rows of nodes, which come node by node, into their children: `firsts` and the next, or none if -1."""
    if worthwhile(rows.size):
        from unpooled.vertical.trees import kernels

        kernels.move_rows(node_of_row, rows, counts, sides, firsts)
        return
    for first, of_node, right in zip(firsts.tolist(), cut(rows, counts), cut(sides, counts), strict=True):
        if first != OUTSIDE:
            node_of_row[of_node] = first + right


@dataclass(frozen=True, eq=False)
class AskedRows:
    """For a tree's families: the rows asked about, and which family asks about each.

    Rows come family by family. A product has either a place for each row of the tree, or just one for each that can be
    asked about: `laid_out` and `nodes_in` put them there.
    """

    rows: Ints
    families: Ints32

    def places(self, own: Binned) -> Iterator[tuple[slice, Ints]]:
        """The place of each row's bin in each column, among those of all families; in blocks of rows."""
        step = max(_CELLS_AT_ONCE // max(own.columns.shape[1], 1), 1)
        for begin in range(0, len(self.rows), step):
            block = slice(begin, begin + step)
            places = own.columns.take(self.rows[block], axis=0) + own.layout.first_bins
            places += (self.families[block] * np.int64(own.layout.bins))[:, np.newaxis]
            yield block, places

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


def asked_rows(tree: TreeRows, families: Families) -> AskedRows:
    """The rows that the families of a tree ask about."""
    rows, counts = members(tree.node_of_row, families.asked_nodes)
    return AskedRows(rows, np.arange(len(families), dtype=np.int32).repeat(counts))


def group_bins(trees: Sequence[TreeRows], families: Sequence[Families], counts: Sequence[Ints]) -> None:
    """Find out how the bins of the families are grouped, given how many of the rows asked about are in each bin.

    The groups of bins of all trees are found together, which costs little more than those of one.
    """
    layout, min_rows = trees[0].layout, trees[0].min_rows
    by_node = _counts_of_siblings(trees, families, np.concatenate(counts))
    groups = merged(layout, _parents_groups(trees, families), by_node, min_rows)
    groups = covered(layout, groups, by_node, min_rows)
    found = zip(groups.ends, groups.missing_joined, strict=True)
    for tree, of_tree in zip(trees, families, strict=True):
        for first in of_tree.firsts.tolist():
            tree.groups |= dict.fromkeys(range(first, first + of_tree.siblings), next(found))


def asked_bins(trees: Sequence[TreeRows], families: Sequence[Families]) -> list[tuple[AskedRows, Bins]]:
    """The rows that the families of each tree ask about, and their bins as they may be shown."""
    asked = [asked_rows(tree, of_tree) for tree, of_tree in zip(trees, families, strict=True)]
    if trees[0].min_rows <= 1:
        return [(rows, tree.own.columns.take(rows.rows, axis=0)) for tree, rows in zip(trees, asked, strict=True)]
    each = list(zip(trees, families, asked, strict=True))
    group_bins(trees, families, [bin_counts(tree.own, rows, len(of_tree)) for tree, of_tree, rows in each])
    tables = shown_bins(trees[0].layout, family_groups(trees, families))
    found, begin = [], 0
    for tree, of_tree, rows in each:
        of_families = tables[begin : begin + len(of_tree)].reshape(-1)
        found.append((rows, _shown(tree.own, rows, of_families)))
        begin += len(of_tree)
    return found


def _shown(own: Binned, asked: AskedRows, tables: Bins) -> Bins:
    """The bins of the rows asked about, as the tables of the families say, one after the other."""
    if worthwhile(len(asked.rows) * own.columns.shape[1]):
        from unpooled.vertical.trees import kernels

        return kernels.shown(own.columns, own.layout.first_bins, asked.rows, asked.families, own.layout.bins, tables)
    found = np.empty((len(asked.rows), own.columns.shape[1]), tables.dtype)
    for block, places in asked.places(own):
        tables.take(places, out=found[block])
    return found


def family_groups(trees: Sequence[TreeRows], families: Collection[Families]) -> Groups:
    """How the bins of each family's nodes are grouped."""
    each = zip(trees, families, strict=True)
    return Groups.of([tree.groups[first] for tree, of_tree in each for first in of_tree.firsts.tolist()])


def leaf_sums(leaf_of_row: Ints, nodes: int, values: Ints) -> Ints:
    """Sums of the rows of each leaf, nodes × columns; inner nodes have zero."""
    inside = leaf_of_row != OUTSIDE
    sums = np.zeros((nodes, values.shape[1]), np.int64)
    np.add.at(sums, leaf_of_row[inside], values[inside])
    return sums


def bin_sums(own: Binned, asked: AskedRows, count: int, y: Ints) -> tuple[Ints, Ints]:
    """The sums of y over the rows asked about, families × bins × columns of y, and how many rows these are."""
    rows, bins, width = asked.rows, own.layout.bins, own.columns.shape[1]
    if worthwhile(len(rows) * width):
        from unpooled.vertical.trees import kernels

        sums, counts = kernels.bin_sums(own.columns, own.layout.first_bins, rows, asked.families, bins, count, y)
    else:  # numpy adds in floating point, which is exact up to 2^53
        sums, counts = np.zeros((count * bins, y.shape[1]), np.int64), np.zeros(count * bins, np.int64)
        for block, places in asked.places(own):
            at = places.reshape(-1)
            for k in range(y.shape[1]):
                values = y[:, k].take(rows[block]).astype(float).repeat(width)
                sums[:, k] += np.bincount(at, values, len(sums)).astype(np.int64)
            counts += np.bincount(at, minlength=len(counts))
    return sums.reshape(count, bins, y.shape[1]), counts.reshape(count, bins)


def bin_counts(own: Binned, asked: AskedRows, count: int) -> Ints:
    """How many of the rows asked about there are, by family and bin: families × bins."""
    bins = own.layout.bins
    if worthwhile(len(asked.rows) * own.columns.shape[1]):
        from unpooled.vertical.trees import kernels

        counts = kernels.bin_counts(own.columns, own.layout.first_bins, asked.rows, asked.families, bins, count)
    else:
        counts = np.zeros(count * bins, np.int64)
        for _, places in asked.places(own):
            counts += np.bincount(places.reshape(-1), minlength=len(counts))
    return counts.reshape(count, bins)


def _counts_of_siblings(trees: Sequence[TreeRows], families: Sequence[Families], counts: Ints) -> Ints:
    """How many rows each node has in each bin, families × siblings × logical bins; `counts` are those asked about."""
    layout, every, siblings = trees[0].layout, np.arange(len(counts)), families[0].siblings
    totals = counts[:, : sum(layout.sizes[:1])].sum(axis=1, keepdims=True)  # every column has all rows
    shown = to_logical(layout, counts[..., np.newaxis], totals)[..., 0]
    by_node, each = shown[:, np.newaxis], list(zip(trees, families, strict=True))
    if siblings == 2:
        parents = [tree.counts.pop(parent) for tree, of_tree in each for parent in of_tree.parents.tolist()]
        asked = np.concatenate([of_tree.asked for of_tree in families])
        by_node = np.empty((len(counts), 2, layout.logical), np.int64)
        by_node[every, asked], by_node[every, 1 - asked] = shown, np.array(parents) - shown
    found = iter(by_node)
    for tree, of_tree in each:
        for first in of_tree.firsts.tolist():
            tree.counts.update(enumerate(next(found), first))
    return by_node


def _parents_groups(trees: Sequence[TreeRows], families: Sequence[Families]) -> Groups:
    if families[0].siblings == 1:
        return whole(trees[0].layout, len(families))
    each = zip(trees, families, strict=True)
    return Groups.of([tree.groups[parent] for tree, of_tree in each for parent in of_tree.parents.tolist()])
