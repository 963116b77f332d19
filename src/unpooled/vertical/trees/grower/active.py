"""The active party's part in growing trees: many at once, so that they share each round trip.

A step is about some nodes of every tree:
1. the passive parties are told on which side the rows of the last splits fell
2. they show sums of the gradients over their bins of one child of each split; the other child has what is left of the
   parent's sums
3. the active party finds each node's best split, and chooses: all of a level, or of each tree the leaf that gains most
4. the owner of the column says on which side the rows of the node fall

No leaf has fewer than `min_rows` rows. Where nodes are hidden nobody can tell beforehand how many rows a split leaves
on a side: one that turns out to leave too few is dropped, and its node stays a leaf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unpooled.arrays import Bools
from unpooled.errors import ProtocolError
from unpooled.secure.product import forget
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import keep_leaves
from unpooled.vertical.trees.checkpoint import grown_from, numbered_from, page_of, splits_from
from unpooled.vertical.trees.grower.context import (
    LEAF,
    GrowerContext,
    GrowingTree,
    GrownTree,
    Node,
    TreeSpec,
    can_split,
)
from unpooled.vertical.trees.grower.histogram import build_histograms, find_splits
from unpooled.vertical.trees.grower.node_rows import (
    OUTSIDE,
    ROOT,
    Families,
    cut,
    move_rows,
    right_totals,
    root_family,
    rows_in_bag,
)
from unpooled.vertical.trees.grower.split_sides import TreeSides, open_splits
from unpooled.vertical.trees.parameters import LgbParameters


def grow(context: GrowerContext, specs: Sequence[TreeSpec]) -> list[GrownTree]:
    """Grow these trees together, or read them from the notebook if they were grown before an interruption."""
    context.team.progress(min(context.groups, context.total), context.total)
    context.groups += 1
    notebook, evidence = context.notebook, context.team.evidence
    if evidence:
        evidence.group = context.groups
    if notebook is not None and context.groups <= context.known:
        page = notebook.read(context.groups - 1)
        context.table, context.numbered, grown = splits_from(page), numbered_from(page), grown_from(page)
    else:
        grown = _grow(context, specs)
        if notebook is not None:
            notebook.write(**page_of(grown, context.table, context.numbered))
    if evidence:
        keep_leaves(evidence, specs, grown)
    return grown


def _grow(context: GrowerContext, specs: Sequence[TreeSpec]) -> list[GrownTree]:
    names = [f"{context.name} {spec.name}" for spec in specs]
    group = messages.Trees(tuple(names), specs[0].y.shape[1])
    context.tell(group)
    if not context.parameters.hide_bags:
        everybody = np.ones(len(context.own.columns), bool)
        bags = [everybody if spec.taking_part is None else spec.taking_part for spec in specs]
        context.tell(messages.Bags(tuple(map(np.packbits, bags)), specs[0].cut))
    growing = [_at_root(context, spec) for spec in specs]
    families = {number: root_family() for number, tree in enumerate(growing) if can_split(context, tree, ROOT)}
    sides: dict[int, Bools] = {}
    while True:
        if families:
            build_histograms(context, group, growing, families, sides)  # 1, 2
            find_splits(context, growing, families)  # 3
        chosen = _choose(context, growing, families)
        if not chosen:
            break
        opened = open_splits(context, growing, chosen)  # 4
        families, sides = _split(context, growing, chosen, opened)
    done = tuple(name for name, spec in zip(names, specs, strict=True) if not spec.reused)
    context.tell(messages.Grown(done))
    if context.helpers:
        forget(context.team.products, done)
    return [GrownTree.of(tree) for tree in growing]


def _at_root(context: GrowerContext, spec: TreeSpec) -> GrowingTree:
    """A tree before its first split."""
    rows = rows_in_bag(context.own, spec.taking_part, context.rows_shown, cut=spec.cut)
    inside = rows.node_of_row != OUTSIDE
    return GrowingTree(spec, rows, [Node(0, int(inside.sum()), spec.y[inside].sum(axis=0))])


def _choose(
    context: GrowerContext, growing: Sequence[GrowingTree], families: Mapping[int, Families]
) -> dict[int, list[int]]:
    """By tree, which nodes are split now: level by level all that gain, leaf by leaf the one that gains most."""
    chosen: dict[int, list[int]] = {}
    if not isinstance(context.parameters, LgbParameters):
        for number, of_tree in families.items():
            if gaining := [node for node in of_tree.nodes() if growing[number].nodes[node].best >= 0]:
                chosen[number] = gaining
        return chosen
    for number, tree in enumerate(growing):
        open_leaves = [place for place, node in enumerate(tree.nodes) if node.first == LEAF and node.best >= 0]
        if open_leaves and tree.leaves < context.parameters.leaves:
            chosen[number] = [max(open_leaves, key=lambda place: (tree.nodes[place].gain, -place))]
    return chosen


def _split(
    context: GrowerContext,
    growing: Sequence[GrowingTree],
    chosen: Mapping[int, list[int]],
    opened: Mapping[int, TreeSides],
) -> tuple[dict[int, Families], dict[int, Bools]]:
    """Make the children; by tree, the families that need histograms next, and the sides of their rows."""
    families: dict[int, Families] = {}
    sides: dict[int, Bools] = {}
    for number, nodes in chosen.items():
        tree, of_tree = growing[number], opened[number]
        _make_children(context, tree, nodes, of_tree)
        following: list[tuple[int, int, int]] = []
        parts: list[Bools] = []
        for node, right in zip(nodes, cut(of_tree.sides, of_tree.counts), strict=True):
            first = tree.nodes[node].first
            if first == LEAF:
                continue
            if tree.nodes[node].owner == context.me:
                context.table.used(tree.nodes[node].split, len(right))
            if can_split(context, tree, first) or can_split(context, tree, first + 1):
                following.append((node, first, int(tree.nodes[first + 1].rows < tree.nodes[first].rows)))
                parts.append(right)
        if following:
            families[number] = Families(*np.array(following, np.int32).T.copy())
            sides[number] = np.concatenate(parts)
    return families, sides


def _make_children(context: GrowerContext, tree: GrowingTree, nodes: Sequence[int], opened: TreeSides) -> None:
    """Two children of each node that has rows enough for both, the rows moved into them, and their totals."""
    firsts, parents, min_rows = list[int](), [tree.nodes[node] for node in nodes], context.parameters.min_rows
    right, counts = right_totals(tree.spec.y, opened.rows, opened.counts, opened.sides)
    left = np.array([parent.totals for parent in parents]) - right
    fits = (left == np.array([parent.left for parent in parents])).all(axis=1)
    if not fits.all():
        teller = context.team.owners[parents[int(fits.argmin())].owner]
        raise ProtocolError(f"invalid SplitSides from {teller}: sides that do not fit the sums that it showed")
    for parent, on_the_left, on_the_right, count in zip(parents, left, right, counts, strict=True):
        if min(count, parent.rows - count) < min_rows:
            parent.best = parent.owner = parent.split = -1
        else:
            parent.first = len(tree.nodes)
            tree.nodes.append(Node(parent.depth + 1, parent.rows - count, on_the_left))
            tree.nodes.append(Node(parent.depth + 1, count, on_the_right))
        firsts.append(parent.first)
    move_rows(tree.rows.node_of_row, opened.rows, opened.counts, opened.sides, np.array(firsts, np.int32))
    tree.leaves += len(nodes)  # splits that were dropped count too: no more are opened than a tree has
