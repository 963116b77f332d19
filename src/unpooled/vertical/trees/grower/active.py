"""The active party's part in growing trees: many at once, so that they share each round trip.

A step is about some nodes of every tree:
1. the passive parties are told on which side the rows of the last splits fell
2. they show sums of the gradients over their bins of one child of each split; the other child has what is left of the
   parent's sums
3. the active party finds each node's best split, and chooses: all of a level, or of each tree the leaf that gains most
4. the owner of the column says on which side the rows of the node fall

Where it would wait for an answer, growing yields: with hidden nodes other groups of trees go on meanwhile (`turns`).

No leaf has fewer than `min_rows` rows. Where nodes are hidden nobody can tell beforehand how many rows a split leaves
on a side: one that turns out to leave too few is dropped, and its node stays a leaf.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

import numpy as np

from unpooled.arrays import Bools, Ints32
from unpooled.errors import ProtocolError
from unpooled.secure.evidence import Evidence
from unpooled.secure.product import forget
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import keep_leaves
from unpooled.vertical.trees.checkpoint import grown_from, page_of
from unpooled.vertical.trees.grower.context import (
    LEAF,
    GrowerContext,
    GrowingTrees,
    GrownTree,
    TreeSpec,
    can_split,
)
from unpooled.vertical.trees.grower.histogram import build_histograms, find_splits
from unpooled.vertical.trees.grower.node_rows import ROOT, Families, right_totals, root_families
from unpooled.vertical.trees.grower.split_sides import OpenedSplits, open_splits
from unpooled.vertical.trees.parameters import LgbParameters


def grow(context: GrowerContext, specs: Sequence[TreeSpec], number: int) -> Generator[None, None, list[GrownTree]]:
    """Grow a group of trees, or read it from the notebook if it was grown before an interruption."""
    context.team.progress(min(context.groups, context.total), context.total)
    context.groups += 1
    notebook, evidence = context.notebook, context.team.evidence
    if notebook is not None and number in context.known:
        grown = grown_from(notebook.read(context.known[number]))
    else:
        grown = yield from _as_group(evidence, number, _grow(context, specs, number))
        if notebook is not None:  # the page is as things stand now, whenever it is written
            page = page_of(number, grown, context.table, context.numbered)
            context.later.append(partial(notebook.write, **page))
    if evidence:
        context.later.append(partial(keep_leaves, evidence, number, specs, grown))
    return grown


def _as_group(
    evidence: Evidence | None, number: int, growing: Generator[None, None, list[GrownTree]]
) -> Generator[None, None, list[GrownTree]]:
    """The same; in each of its turns evidence is about this group."""
    while True:
        if evidence:
            evidence.group = number
        try:
            next(growing)
        except StopIteration as end:
            grown: list[GrownTree] = end.value
            return grown
        yield


def _grow(context: GrowerContext, specs: Sequence[TreeSpec], number: int) -> Generator[None, None, list[GrownTree]]:
    names = [f"{context.name} {spec.name}" for spec in specs]
    group = messages.Trees(number, tuple(names), specs[0].y.shape[1])
    context.tell(group, more=True)
    if not context.parameters.hide_bags:
        everybody = np.ones(len(context.own.columns), bool)
        bags = [everybody if spec.taking_part is None else spec.taking_part for spec in specs]
        context.tell(messages.Bags(tuple(map(np.packbits, bags)), specs[0].cut), more=True)
    growing = GrowingTrees.at_roots(context, specs)
    trees = np.arange(len(specs), dtype=np.int32)
    families = root_families(trees[can_split(context, growing, trees, np.full_like(trees, ROOT))])
    sides = np.empty(0, bool)
    while True:
        if len(families):
            histograms = yield from build_histograms(context, group, growing, families, sides)  # 1, 2
            find_splits(context, growing, families, histograms)  # 3
        trees, chosen = _choose(context, growing, families)
        if not len(chosen):
            break
        opened = yield from open_splits(context, number, growing, trees, chosen)  # 4
        families, sides = _split(context, growing, opened)
    for split, rows in growing.used:
        context.table.used(split, rows)
    done = tuple(name for name, spec in zip(names, specs, strict=True) if not spec.reused)
    context.tell(messages.Grown(number, done), more=True)
    if context.helpers:
        forget(context.team.products, done)
    return growing.grown()


def _choose(context: GrowerContext, growing: GrowingTrees, families: Families) -> tuple[Ints32, Ints32]:
    """Trees and nodes that are split now: level by level all that gain, leaf by leaf of each tree the one that gains
    most."""
    nodes = growing.nodes
    if not isinstance(context.parameters, LgbParameters):
        trees, numbers = families.children()
        gaining = nodes.best[trees, numbers] >= 0
        return trees[gaining], numbers[gaining]
    gains = np.where((nodes.first == LEAF) & (nodes.best >= 0), nodes.gain, -np.inf)
    every, most = np.arange(len(gains)), gains.argmax(axis=1)  # the first of those that gain as much
    goes_on = (gains[every, most] > -np.inf) & (growing.leaves < context.parameters.leaves)
    return every[goes_on].astype(np.int32), most[goes_on].astype(np.int32)


def _split(context: GrowerContext, growing: GrowingTrees, opened: OpenedSplits) -> tuple[Families, Bools]:
    """Make the children; the families that need histograms next, and the sides of their rows."""
    kept = _make_children(context, growing, opened)
    trees, parents, nodes = kept.trees, kept.nodes, growing.nodes
    firsts, counts = nodes.first[trees, parents], kept.rows.counts
    own = nodes.owner[trees, parents] == context.me
    for split, count in zip(nodes.split[trees, parents][own].tolist(), counts[own].tolist(), strict=True):
        growing.used.append((split, count))
    follows = can_split(context, growing, trees, firsts) | can_split(context, growing, trees, firsts + 1)
    asked = (nodes.rows[trees, firsts + 1] < nodes.rows[trees, firsts]).astype(np.int32)
    families = Families(trees[follows], parents[follows], firsts[follows], asked[follows])
    return families, kept.sides[follows.repeat(counts)]


def _make_children(context: GrowerContext, growing: GrowingTrees, opened: OpenedSplits) -> OpenedSplits:
    """Two children of each node that has rows enough for both, the rows moved into them, and their totals.

    The splits that were not dropped.
    """
    trees, numbers, nodes, min_rows = opened.trees, opened.nodes, growing.nodes, context.parameters.min_rows
    right, on_the_right = right_totals(growing.y, opened.rows, opened.sides)
    left = nodes.totals[trees, numbers] - right
    fits = (left == nodes.left[trees, numbers]).all(axis=1)
    if not fits.all():
        first = int(fits.argmin())
        teller = context.team.owners[nodes.owner[trees[first], numbers[first]]]
        raise ProtocolError(f"invalid SplitSides from {teller}: sides that do not fit the sums that it showed")
    on_the_left = opened.rows.counts - on_the_right
    enough = np.minimum(on_the_left, on_the_right) >= min_rows
    growing.leaves += np.bincount(trees, minlength=len(growing.leaves))
    if not enough.all():
        dropped = trees[~enough], numbers[~enough]
        nodes.best[dropped] = nodes.owner[dropped] = nodes.split[dropped] = -1
        opened = opened.only(enough, growing.rows)
        trees, numbers, left, right = opened.trees, opened.nodes, left[enough], right[enough]
        on_the_left, on_the_right = on_the_left[enough], on_the_right[enough]
    of_trees = np.bincount(trees, minlength=len(growing.count))
    earlier = np.arange(len(trees)) - (np.cumsum(of_trees) - of_trees)[trees]  # splits of the same tree
    firsts = (growing.count[trees] + 2 * earlier).astype(np.int32)
    growing.count += 2 * of_trees
    most = int(growing.count.max())
    nodes.make_room(most)
    growing.rows.make_room(most)
    nodes.first[trees, numbers] = firsts
    for side, totals, rows in ((0, left, on_the_left), (1, right, on_the_right)):
        nodes.depth[trees, firsts + side] = nodes.depth[trees, numbers] + 1
        nodes.totals[trees, firsts + side] = totals
        nodes.rows[trees, firsts + side] = rows
    growing.rows.split(opened.rows, trees, numbers, firsts, opened.sides)
    return opened
