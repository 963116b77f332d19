"""Sums over the bins of nodes, from all owners of columns, and the best split of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.product import announce, product
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import about_nodes
from unpooled.vertical.trees.bundles import to_logical
from unpooled.vertical.trees.grower.context import Ground, Growing, can_split
from unpooled.vertical.trees.grower.min_rows import Groups
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, Families, Look, bin_sums, look_at, packed, unpacked
from unpooled.vertical.trees.grower.products import in_part, tree_call
from unpooled.vertical.trees.grower.splitting import best_splits, splittable
from unpooled.vertical.trees.parameters import LgbParameters


def look(
    ground: Ground,
    trees: messages.Trees,
    growing: Sequence[Growing],
    families: Mapping[int, Families],
    sides: Mapping[int, Bools],
) -> None:
    """Steps 1, 2 and 3 of growing for these families, by tree; `sides` are those of the splits they come from."""
    team, layouts, parameters = ground.team, ground.space.layouts, ground.parameters
    calls = []
    if ground.lenders:
        ground.tell(_level(parameters.hide_nodes, families, sides))  # 1
        part = in_part(team, parameters, families.values())
        for place, lender in ground.lenders:
            for number, of_tree in families.items():
                shape = len(growing[number].y), len(of_tree)
                calls.append(tree_call(team, lender, layouts[place], parameters, trees, number, shape, part=part))
        announce(team.products, [calls])
    looks = look_at([growing[number].standing for number in families], list(families.values()))
    parts = {ground.me: _own_sums(ground, growing, families, looks)}  # while the others are at work
    if ground.lenders:  # 2
        each = zip(calls, families, looks, strict=False)  # the first lender's calls; the others' are like them
        inputs = [
            _inputs(
                call,
                growing[number].y,
                seen,
                about_nodes(team, number, families[number], seen, part=part),
                part=part,
            )
            for call, number, seen in each
        ]
        batch = list(zip(calls, inputs * len(ground.lenders), strict=True))
        sums = [of for of in product(team.products, batch) if of is not None]
        for order, (place, _) in enumerate(ground.lenders):
            parts[place] = np.concatenate(sums[order * len(families) : (order + 1) * len(families)])
    if ground.min_rows > 1:
        _keep_groups(ground, growing, families)
    totals = _asked_totals(growing, families)
    by_feature = [to_logical(layouts[place], parts[place], totals) for place in sorted(parts)]
    _keep_sums(growing, families, np.concatenate(by_feature, axis=1))
    _find(ground, growing, families)  # 3


def new_nodes(ground: Ground, growing: Sequence[Growing], families: Mapping[int, Families]) -> list[tuple[int, int]]:
    """The nodes of these families that may be split, as tree and node."""
    return [
        (number, node)
        for number, of_tree in families.items()
        for first in of_tree.firsts.tolist()
        for node in range(first, first + of_tree.siblings)
        if can_split(ground, growing[number], node)
    ]


def _level(
    hidden: bool, families: Mapping[int, Families], sides: Mapping[int, Bools]
) -> messages.Level | messages.HiddenLevel:
    if hidden:
        counts = [len(of_tree) for of_tree in families.values()]
        return messages.HiddenLevel(np.array(list(families), np.int32), np.array(counts, np.int32))
    nothing = np.empty(0, bool)
    return messages.Level(
        tuple(
            messages.TreeLevel(number, of.parents, of.firsts, of.asked, packed(sides.get(number, nothing)))
            for number, of in families.items()
        )
    )


def _own_sums(
    ground: Ground, growing: Sequence[Growing], families: Mapping[int, Families], looks: Sequence[Look]
) -> Ints:
    """The sums over the active party's own bins."""
    each = zip(families.items(), looks, strict=True)
    sums = [
        bin_sums(ground.own.layout, seen.places, len(of_tree), growing[number].y.take(seen.rows, axis=0))
        for (number, of_tree), seen in each
    ]
    return np.concatenate(sums)


def _inputs(call: Call, y: Ints, seen: Look, about: dict[str, Any] | None, *, part: bool) -> Inputs:
    """The gradients of a product, and which family asks about each of its rows."""
    y = seen.laid_out(y.take(seen.rows, axis=0), call.rows, part=True) if part else y
    return Inputs(y=y, nodes=seen.nodes_in(call.rows, part=part), about=about)


