"""The rows of trees that grow together, at any party: which of them each node has, and sums over their bins.

Rows are numbered over all trees: first those of the first tree, then those of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Ints, Ints32
from unpooled.compiled import worthwhile
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.bundles import Bins, Layout
from unpooled.vertical.trees.split_table import NO_SPLIT, SplitTable, right_of

T = TypeVar("T", bound=np.generic)
RowNumbers = NDArray[np.signedinteger[Any]]

OUTSIDE = -1
ROOT = 0
_CELLS_AT_ONCE = 2**20
_WORD_BITS, _FEWEST_AT_ONCE, _MOST_AT_ONCE = 64, 2**5, 2**12


@dataclass(eq=False)
class TreeRows:
    """The rows of trees that grow together, tree by tree, in each node by node, and there in their order (`order`).

    `starts` says where the rows of each tree begin, and where the last ones end; `begins` and `counts`, trees × nodes,
    where a node's rows are in `order`, and how many these are: none if it was split, or there is no such node.
    `columns` and `features` have the bins of the table's rows; or, where rows that take no part were `cut`, those of
    the rows of one tree after the other. `source` then says which of the table's rows they are.
    """

    columns: Bins
    features: Bins
    layout: Layout
    starts: Ints
    order: RowNumbers
    begins: Ints
    counts: Ints
    source: Ints | None = None

    @property
    def trees(self) -> int:
        return len(self.begins)

    @cached_property
    def sizes(self) -> Ints:
        """How many rows each tree has, also those outside."""
        return np.diff(self.starts)

    @cached_property
    def shifts(self) -> Ints:
        """What a row's number is more than its place among the bins, by tree."""
        return self.starts[:-1] if self.source is None else np.zeros(self.trees, np.int64)

    def of(self, trees: Ints32, nodes: Ints32) -> NodeRows:
        return NodeRows(self.order, self.begins[trees, nodes], self.counts[trees, nodes], self.shifts[trees])

    def of_tree(self, tree: int) -> slice:
        return slice(int(self.starts[tree]), int(self.starts[tree + 1]))

    def make_room(self, nodes: int) -> None:
        """Have room for so many nodes in each tree."""
        if nodes > self.begins.shape[1]:
            self.begins, self.counts = (with_room(each, nodes) for each in (self.begins, self.counts))

    def split(self, rows: NodeRows, trees: Ints32, nodes: Ints32, firsts: Ints32, sides: Bools) -> None:
        """Move the rows of nodes into their children: the first one has those on the left."""
        right = _moved_apart(rows, sides)
        left = rows.counts - right
        self.begins[trees, firsts], self.begins[trees, firsts + 1] = rows.begins, rows.begins + left
        self.counts[trees, firsts], self.counts[trees, firsts + 1] = left, right
        self.counts[trees, nodes] = 0

    def nodes_of_rows(self) -> list[Ints32]:
        """For each tree the node of each row, or outside."""
        trees, nodes = np.nonzero(self.counts)
        inside = np.argsort(self.begins[trees, nodes])
        found = np.full(int(self.starts[-1]), OUTSIDE, np.int32)
        found[self.order] = nodes[inside].astype(np.int32).repeat(self.counts[trees, nodes][inside])
        return np.split(found, self.starts[1:-1])


