"""The active party's part in growing trees: many at once, so that they share each round trip.

A step looks at some nodes of every tree:
1. the passive parties are told on which side the rows of the last splits fell
2. they show sums of the gradients over their bins of one child of each split; the other child has what is left of the
   parent's sums
3. the active party finds each node's best split, and chooses: all of a level, or of each tree the leaf that gains most
4. whoever has the column says on which side the rows of the node fall
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unpooled.arrays import Bools
from unpooled.errors import ProtocolError
from unpooled.secure.product import forget
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import keep_leaves
from unpooled.vertical.trees.checkpoint import grown_from, page_of, splits_from
from unpooled.vertical.trees.grower.context import LEAF, Ground, Growing, Grown, Node, Seedling, can_split
from unpooled.vertical.trees.grower.histogram import look
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, ROOT, Families, packed, root_family, standing_in_bag
from unpooled.vertical.trees.grower.split_sides import TreeSides, open_splits
from unpooled.vertical.trees.parameters import LgbParameters


def grow(ground: Ground, seedlings: Sequence[Seedling]) -> list[Grown]:
    """Grow these trees together; or take them from the notebook, where they are known from before an interruption."""
    ground.team.progress(min(ground.groups, ground.total), ground.total)
    ground.groups += 1
    if evidence := ground.team.evidence:
        evidence.group = ground.groups
    grown = _grown(ground, seedlings)
    if evidence:
        keep_leaves(evidence, seedlings, grown)
    return grown


def _grown(ground: Ground, seedlings: Sequence[Seedling]) -> list[Grown]:
    if ground.notebook is not None and ground.groups <= ground.known:
        page = ground.notebook.read(ground.groups - 1)
        ground.table, grown = splits_from(page), grown_from(page)
        for tree in grown:
            for owner, split in zip(tree.owner.tolist(), tree.split.tolist(), strict=True):
                ground.numbered[owner] = max(ground.numbered.get(owner, 0), split + 1)
        return grown
    grown = _grow(ground, seedlings)
    if ground.notebook is not None:
        ground.notebook.write(**page_of(grown, ground.table))
    return grown


def _grow(ground: Ground, seedlings: Sequence[Seedling]) -> list[Grown]:
    names = [f"{ground.name} {seedling.name}" for seedling in seedlings]
    trees = messages.Trees(tuple(names), seedlings[0].y.shape[1])
    ground.tell(trees)
    if not ground.parameters.hide_bags:
        everybody = np.ones(len(ground.own.columns), bool)
        parts = [everybody if seedling.taking_part is None else seedling.taking_part for seedling in seedlings]
        ground.tell(messages.Bags(tuple(map(packed, parts)), seedlings[0].cut))
    growing = [_planted(ground, seedling) for seedling in seedlings]
    families = {number: root_family() for number, tree in enumerate(growing) if can_split(ground, tree, ROOT)}
    sides: dict[int, Bools] = {}
    while True:
        if families:
            look(ground, trees, growing, families, sides)  # 1, 2, 3
        chosen = _choose(ground, growing, families)
        if not chosen:
            break
        opened = open_splits(ground, growing, chosen)  # 4
        families, sides = _split(ground, growing, chosen, opened)
    done = tuple(name for name, seedling in zip(names, seedlings, strict=True) if not seedling.serve_again)
    ground.tell(messages.Grown(done))
    if ground.lenders:
        forget(ground.team.products, done)
    return [Grown.of(tree) for tree in growing]


def _planted(ground: Ground, seedling: Seedling) -> Growing:
    """The root, with all rows that take part."""
    standing = standing_in_bag(ground.own, seedling.taking_part, ground.min_rows, cut=seedling.cut)
    inside = standing.where != OUTSIDE
    root = Node(0, int(inside.sum()), seedling.y[inside].sum(axis=0))
    return Growing(seedling, seedling.y, standing, [root])


def _choose(ground: Ground, growing: Sequence[Growing], families: Mapping[int, Families]) -> dict[int, list[int]]:
    """By tree, which nodes are split now: level by level all that gain, leaf by leaf the one that gains most."""
    chosen: dict[int, list[int]] = {}
    if not isinstance(ground.parameters, LgbParameters):
        for number, of_tree in families.items():
            children = [child for first in of_tree.firsts.tolist() for child in range(first, first + of_tree.siblings)]
            if splittable := [child for child in children if growing[number].nodes[child].best >= 0]:
                chosen[number] = splittable
        return chosen
    for number, tree in enumerate(growing):
        open_leaves = [place for place, node in enumerate(tree.nodes) if node.first == LEAF and node.best >= 0]
        if open_leaves and tree.leaves < ground.parameters.leaves:
            chosen[number] = [max(open_leaves, key=lambda place: (tree.nodes[place].gain, -place))]
    return chosen


def _split(
    ground: Ground, growing: Sequence[Growing], chosen: Mapping[int, list[int]], opened: Mapping[int, TreeSides]
) -> tuple[dict[int, Families], dict[int, Bools]]:
    """Make the children, and say which families are to be looked at next, with the sides of their rows."""
    families: dict[int, Families] = {}
    sides: dict[int, Bools] = {}
    for number, nodes in chosen.items():
        tree, of_tree = growing[number], opened[number]
        _make_children(tree, nodes, of_tree, ground.team.owners)
        next_ones: list[tuple[int, int, int]] = []
        parts: list[Bools] = []
        for node, right in zip(nodes, of_tree.by_node(of_tree.sides), strict=True):
            first = tree.nodes[node].first
            if can_split(ground, tree, first) or can_split(ground, tree, first + 1):
                smaller = int(tree.nodes[first + 1].rows < tree.nodes[first].rows)
                next_ones.append((node, first, smaller))
                parts.append(right)
        if next_ones:
            families[number] = Families(*np.array(next_ones, np.int32).T.copy())
            sides[number] = np.concatenate(parts)
    return families, sides


def _make_children(tree: Growing, nodes: Sequence[int], opened: TreeSides, owners: Sequence[str]) -> None:
    """Two children of each node, the rows moved into them, and their totals."""
    begins = np.cumsum([0, *opened.counts[:-1]])
    to_the_right = np.add.reduceat(tree.y[opened.rows] * opened.sides[:, np.newaxis], begins)
    rows_right = np.add.reduceat(opened.sides, begins, dtype=np.int64)
    firsts = len(tree.nodes) + 2 * np.arange(len(nodes))
    tree.where[opened.rows] = np.repeat(firsts, opened.counts) + opened.sides
    for place, node in enumerate(nodes):
        parent, count = tree.nodes[node], int(rows_right[place])
        if parent.left is None or (parent.totals - to_the_right[place] != parent.left).any():
            raise ProtocolError(
                f"invalid SplitSides from {owners[parent.owner]}: sides that do not fit the sums that it showed"
            )
        parent.first = len(tree.nodes)
        tree.nodes.append(Node(parent.depth + 1, parent.rows - count, parent.totals - to_the_right[place]))
        tree.nodes.append(Node(parent.depth + 1, count, to_the_right[place]))
    tree.leaves += len(nodes)
