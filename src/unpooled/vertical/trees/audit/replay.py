"""What honest parties would have put in: gradients from labels and the rows' leaves, and bins as they may be shown.

A tree's gradients follow from the labels, the weights, the seed of draws, and the scores that the trees before it left;
those follow from these trees' gradients and the leaf of each row. So the learners themselves are run again
(`boosting`, `forest`), and where they would grow trees they are given leaves. Whole numbers come out the same, to the
bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, takewhile

import numpy as np

from unpooled.arrays import Ints, Ints32
from unpooled.errors import InputError
from unpooled.vertical.targets import Target
from unpooled.vertical.trees.audit.trail import Leaves, rows_of_nodes, rows_of_trees
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.bundles import Bins
from unpooled.vertical.trees.ensemble import fit_trees, weighted_targets
from unpooled.vertical.trees.grower.asked_rows import AskedRows, rows_in_product
from unpooled.vertical.trees.grower.context import GrownTree, TreeSpec
from unpooled.vertical.trees.grower.node_bins import NodeBins, asked_bins
from unpooled.vertical.trees.grower.node_rows import (
    OUTSIDE,
    ROOT,
    Families,
    asked_rows,
    leaf_sums,
    root_families,
    rows_in_bags,
)
from unpooled.vertical.trees.parameters import AnyTrees
from unpooled.vertical.trees.turns import Turns


class _Enough(Exception):
    """The leaves of a group of trees are not known, nor those of the ones after it."""


def gradients(
    parameters: AnyTrees, targets: Sequence[Target], leaves: Sequence[Sequence[Leaves]]
) -> list[list[TreeSpec]]:
    """What each group of trees is grown from, by number: those whose leaves are given, and the one after them, if any.

    Groups that took turns when they grew do not depend on each other, and so come one after the other.
    """
    weighted = weighted_targets(parameters, targets, len(targets[0].values))
    groups: dict[int, list[TreeSpec]] = {}

    def grow(specs: Sequence[TreeSpec], number: int) -> Generator[None, None, list[GrownTree]]:
        if number <= len(leaves) + 1:
            groups[number] = list(specs)
        if number > len(leaves):
            raise _Enough
        if len(specs) != len(leaves[number - 1]):
            raise InputError("leaves are given for another number of trees than grow together")
        yield
        return [_grown(*each) for each in zip(specs, leaves[number - 1], strict=True)]

    def one_by_one(parts: Iterable[Turns], _most: int) -> None:
        broken_off: _Enough | None = None
        for part in parts:
            try:
                deque(part, maxlen=0)
            except _Enough as error:
                broken_off = error
        if broken_off:
            raise broken_off

    with suppress(_Enough):
        fit_trees(grow, _ANY_FEATURES, parameters, weighted, one_by_one)
    return [groups[number] for number in takewhile(groups.__contains__, count(1))]


_ANY_FEATURES = 1
"""Columns are drawn after rows, so it does not matter how many there are."""


def inputs_of(
    specs: Sequence[TreeSpec], leaves: Sequence[Leaves], nodes: Sequence[Sequence[int]], rows: int, *, part: bool
) -> tuple[Ints, Ints32]:
    """Y of a product about some nodes of trees, as the active party hands it in, and which of these each row is in."""
    asked, y = rows_of_trees(leaves, nodes), np.concatenate([spec.y for spec in specs])
    if part and asked.needed > rows:
        raise InputError("a product has fewer rows than the nodes that it is about")
    y = asked.laid_out(y.take(asked.rows, axis=0), rows, part=True) if part else y
    return y, asked.nodes_in(rows, part=part)


def columns(
    parameters: AnyTrees, own: Binned, leaves: Leaves, asked: Sequence[Sequence[int]]
) -> Iterator[tuple[Bins, AskedRows]]:
    """X of all products about a tree, as an honest passive party hands them in; `asked` are their nodes, in order."""
    if parameters.hide_nodes:
        part = own.columns if leaves.part is None else own.columns[leaves.part]
        yield from ((part, rows_of_nodes(leaves, nodes)) for nodes in asked)
        return
    taking_part = leaves.where != OUTSIDE if leaves.part is None else leaves.part
    trees = rows_in_bags(own, [taking_part], len(leaves.first), cut=leaves.part is not None)
    bins = NodeBins.of(parameters.min_rows, trees, last_only=False)
    parents = {child: node for node, first in enumerate(leaves.first.tolist()) for child in (first, first + 1)}
    for nodes in asked:
        families = root_families(np.zeros(1, np.int32))
        if list(nodes) != [ROOT]:
            of = [parents[node] for node in nodes]
            firsts = leaves.first[of]
            tree = np.zeros(len(of), np.int32)
            families = Families(tree, *(np.array(each, np.int32) for each in (of, firsts, nodes - firsts)))
            rows = trees.of(tree, families.parents)
            right = rows_of_nodes(leaves, (firsts + 1).tolist())
            trees.split(rows, tree, families.parents, families.firsts, np.isin(rows.numbers, right.rows))
        rows = asked_rows(trees, families)
        shown, _ = asked_bins(trees, bins, families, rows)
        yield shown, rows_in_product(trees, families, rows)


def _grown(spec: TreeSpec, leaves: Leaves) -> GrownTree:
    """A tree as the learner sees it; inner nodes, which no row is in any more, need no totals."""
    if len(leaves.where) != len(spec.y):
        raise InputError("leaves are given for another number of rows than a tree has")
    outside = leaves.where == OUTSIDE
    if (outside != (spec.taking_part is not None and not spec.cut and ~spec.taking_part)).any():
        raise InputError("leaves are given for other rows than take part in a tree")
    totals = leaf_sums(leaves.where, len(leaves.first), spec.y)
    none = np.full(len(leaves.first), -1)
    return GrownTree(leaves.first, none, none, none, np.zeros(len(none)), totals, leaves.where)