@dataclass(frozen=True, eq=False)
class NodeRows:
    """The rows of some nodes, node by node, as parts of `order`; `shifts` are those of their trees.

    What is taken from `order` is only there until rows are moved.
    """

    order: RowNumbers
    begins: Ints
    counts: Ints
    shifts: Ints

    def __len__(self) -> int:
        return int(self.counts.sum())

    def part(self, some: slice) -> NodeRows:
        """Those of some of the nodes."""
        if some == slice(0, len(self.counts)):
            return self
        return NodeRows(self.order, self.begins[some], self.counts[some], self.shifts[some])

    @cached_property
    def numbers(self) -> RowNumbers:
        ends = self.counts.cumsum()
        places = (self.begins - ends + self.counts).repeat(self.counts)
        places += np.arange(len(places))
        found: RowNumbers = self.order[places]
        return found

    @cached_property
    def nodes(self) -> Ints32:
        """Which of the nodes has each row."""
        return np.arange(len(self.counts), dtype=np.int32).repeat(self.counts)

    @cached_property
    def places(self) -> RowNumbers:
        """Where the bins of each row are."""
        return self.numbers - self.shifts.repeat(self.counts)

    def bins(self, columns: Bins, layout: Layout) -> Iterator[tuple[slice, Ints]]:
        """The place of each row's bin in each column, among those of all nodes; in blocks of rows."""
        step = max(_CELLS_AT_ONCE // max(columns.shape[1], 1), 1)
        for begin in range(0, len(self), step):
            block = slice(begin, begin + step)
            places = columns.take(self.places[block], axis=0) + layout.first_bins
            places += (self.nodes[block] * np.int64(layout.bins))[:, np.newaxis]
            yield block, places


@dataclass(frozen=True, eq=False)
class Families:
    """The children of some splits, or roots: their trees, the parents, first children, and which child is asked about.

    The other child's histogram is what is left of the parent's. Families come tree by tree.
    """

    trees: Ints32
    parents: Ints32
    firsts: Ints32
    asked: Ints32

    @property
    def siblings(self) -> int:
        return 1 if self.parents.size and self.parents[0] < 0 else 2

    @property
    def asked_nodes(self) -> Ints32:
        return self.firsts + self.asked

    def children(self) -> tuple[Ints32, Ints32]:
        """The trees and numbers of all children, family by family."""
        if self.siblings == 1:
            return self.trees, self.firsts
        nodes = self.firsts.repeat(2)
        nodes[1::2] += np.int32(1)
        return self.trees.repeat(2), nodes

    @cached_property
    def by_tree(self) -> list[tuple[int, slice]]:
        """Each tree, and which of the families are its own."""
        trees = self.trees.tolist()
        begins = [place for place, tree in enumerate(trees) if not place or tree != trees[place - 1]]
        return [(trees[begin], slice(begin, end)) for begin, end in pairwise([*begins, len(trees)])]

    def shapes(self, sizes: Ints) -> list[tuple[int, int]]:
        """Of each tree its rows, given how many all have, and families."""
        return [(int(sizes[tree]), some.stop - some.start) for tree, some in self.by_tree]

    def __getitem__(self, part: slice) -> Families:
        return Families(self.trees[part], self.parents[part], self.firsts[part], self.asked[part])

    def __len__(self) -> int:
        return len(self.firsts)


def root_families(trees: Ints32) -> Families:
    nothing = np.zeros(len(trees), np.int32)
    return Families(trees, nothing + np.int32(OUTSIDE), nothing + np.int32(ROOT), nothing)


def no_families() -> Families:
    return root_families(np.empty(0, np.int32))


def with_room(by_node: NDArray[T], nodes: int, fill: float = 0) -> NDArray[T]:
    """What trees × nodes have, with room for so many nodes, and for twice as many as before."""
    trees, before, *width = by_node.shape
    found: NDArray[T] = np.full((trees, max(nodes, 2 * before), *width), fill, by_node.dtype)
    found[:, :before] = by_node
    return found


def rows_in_bags(own: Binned, parts: Sequence[Bools | None], nodes: int, *, cut: bool) -> TreeRows:
    """The rows of trees before their first split: all, or those that take part; the others are cut off, or outside."""
    count, source = len(own.columns), None
    columns, features = own.columns, own.feature_bins
    inside = [np.arange(count) if part is None else np.flatnonzero(part) for part in parts]
    sizes = np.array([len(rows) for rows in inside])
    cut = cut and any(part is not None for part in parts)
    starts = np.cumsum([0, *sizes]) if cut else count * np.arange(len(parts) + 1)
    number = np.int32 if starts[-1] <= np.iinfo(np.int32).max else np.int64
    if cut:
        source = np.concatenate(inside)
        columns = own.columns.take(source, axis=0)
        features = columns if own.feature_bins is own.columns else own.feature_bins.take(source, axis=0)
        order: RowNumbers = np.arange(len(source), dtype=number)
    else:
        each = zip(inside, starts[:-1].tolist(), strict=True)
        order = np.concatenate([(rows + start).astype(number) for rows, start in each])
    begins, counts = (np.zeros((len(parts), nodes), np.int64) for _ in range(2))
    begins[:, ROOT], counts[:, ROOT] = np.cumsum(sizes) - sizes, sizes
    return TreeRows(columns, features, own.layout, starts, order, begins, counts, source)


def members(node_of_row: Ints32, nodes: Ints32) -> tuple[Ints, Ints]:
    """The rows of some nodes, node by node and in each in the order of rows, and how many each has."""
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


def _moved_apart(rows: NodeRows, sides: Bools) -> Ints:
    """Move each node's rows on the left to the front of it; how many are on the right."""
    if worthwhile(len(sides)):
        from unpooled.vertical.trees import kernels

        return kernels.move_apart(rows.order, rows.begins, rows.counts, sides)
    keys = rows.nodes * np.int32(2) + sides
    slots = keys.astype(np.min_scalar_type(2 * len(rows.counts)))  # numpy sorts 16 bits and fewer by counting
    moved = rows.numbers[slots.argsort(kind="stable")]
    for begin, of_node in zip(rows.begins.tolist(), cut(moved, rows.counts), strict=True):
        rows.order[begin : begin + len(of_node)] = of_node
    return np.bincount(keys, minlength=2 * len(rows.counts))[1::2]


def right_totals(y: Ints32, rows: NodeRows, sides: Bools) -> tuple[Ints, Ints]:
    """For nodes that are split: the sums of y on the right, and how many rows are there. Every node has rows."""
    if worthwhile(len(sides)):
        from unpooled.vertical.trees import kernels

        return kernels.right_totals(y, rows.order, rows.begins, rows.counts, sides)
    begins = np.cumsum(rows.counts) - rows.counts
    sums = np.add.reduceat(y[rows.numbers] * sides[:, np.newaxis].astype(np.int64), begins)
    return sums, np.add.reduceat(sides, begins, dtype=np.int64)


def fill_sides(table: SplitTable, trees: TreeRows, rows: NodeRows, numbers: Sequence[int], sides: Bools) -> None:
    """The sides of the rows of several nodes, which come node by node; a node without a split keeps what it has."""
    if worthwhile(len(sides)):
        from unpooled.vertical.trees import kernels

        splits = table.as_places(trees.layout, numbers)
        kernels.right_of(trees.features, rows.order, rows.begins, rows.counts, rows.shifts, splits, sides)
        return
    for number, places, of_node in zip(numbers, cut(rows.places, rows.counts), cut(sides, rows.counts), strict=True):
        if number != NO_SPLIT:
            of_node[:] = right_of(table, trees.layout, trees.features, places, number)


def asked_rows(trees: TreeRows, families: Families) -> NodeRows:
    """The rows that families ask about."""
    return trees.of(families.trees, families.asked_nodes)


def bin_sums(trees: TreeRows, rows: NodeRows, y: Ints32, value_bits: int) -> tuple[Ints, Ints]:
    """The sums of y over the rows of some nodes, nodes × bins × columns of y, and how many rows these are.

    Values of y are below 2^`value_bits`.
    """
    bins, count, width = trees.layout.bins, len(rows.counts), y.shape[1]
    if worthwhile(len(rows) * trees.columns.shape[1]):
        from unpooled.vertical.trees import kernels

        parts = rows.order, rows.begins, rows.counts, rows.shifts
        at_once, bits = _at_once(value_bits)
        firsts = trees.layout.first_bins.view(np.uint64)
        if at_once and width == 2:
            sums, counts = kernels.bin_sums_of_pairs(trees.columns, firsts, *parts, bins, y, at_once, *bits)
        else:
            sums, counts = kernels.bin_sums(trees.columns, firsts, *parts, bins, y)
    else:  # numpy adds in floating point, which is exact up to 2^53
        sums, counts = np.zeros((count * bins, width), np.int64), np.zeros(count * bins, np.int64)
        for block, places in rows.bins(trees.columns, trees.layout):
            at = places.reshape(-1)
            for k in range(width):
                values = y[:, k].take(rows.numbers[block]).astype(float).repeat(places.shape[1])
                sums[:, k] += np.bincount(at, values, len(sums)).astype(np.int64)
            counts += np.bincount(at, minlength=len(counts))
    return sums.reshape(count, bins, width), counts.reshape(count, bins)


def _at_once(value_bits: int) -> tuple[int, tuple[int, int]]:
    """Of how many rows two sums and the count fit into one word, 0 if of too few; and the bits below each sum."""
    rows = (_WORD_BITS - 2 * (value_bits + 1) - 1) // 3  # in bits
    at_once = min(1 << max(rows, 0), _MOST_AT_ONCE)
    return (at_once if at_once >= _FEWEST_AT_ONCE else 0), (value_bits + 2 * rows + 2, rows + 1)


def bin_counts(trees: TreeRows, rows: NodeRows) -> Ints:
    """How many rows of some nodes are in each bin, nodes × bins."""
    bins, count = trees.layout.bins, len(rows.counts)
    if worthwhile(len(rows) * trees.columns.shape[1]):
        from unpooled.vertical.trees import kernels

        firsts, parts = trees.layout.first_bins.view(np.uint64), (rows.order, rows.begins, rows.counts, rows.shifts)
        counts = kernels.bin_counts(trees.columns, firsts, *parts, bins)
    else:
        counts = np.zeros(count * bins, np.int64)
        for _, places in rows.bins(trees.columns, trees.layout):
            counts += np.bincount(places.reshape(-1), minlength=len(counts))
    return counts.reshape(count, bins)


def shown_rows(trees: TreeRows, rows: NodeRows, tables: Bins) -> Bins:
    """The bins of rows in all columns, as the tables of their nodes show them, one after the other."""
    if worthwhile(len(rows) * trees.columns.shape[1]):
        from unpooled.vertical.trees import kernels

        firsts, parts = trees.layout.first_bins.view(np.uint64), (rows.order, rows.begins, rows.counts, rows.shifts)
        return kernels.shown(trees.columns, firsts, *parts, trees.layout.bins, tables)
    found = np.empty((len(rows), trees.columns.shape[1]), tables.dtype)
    for block, places in rows.bins(trees.columns, trees.layout):
        tables.take(places, out=found[block])
    return found


def leaf_sums(leaf_of_row: Ints, nodes: int, values: Ints) -> Ints:
    """Sums of the rows of each leaf, nodes × columns; inner nodes have zero."""
    places = leaf_of_row.astype(np.int64) - OUTSIDE
    columns = np.ascontiguousarray(values.T.astype(float))  # numpy adds in floating point, which is exact up to 2^53
    sums = [np.bincount(places, column, nodes + 1)[1:].astype(np.int64) for column in columns]
    return np.stack(sums, axis=1)
