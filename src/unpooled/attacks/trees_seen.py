"""Trees as the messages between the active party and a passive one show them, to both alike.

A passive party is told the node of each row level by level, and knows where its own splits divide a node. With hidden
nodes it is told which splits are asked for, and nothing of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Bools, Ints, Ints32, unpacked
from unpooled.attacks.record import Record
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.bundles import MOST_BINS, Layout
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, ROOT, cut, members
from unpooled.vertical.trees.grower.products import layout_of


@dataclass(frozen=True, eq=False)
class OpenedSplit:
    """A split that a passive party opened: column, last bin on the left, and of some rows who is on the right."""

    feature: int
    place: int
    missing_left: bool
    rows: Ints
    right: Bools


@dataclass(eq=False)
class TreesSeen:
    """By tree the leaf of each row as far as it shows, or -1 for rows outside; opened splits; who takes part.

    `bags` has a tree's rows where the plan shows them, else it is empty. `layout` is that of the passive party's
    columns, `hidden` says that nodes were.
    """

    leaves: list[Ints32] = field(default_factory=list)
    opened: list[OpenedSplit] = field(default_factory=list)
    bags: list[Bools] = field(default_factory=list)
    layout: Layout = field(default_factory=lambda: Layout((), ()))
    hidden: bool = False

    @property
    def groupings(self) -> list[Ints]:
        """How rows are grouped by all that is seen: leaves, or with hidden nodes the sides of the splits asked for."""
        if not self.hidden:
            return [tree.astype(np.int64) for tree in self.leaves]
        return [split.right.astype(np.int64) for split in self.opened]


def trees_seen(record: Record) -> TreesSeen:
    """Follow the messages, tree by tree."""
    seen, rows, growing = TreesSeen(), 0, list[Ints32]()
    asked: messages.SplitRequest | messages.SplitRequestForAll | None = None
    own: list[tuple[int, int, OpenedSplit]] = []
    for _, told in record.entries:
        match told:
            case messages.LentColumns():
                seen.layout = layout_of(told, "a passive party", MOST_BINS)
            case messages.Begin():
                rows = told.rows
            case messages.Trees():
                growing = [np.full(rows, ROOT, np.int32) for _ in told.names]
                own = []
            case messages.Bags():
                bags = [unpacked(bits, rows, "Bags", "the active party") for bits in told.taking_part]
                growing = [np.where(bag, np.int32(ROOT), np.int32(OUTSIDE)) for bag in bags]
                seen.bags += bags
            case messages.Level():
                _follow(growing, told)
            case messages.HiddenLevel():
                seen.hidden = True
            case messages.SplitRequest() | messages.SplitRequestForAll():
                asked = told
            case messages.SplitSides() if isinstance(asked, messages.SplitRequest):
                own += _opened(growing, asked, told)
            case messages.SplitSidesForAll() if isinstance(asked, messages.SplitRequestForAll):
                seen.opened += _opened_for_all(rows, asked, told)
            case messages.Grown():
                for tree, node, split in own:
                    _divide(growing[tree], node, split)
                seen.opened += [split for *_, split in own]
                seen.leaves += growing
    return seen


def _follow(growing: list[Ints32], level: messages.Level) -> None:
    """Move rows into the children that a level tells of; rows outside stay where they are."""
    if level.parents[0] == OUTSIDE:
        return
    trees = np.unique(level.trees).tolist()
    each = [members(growing[tree], level.parents[level.trees == tree]) for tree in trees]
    lengths = np.array([len(rows) for rows, _ in each])
    sides = cut(unpacked(level.sides, int(lengths.sum()), "Level", "the active party"), lengths)
    for tree, (rows, counts), right in zip(trees, each, sides, strict=True):
        growing[tree][rows] = np.repeat(level.firsts[level.trees == tree], counts) + right


def _divide(nodes: Ints32, node: int, split: OpenedSplit) -> None:
    """What a passive party knows of a node that it has split, where nobody told it of the children."""
    if (nodes[split.rows] == node).all():
        nodes[split.rows[split.right]] = nodes.max() + 1


def _opened(
    growing: list[Ints32], asked: messages.SplitRequest, told: messages.SplitSides
) -> list[tuple[int, int, OpenedSplit]]:
    """Tree, node and split of an answer; its bits come tree by tree, node by node."""
    found, begin = [], 0
    each = list(zip(*(part.tolist() for part in (asked.trees, asked.nodes, asked.features, asked.places)), strict=True))
    left = asked.missing_left.tolist()
    bits = np.unpackbits(told.sides).view(bool)
    for tree in dict.fromkeys(asked.trees.tolist()):
        places = [place for place, split in enumerate(each) if split[0] == tree]
        rows, counts = members(growing[tree], asked.nodes[places])
        for place, part in zip(places, cut(rows, counts), strict=True):
            _, node, feature, bin_ = each[place]
            right = bits[begin : begin + len(part)]
            found.append((tree, node, OpenedSplit(feature, bin_, bool(left[place]), part, right)))
            begin += len(part)
    return found


def _opened_for_all(
    rows: int, asked: messages.SplitRequestForAll, told: messages.SplitSidesForAll
) -> list[OpenedSplit]:
    every = np.arange(rows)
    sides = np.unpackbits(told.sides, count=rows * len(asked.features)).view(bool).reshape(-1, rows)
    each = zip(asked.features.tolist(), asked.places.tolist(), asked.missing_left.tolist(), sides, strict=True)
    return [OpenedSplit(feature, place, bool(left), every, right) for feature, place, left, right in each]
