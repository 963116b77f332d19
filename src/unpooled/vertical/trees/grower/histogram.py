"""Histograms: sums over the bins of nodes, from all owners of columns; and the best split of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unpooled.arrays import Bools, Floats, Ints, unpacked
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.product import announce, product
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import about_nodes
from unpooled.vertical.trees.bundles import to_logical
from unpooled.vertical.trees.grower.context import GrowerContext, GrowingTree, can_split
from unpooled.vertical.trees.grower.min_rows import Groups
from unpooled.vertical.trees.grower.node_rows import (
    OUTSIDE,
    AskedRows,
    Families,
    asked_rows,
    bin_sums,
    family_groups,
    group_bins,
    rows_together,
)
from unpooled.vertical.trees.grower.products import in_part, tree_call, trees_together
from unpooled.vertical.trees.grower.splitting import best_splits, splittable
from unpooled.vertical.trees.parameters import LgbParameters


def build_histograms(
    context: GrowerContext,
    group: messages.Trees,
    growing: Sequence[GrowingTree],
    families: Mapping[int, Families],
    sides: Mapping[int, Bools],
) -> None:
    """Steps 1 and 2 of growing for these families, by tree; `sides` are those of the splits they come from."""
    team, layouts, parameters = context.team, context.space.layouts, context.parameters
    calls = list[Call]()
    if context.helpers:
        context.tell(_level(parameters.hide_nodes, families, sides))  # 1
        part, numbers = in_part(team, parameters, families.values()), list(families)
        shapes = {number: (len(growing[number].spec.y), len(of_tree)) for number, of_tree in families.items()}
        rows_of = [rows for rows, _ in shapes.values()]
        together = [numbers[k] for k in trees_together(team, parameters, rows_of, len(context.own.columns), part=part)]
        for place, helper in context.helpers:
            for first, *others in together:
                shape, further = shapes[first], [shapes[number] for number in others]
                call = tree_call(
                    team, helper, layouts[place], parameters, group, first, shape, part=part, others=further
                )
                calls.append(call)
        announce(team.products, [calls])
    asked = {number: asked_rows(growing[number].rows, of_tree) for number, of_tree in families.items()}
    own = [  # while the others are at work
        bin_sums(growing[number].rows.own, asked[number], len(of_tree), growing[number].spec.y)
        for number, of_tree in families.items()
    ]
    by_owner = {context.me: np.concatenate([sums for sums, _ in own])}
    if context.rows_shown > 1:
        group_bins(
            [growing[number].rows for number in families], list(families.values()), [counts for _, counts in own]
        )
    if context.helpers:  # 2
        inputs = []  # for the first helper's calls; the others' are like them
        for call, trees in zip(calls, together, strict=False):
            inputs.append(_inputs(team, call, growing, {k: families[k] for k in trees}, asked, part=part))
        batch = list(zip(calls, inputs * len(context.helpers), strict=True))
        shown = [of for of in product(team.products, batch) if of is not None]
        for order, (place, _) in enumerate(context.helpers):
            by_owner[place] = np.concatenate(shown[order * len(together) : (order + 1) * len(together)])
    if context.rows_shown > 1:
        _keep_groups(context, growing, families)
    nodes = [(growing[number].nodes, of_tree.asked_nodes.tolist()) for number, of_tree in families.items()]
    totals = np.array([of_tree[node].totals for of_tree, asked_nodes in nodes for node in asked_nodes])
    by_feature = [to_logical(layouts[place], by_owner[place], totals) for place in sorted(by_owner)]
    _keep_sums(growing, families, np.concatenate(by_feature, axis=1))


def _level(
    hidden: bool, families: Mapping[int, Families], sides: Mapping[int, Bools]
) -> messages.Level | messages.HiddenLevel:
    if hidden:
        counts = [len(of_tree) for of_tree in families.values()]
        return messages.HiddenLevel(np.array(list(families), np.int32), np.array(counts, np.int32))
    nothing = np.empty(0, bool)
    levels = [
        messages.TreeLevel(number, of.parents, of.firsts, of.asked, np.packbits(sides.get(number, nothing)))
        for number, of in families.items()
    ]
    return messages.Level(tuple(levels))


def _inputs(
    team: Team,
    call: Call,
    growing: Sequence[GrowingTree],
    families: Mapping[int, Families],
    asked: Mapping[int, AskedRows],
    *,
    part: bool,
) -> Inputs:
    """The gradients of a product about these trees, and which family asks about each of its rows."""
    ys = [growing[number].spec.y for number in families]
    shapes = [(len(y), len(of_tree)) for y, of_tree in zip(ys, families.values(), strict=True)]
    rows = rows_together([asked[number] for number in families], shapes)
    if part:
        ys = [y.take(asked[number].rows, axis=0) for number, y in zip(families, ys, strict=True)]
    y = ys[0] if len(ys) == 1 else np.concatenate(ys)
    about = about_nodes(team, families, rows, part=part)
    return Inputs(y=rows.laid_out(y, call.rows, part=True), nodes=rows.nodes_in(call.rows, part=part), about=about)


def _keep_groups(context: GrowerContext, growing: Sequence[GrowingTree], families: Mapping[int, Families]) -> None:
    """How the bins of each family's nodes are grouped, at all owners."""
    own = family_groups([growing[number].rows for number in families], families.values())
    count = len(own.ends)
    by_owner = {context.me: (own.ends, own.missing_joined)}
    for place, helper in context.helpers:
        layout = context.space.layouts[place]
        widths = layout.logical, len(layout.features)
        told = context.team.session.recv(helper, messages.Merged, at_most=count * sum(widths))
        bits = zip((told.ends, told.missing_joined), widths, strict=True)
        ends, joined = (unpacked(each, count * width, "Merged", helper).reshape(count, -1) for each, width in bits)
        by_owner[place] = ends, joined
    ends, joined = (np.concatenate([by_owner[place][k] for place in sorted(by_owner)], axis=1) for k in range(2))
    found = zip(ends, joined, strict=True)
    for number, of_tree in families.items():
        for first in of_tree.firsts.tolist():
            groups = next(found)
            for node in growing[number].nodes[first : first + of_tree.siblings]:
                node.groups = groups


