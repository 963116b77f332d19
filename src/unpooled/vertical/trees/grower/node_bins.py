"""What is known of the bins of nodes, from the step that asked about them to the one that asks about their children."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ints, Ints32
from unpooled.vertical.trees.bundles import Bins, Layout, to_logical
from unpooled.vertical.trees.grower.min_rows import Groups, covered, merged, shown_bins, whole
from unpooled.vertical.trees.grower.node_rows import (
    Families,
    NodeRows,
    TreeRows,
    bin_counts,
    shown_rows,
    with_room,
)


@dataclass(eq=False)
class ByNode:
    """An array for each step, with a row for each of its nodes or families, which is found again by tree and node.

    Where trees grow level by level, only the last step's is kept (`last_only`). Steps are numbered from 1.
    """

    last_only: bool
    step: Ints32
    place: Ints32
    steps: dict[int, NDArray[Any]] = field(default_factory=dict)
    last: int = 0

    @classmethod
    def of(cls, trees: int, nodes: int, *, last_only: bool) -> Self:
        return cls(last_only, np.zeros((trees, nodes), np.int32), np.zeros((trees, nodes), np.int32))

    def put(self, trees: Ints32, nodes: Ints32, found: NDArray[Any]) -> None:
        """What was found for some nodes, or for each pair of siblings among them."""
        if (most := int(nodes.max(initial=0))) >= self.step.shape[1]:
            self.step, self.place = (with_room(each, most + 1) for each in (self.step, self.place))
        if self.last_only:
            self.steps.clear()
        self.last += 1
        self.steps[self.last] = found
        self.step[trees, nodes] = self.last
        self.place[trees, nodes] = np.arange(len(found), dtype=np.int32).repeat(len(nodes) // len(found))

    def has(self, trees: Ints32, nodes: Ints32) -> bool:
        """Whether all these nodes' are there."""
        return set(np.unique(self.step[trees, nodes]).tolist()) <= set(self.steps)

    def take(self, trees: Ints32, nodes: Ints32) -> NDArray[Any]:
        steps, places = self.step[trees, nodes], self.place[trees, nodes]
        if (steps == steps[0]).all():
            return self.steps[int(steps[0])].take(places, axis=0)
        each = zip(steps.tolist(), places.tolist(), strict=True)
        return np.stack([self.steps[step][place] for step, place in each])


@dataclass(eq=False)
class NodeBins:
    """How the bins of nodes are grouped at a party, and how many rows each has in each bin; with `min_rows` above 1."""

    min_rows: int
    layout: Layout
    ends: ByNode
    joined: ByNode
    counts: ByNode

    @classmethod
    def of(cls, min_rows: int, rows: TreeRows, *, last_only: bool) -> Self:
        each = (ByNode.of(*rows.begins.shape, last_only=last_only) for _ in range(3))
        return cls(min_rows, rows.layout, *each)

    def groups(self, trees: Ints32, nodes: Ints32) -> Groups:
        return Groups(self.ends.take(trees, nodes), self.joined.take(trees, nodes))

    def group(self, families: Families, counts: Ints) -> Groups:
        """Find out how the bins of families are grouped, given how many of the rows asked about are in each bin."""
        layout = self.layout
        by_node = self._counts_of_siblings(families, counts)
        if families.siblings == 1:
            parents = whole(layout, len(families))
        else:
            parents = self.groups(families.trees, families.parents)
        groups = covered(layout, merged(layout, parents, by_node, self.min_rows), by_node, self.min_rows)
        trees, nodes = families.children()
        self.counts.put(trees, nodes, by_node.reshape(len(nodes), -1))
        self.ends.put(trees, nodes, groups.ends)
        self.joined.put(trees, nodes, groups.missing_joined)
        return groups

    def _counts_of_siblings(self, families: Families, counts: Ints) -> Ints:
        """How many rows each node has in each bin, families × siblings × logical bins; given are those asked about."""
        layout = self.layout
        totals = counts[:, : sum(layout.sizes[:1])].sum(axis=1, keepdims=True)  # every column has all rows
        shown = to_logical(layout, counts[..., np.newaxis], totals)[..., 0]
        if families.siblings == 1:
            return shown[:, np.newaxis]
        return beside_siblings(families, shown, self.counts.take(families.trees, families.parents))


def beside_siblings(families: Families, shown: Ints, parents: Ints) -> Ints:
    """What the children asked about have, and in their place what their siblings do: what is left of the parents'."""
    found = np.empty((len(shown), 2, *shown.shape[1:]), shown.dtype)
    every = np.arange(len(shown))
    found[every, families.asked], found[every, 1 - families.asked] = shown, parents - shown
    return found


def asked_bins(trees: TreeRows, bins: NodeBins, families: Families, rows: NodeRows) -> tuple[Bins, Groups | None]:
    """The bins of the rows that families ask about, as they may be shown, and how these are grouped."""
    if bins.min_rows <= 1:
        return trees.columns.take(rows.places, axis=0), None
    groups = bins.group(families, bin_counts(trees, rows))
    return shown_rows(trees, rows, shown_bins(trees.layout, groups).reshape(-1)), groups