def _keep_groups(ground: Ground, growing: Sequence[Growing], families: Mapping[int, Families]) -> None:
    """How the bins of each family's nodes are grouped, at all owners."""
    each = [(number, first) for number, of_tree in families.items() for first in of_tree.firsts.tolist()]
    own = [growing[number].standing.groups[first] for number, first in each]
    parts = {ground.me: (np.array([ends for ends, _ in own]), np.array([joined for _, joined in own]))}
    for place, lender in ground.lenders:
        layout = ground.space.layouts[place]
        most = len(each) * (layout.logical + len(layout.features))
        merged = ground.team.session.recv(lender, messages.Merged, at_most=most)
        parts[place] = (
            unpacked(merged.ends, len(each) * layout.logical, lender).reshape(len(each), -1),
            unpacked(merged.missing_joined, len(each) * len(layout.features), lender).reshape(len(each), -1),
        )
    ends, joined = (np.concatenate([parts[place][k] for place in sorted(parts)], axis=1) for k in range(2))
    for place, (number, first) in enumerate(each):
        for child in range(first, first + families[number].siblings):
            growing[number].nodes[child].groups = ends[place], joined[place]


def _asked_totals(growing: Sequence[Growing], families: Mapping[int, Families]) -> Ints:
    asked = [(number, (of_tree.firsts + of_tree.asked).tolist()) for number, of_tree in families.items()]
    return np.array([growing[number].nodes[node].totals for number, nodes in asked for node in nodes])


def _keep_sums(growing: Sequence[Growing], families: Mapping[int, Families], sums: Ints) -> None:
    """The asked child has what came; its sibling what is left of the parent's, which are needed no more."""
    place = 0
    for number, of_tree in families.items():
        nodes = growing[number].nodes
        each = zip(of_tree.parents.tolist(), of_tree.firsts.tolist(), of_tree.asked.tolist(), strict=True)
        for parent, first, asked in each:
            nodes[first + asked].sums = sums[place]
            if parent != OUTSIDE:
                parents_sums = nodes[parent].sums
                nodes[first + 1 - asked].sums = None if parents_sums is None else parents_sums - sums[place]
                nodes[parent].sums = None
            place += 1


def _find(ground: Ground, growing: Sequence[Growing], families: Mapping[int, Families]) -> None:
    """The best split of each node that may be split."""
    new = new_nodes(ground, growing, families)
    nodes = [growing[number].nodes[node] for number, node in new]
    sums = np.array([node.sums for node in nodes if node.sums is not None])
    totals = np.array([node.totals for node in nodes])
    exponents = np.array([growing[number].seedling.exponents for number, _ in new], np.int64)
    kept = [node.groups for node in nodes if node.groups is not None]
    groups = Groups(np.array([ends for ends, _ in kept]), np.array([joined for _, joined in kept])) if kept else None
    allowed, least = _drawn(ground, growing, new, groups), _least(ground, growing, new)
    best = best_splits(ground.space, sums, totals, exponents, ground.parameters, groups, allowed, least)
    for place, node in enumerate(nodes):
        node.gain, node.best = float(best.gains[place]), int(best.bins[place])
        node.missing_left, node.left = bool(best.missing_left[place]), best.left[place]


def _drawn(
    ground: Ground, growing: Sequence[Growing], new: Sequence[tuple[int, int]], groups: Groups | None
) -> Bools | None:
    """The features that each node may be split by, drawn tree by tree."""
    if any(growing[number].seedling.drawn is None for number, _ in new):
        return None
    can_be, trees = splittable(ground.space, groups, len(new)), np.array([number for number, _ in new])
    parts = []
    for number in dict.fromkeys(trees.tolist()):
        draw = growing[number].seedling.drawn
        if draw is not None:
            parts.append(draw(can_be[trees == number]))
    return np.concatenate(parts)


def _least(ground: Ground, growing: Sequence[Growing], new: Sequence[tuple[int, int]]) -> Floats | None:
    """What each side must weigh so that `min_rows` of the drawn rows are there, if they weigh the same.

    LightGBM guesses their number in this way too. Few rows that stand for many would otherwise decide by chance.
    """
    if not isinstance(ground.parameters, LgbParameters):
        return None
    least = np.zeros(len(new))
    drawn = {}
    for place, (number, node) in enumerate(new):
        tree = growing[number]
        if tree.seedling.sampled:
            if number not in drawn:
                drawn[number] = np.bincount(tree.where[tree.weighing], minlength=len(tree.nodes))
            weight = np.ldexp(float(tree.nodes[node].totals[-1]), -tree.seedling.exponents[-1])
            least[place] = ground.parameters.min_rows * weight / drawn[number][node]
    return least