def _keep_sums(growing: Sequence[GrowingTree], families: Mapping[int, Families], sums: Ints) -> None:
    """The asked child has what came; its sibling what is left of the parent's, which are needed no more."""
    remaining = iter(sums)
    for number, of_tree in families.items():
        nodes = growing[number].nodes
        each = zip(of_tree.parents.tolist(), of_tree.firsts.tolist(), of_tree.asked.tolist(), strict=True)
        for parent, first, asked in each:
            shown = nodes[first + asked].sums = next(remaining)
            if parent != OUTSIDE:
                whole = nodes[parent].sums
                nodes[first + 1 - asked].sums = None if whole is None else whole - shown
                nodes[parent].sums = None


def find_splits(context: GrowerContext, growing: Sequence[GrowingTree], families: Mapping[int, Families]) -> None:
    """Step 3: the best split of each node of these families that may be split."""
    each = [(number, node) for number, of_tree in families.items() for node in of_tree.nodes()]
    new = [(number, node) for number, node in each if can_split(context, growing[number], node)]
    nodes = [growing[number].nodes[node] for number, node in new]
    sums = np.array([node.sums for node in nodes if node.sums is not None])
    totals = np.array([node.totals for node in nodes])
    exponents = np.array([growing[number].spec.exponents for number, _ in new], np.int64)
    kept = [node.groups for node in nodes if node.groups is not None]
    groups = Groups.of(kept) if kept else None
    allowed, least = _allowed(context, growing, new, groups), _least_weights(context, growing, new)
    best = best_splits(context.space, sums, totals, exponents, context.parameters, groups, allowed, least)
    found = (best.gains.tolist(), best.bins.tolist(), best.missing_left.tolist(), best.left)
    for node, *split in zip(nodes, *found, strict=True):
        node.gain, node.best, node.missing_left, node.left = split


def _allowed(
    context: GrowerContext, growing: Sequence[GrowingTree], new: Sequence[tuple[int, int]], groups: Groups | None
) -> Bools | None:
    """The features that each node may be split by, drawn tree by tree."""
    draws = {number: growing[number].spec.draw for number, _ in new}
    if None in draws.values():
        return None
    can_be, trees = splittable(context.space, groups, len(new)), np.array([number for number, _ in new])
    return np.concatenate([draw(can_be[trees == number]) for number, draw in draws.items() if draw is not None])


def _least_weights(
    context: GrowerContext, growing: Sequence[GrowingTree], new: Sequence[tuple[int, int]]
) -> Floats | None:
    """What each side must weigh so that `min_rows` of the drawn rows are there, if they weigh the same.

    LightGBM guesses their number in this way too. Few rows that stand for many would otherwise decide by chance.
    """
    if not isinstance(context.parameters, LgbParameters):
        return None
    least, drawn = np.zeros(len(new)), dict[int, Ints]()
    for place, (number, node) in enumerate(new):
        tree = growing[number]
        if tree.spec.sampled:
            if number not in drawn:
                weighted = tree.rows.node_of_row[tree.spec.y[:, -1] != 0]
                drawn[number] = np.bincount(weighted, minlength=len(tree.nodes))
            least[place] = context.parameters.min_rows * tree.weight(node) / drawn[number][node]
    return least
