"""What honest parties would have put in: gradients from labels and the rows' leaves, and bins as they may be shown.

A tree's gradients follow from the labels, the weights, the seed of draws, and the scores that the trees before it left;
those follow from these trees' gradients and the leaf of each row. So the learners themselves are run again
(`boosting`, `forest`), and where they would grow trees they are given leaves. Whole numbers come out the same, to the
bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unpooled.arrays import Ints, Ints32
from unpooled.errors import InputError
from unpooled.vertical.targets import Target, checked_weights
from unpooled.vertical.trees.audit.trail import Leaves, looked_at
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.boosting import boost
from unpooled.vertical.trees.bundles import Bins
from unpooled.vertical.trees.forest import plant
from unpooled.vertical.trees.grower.context import Grown, Seedling
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, ROOT, Families, Look, root_family, shown, standing_in_bag
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters


class _Enough(Exception):
    """No more leaves are known."""


def gradients(
    parameters: AnyTrees, targets: Sequence[Target], leaves: Sequence[Sequence[Leaves]]
) -> list[list[Seedling]]:
    """The seedlings of each group of trees: of those whose leaves are given, and of the one after them, if any."""
    rows = len(targets[0].values)
    weighed = [
        (target, checked_weights(target, rows, parameters.classes, balanced=parameters.balanced)) for target in targets
    ]
    groups: list[list[Seedling]] = []

    def grow(seedlings: Sequence[Seedling]) -> list[Grown]:
        groups.append(list(seedlings))
        if len(groups) > len(leaves):
            raise _Enough
        if len(seedlings) != len(leaves[len(groups) - 1]):
            raise InputError("leaves are given for another number of trees than grow together")
        return [_grown(*each) for each in zip(seedlings, leaves[len(groups) - 1], strict=True)]

    try:
        if isinstance(parameters, ForestParameters):
            plant(grow, _ANY_FEATURES, parameters, weighed)
        else:
            boost(grow, _ANY_FEATURES, parameters, weighed)
    except _Enough:
        pass
    return groups


_ANY_FEATURES = 1
"""Columns are drawn after rows, so it does not matter how many there are."""


def inputs_of(
    seedling: Seedling, leaves: Leaves, nodes: Sequence[int], rows: int, *, part: bool
) -> tuple[Ints, Ints32]:
    """Y of a product about some nodes of a tree, as the active party hands it in, and which of these each row is in."""
    look = looked_at(leaves, nodes)
    if part and len(look.rows) > rows:
        raise InputError("a product has fewer rows than the nodes that it is about")
    y = look.laid_out(seedling.y.take(look.rows, axis=0), rows, part=True) if part else seedling.y
    return y, look.nodes_in(rows, part=part)


def columns(
    parameters: AnyTrees, own: Binned, leaves: Leaves, asked: Sequence[Sequence[int]]
) -> Iterator[tuple[Bins, Look]]:
    """X of all products about a tree, as an honest passive party hands them in; `asked` are their nodes, in order."""
    if parameters.hide_nodes:
        part = own.columns if leaves.part is None else own.columns[leaves.part]
        yield from ((part, looked_at(leaves, nodes)) for nodes in asked)
        return
    taking_part = leaves.where != OUTSIDE if leaves.part is None else leaves.part
    standing = standing_in_bag(own, taking_part, parameters.min_rows, cut=leaves.part is not None)
    parents = {child: node for node, first in enumerate(leaves.first.tolist()) for child in (first, first + 1)}
    for nodes in asked:
        families = root_family()
        if list(nodes) != [ROOT]:
            of = [parents[node] for node in nodes]
            firsts = leaves.first[of]
            families = Families(*(np.array(each, np.int32) for each in (of, firsts, nodes - firsts)))
            children = np.concatenate([firsts, firsts + 1])
            moved = looked_at(leaves, children.tolist())
            standing.where[moved.rows] = children[moved.families]
        ((look, bins),) = shown([standing], [families])
        yield bins, look


def _grown(seedling: Seedling, leaves: Leaves) -> Grown:
    """A tree as the learner sees it; inner nodes, which no row is in any more, need no totals."""
    if len(leaves.where) != len(seedling.y):
        raise InputError("leaves are given for another number of rows than a tree has")
    outside = leaves.where == OUTSIDE
    if (outside != (seedling.taking_part is not None and not seedling.cut and ~seedling.taking_part)).any():
        raise InputError("leaves are given for other rows than take part in a tree")
    totals = np.zeros((len(leaves.first), seedling.y.shape[1]), np.int64)
    np.add.at(totals, leaves.where[~outside], seedling.y[~outside])
    none = np.full(len(leaves.first), -1)
    return Grown(leaves.first, none, none, none, np.zeros(len(none)), totals, leaves.where)
