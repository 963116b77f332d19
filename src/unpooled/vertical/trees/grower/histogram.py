"""Histograms: sums over the bins of nodes, from all owners of columns; and the best split of each node."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints, Ints32, unpacked
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.product import announce, begin
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import about_nodes
from unpooled.vertical.trees.bundles import to_logical
from unpooled.vertical.trees.grower.asked_rows import rows_in_product
from unpooled.vertical.trees.grower.context import GrowerContext, GrowingTrees, can_split
from unpooled.vertical.trees.grower.min_rows import Groups
from unpooled.vertical.trees.grower.node_bins import beside_siblings
from unpooled.vertical.trees.grower.node_rows import Families, NodeRows, asked_rows, bin_sums
from unpooled.vertical.trees.grower.products import families_together, in_part, tree_call
from unpooled.vertical.trees.grower.split_sides import take_due
from unpooled.vertical.trees.grower.splitting import best_splits, splittable
from unpooled.vertical.trees.parameters import LgbParameters

_FEW_ROWS = 2**12
"""With more rows the others had better sort them while gradients are hidden; with hidden nodes they have to wait."""


@dataclass(frozen=True, eq=False)
class Histograms:
    """The sums of all children of families, nodes × logical bins × columns, and how the bins of each are grouped."""

    sums: Ints
    groups: Groups | None


def build_histograms(
    context: GrowerContext, group: messages.Trees, growing: GrowingTrees, families: Families, sides: Bools
) -> Generator[None, None, Histograms]:
    """Steps 1 and 2 of growing for these families; `sides` are those of the splits they come from."""
    team, layouts, parameters = context.team, context.space.layouts, context.parameters
    calls, together, shown, question = list[Call](), list[slice](), None, context.next_question()
    asked = asked_rows(growing.rows, families)
    part = bool(context.helpers) and in_part(team, parameters, families)
    if context.helpers:
        level = _level(group.group if parameters.hide_nodes else None, families, sides)
        context.tell(level, more=parameters.hide_nodes or len(growing.y) <= _FEW_ROWS)  # 1
        together = families_together(team, parameters, families, growing.rows.sizes, len(context.own.columns))
        for place, helper in context.helpers:
            for some in together:
                shape, *others = families[some].shapes(growing.rows.sizes)
                first = int(families.trees[some.start])
                call = tree_call(
                    team,
                    helper,
                    layouts[place],
                    parameters,
                    group,
                    first,
                    shape,
                    bins=context.earlier.name,
                    part=part,
                    others=others,
                )
                calls.append(call)
        announce(team.products, [calls])
        inputs = []  # for the first helper's calls; the others' are like them
        for call, some in zip(calls, together, strict=False):
            inputs.append(_inputs(team, call, growing, families[some], asked.part(some), part=part))
        shown = begin(team.products, list(zip(calls, inputs * len(context.helpers), strict=True)))
    context.catch_up()
    yield
    own, counts = bin_sums(growing.rows, asked, growing.y, parameters.precision)  # while the others are at work
    by_owner = {context.me: own}
    groups = growing.bins.group(families, counts) if context.rows_shown > 1 else None
    if shown is not None:  # 2
        for _, helper in context.helpers:
            take_due(context, helper, before=question)
        results = [of for of in shown() if of is not None]
        for order, (place, _) in enumerate(context.helpers):
            by_owner[place] = np.concatenate(results[order * len(together) : (order + 1) * len(together)])
    if groups is not None:
        groups = _groups_of_all(context, groups)
    totals = growing.nodes.totals[families.trees, families.asked_nodes]
    by_feature = [to_logical(layouts[place], by_owner[place], totals) for place in sorted(by_owner)]
    sums = by_feature[0] if len(by_feature) == 1 else np.concatenate(by_feature, axis=1)
    trees, numbers = families.children()
    if families.siblings == 2:
        parents = growing.sums.take(families.trees, families.parents)
        sums = beside_siblings(families, sums, parents).reshape(len(numbers), *sums.shape[1:])
    growing.sums.put(trees, numbers, sums)
    return Histograms(sums, groups)


def _level(hidden: int | None, families: Families, sides: Bools) -> messages.Level | messages.HiddenLevel:
    """What passive parties are told of a step; with hidden nodes, by the number of the group."""
    if hidden is not None:
        trees, counts = zip(*((tree, some.stop - some.start) for tree, some in families.by_tree), strict=True)
        return messages.HiddenLevel(hidden, np.array(trees, np.int32), np.array(counts, np.int32))
    return messages.Level(families.trees, families.parents, families.firsts, families.asked, np.packbits(sides))


def _inputs(
    team: Team, call: Call, growing: GrowingTrees, families: Families, asked: NodeRows, *, part: bool
) -> Inputs:
    """The gradients of a product about these families, and which of them asks about each of its rows."""
    rows = rows_in_product(growing.rows, families, asked)
    if part:
        y = rows.laid_out(growing.y.take(asked.numbers, axis=0).astype(np.int64), call.rows, part=True)
    else:
        ys = [growing.specs[tree].y for tree, _ in families.by_tree]
        y = ys[0] if len(ys) == 1 else np.concatenate(ys)
    about = about_nodes(team, families, rows, part=part)
    return Inputs(y=y, nodes=rows.nodes_in(call.rows, part=part), about=about)


def _groups_of_all(context: GrowerContext, own: Groups) -> Groups:
    """How the bins of families are grouped at all owners, given how they are here."""
    count, by_owner = len(own.ends), {context.me: (own.ends, own.missing_joined)}
    for place, helper in context.helpers:
        layout = context.space.layouts[place]
        widths = layout.logical, len(layout.features)
        told = context.team.session.recv(helper, messages.Merged, at_most=count * sum(widths))
        bits = zip((told.ends, told.missing_joined), widths, strict=True)
        ends, joined = (unpacked(each, count * width, "Merged", helper).reshape(count, -1) for each, width in bits)
        by_owner[place] = ends, joined
    if len(by_owner) == 1:
        return own
    return Groups(*(np.concatenate([by_owner[place][k] for place in sorted(by_owner)], axis=1) for k in range(2)))


def find_splits(context: GrowerContext, growing: GrowingTrees, families: Families, histograms: Histograms) -> None:
    """Step 3: the best split of each child of these families that may be split."""
    trees, numbers = families.children()
    may = can_split(context, growing, trees, numbers)
    trees, numbers, nodes, groups = trees[may], numbers[may], growing.nodes, histograms.groups
    if groups is not None:
        of_nodes = np.arange(len(families)).repeat(families.siblings)[may]
        groups = Groups(groups.ends[of_nodes], groups.missing_joined[of_nodes])
    sums = histograms.sums if may.all() else histograms.sums[may]
    totals, exponents = nodes.totals[trees, numbers], growing.exponents[trees]
    allowed, least = _allowed(context, growing, trees, groups), _least_weights(context, growing, trees, numbers)
    best = best_splits(context.space, sums, totals, exponents, context.parameters, groups, allowed, least)
    nodes.gain[trees, numbers], nodes.best[trees, numbers] = best.gains, best.bins
    nodes.missing_left[trees, numbers], nodes.left[trees, numbers] = best.missing_left, best.left


def _allowed(context: GrowerContext, growing: GrowingTrees, trees: Ints32, groups: Groups | None) -> Bools | None:
    """The features that each node may be split by, drawn tree by tree."""
    draws = {tree: growing.specs[tree].draw for tree in dict.fromkeys(trees.tolist())}
    if None in draws.values():
        return None
    can_be = splittable(context.space, groups, len(trees))
    each = [draw(can_be[trees == tree]) for tree, draw in draws.items() if draw is not None]
    return np.concatenate(each) if each else None


def _least_weights(context: GrowerContext, growing: GrowingTrees, trees: Ints32, numbers: Ints32) -> Floats | None:
    """What each side must weigh so that `min_rows` of the drawn rows are there, if they weigh the same.

    LightGBM guesses their number in this way too. Few rows that stand for many would otherwise decide by chance.
    """
    if not isinstance(context.parameters, LgbParameters):
        return None
    least, weights = np.zeros(len(trees)), growing.weight(trees, numbers)
    for place, tree in enumerate(trees.tolist()):
        if growing.specs[tree].sampled:
            rows = growing.rows.of(trees[place : place + 1], numbers[place : place + 1])
            drawn = np.count_nonzero(growing.y[rows.numbers, -1])
            least[place] = context.parameters.min_rows * weights[place] / drawn
    return least
