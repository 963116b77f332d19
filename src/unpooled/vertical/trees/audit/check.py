"""Whether what a party opens of trees' products is what it sent, and what the learner prescribes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np

from unpooled.arrays import Floats, Ints32
from unpooled.errors import InputError
from unpooled.secure.evidence import Arrays, Line, digest_of
from unpooled.secure.reproduction import is_x, is_y
from unpooled.vertical.inputs import COLUMNS, TARGETS
from unpooled.vertical.learner import Audited
from unpooled.vertical.targets import targets_from
from unpooled.vertical.trees.audit.replay import columns, gradients, inputs_of
from unpooled.vertical.trees.audit.trail import Leaves, columns_from, leaves_in, name_of, rows_of_trees
from unpooled.vertical.trees.bundles import Bins
from unpooled.vertical.trees.grower.asked_rows import AskedRows, rows_together
from unpooled.vertical.trees.grower.context import TreeSpec
from unpooled.vertical.trees.grower.node_rows import ROOT
from unpooled.vertical.trees.parameters import AnyTrees

T = TypeVar("T")


def pages_needed(lines: Sequence[Line]) -> list[str]:
    """The leaves that decide what products should have been: of all trees up to the last one in question."""
    last: dict[int, int] = {}
    for line in lines:
        fit, group = line["about"]["fit"], line["about"]["group"]
        last[fit] = max(last.get(fit, 0), group)
    return [name_of(fit, group) for fit, most in sorted(last.items()) for group in range(1, most + 1)]


class GradientsCheck:
    """What the active party put into one fit: its targets and leaves as it opens them; what the checker was sent."""

    def __init__(self, parameters: AnyTrees, audited: Audited) -> None:
        self._parameters, self._targets, self._pages = parameters, targets_from(audited.inputs[TARGETS]), audited.pages
        self._leaves, self._received = _leaves_of(audited.pages, audited.fit), audited.received

    @cached_property
    def _groups(self) -> list[list[TreeSpec]]:
        return gradients(self._parameters, self._targets, self._leaves)

    @cached_property
    def _misplaced(self) -> bool:
        """Whether leaves put rows into other nodes than the checker was told when the trees grew."""
        return any(
            "rows" in about
            and digest_of(rows_of_trees(_trees_at(self._leaves, about), about["nodes"]).rows) != about["rows"]
            for about in (line["about"] for line in self._received)
            if about["group"] <= len(self._leaves)
        )

    def problem_of(self, line: Line, seed: str, told: Line) -> str:
        """What is wrong with a product, by its seed and what the opener says it is about; nothing if all is well."""
        about = line["about"]
        if self._misplaced:
            return "the leaves that were opened have other rows in a node than were told when the tree grew"
        nodes = about.get("nodes", told.get("nodes"))
        specs, leaves = _trees_at(self._groups, about), _trees_at(self._leaves, about)
        if len(nodes) != len(leaves) or sum(map(len, nodes)) != line["nodes"]:
            return "it was opened for another number of nodes than it had"
        y, of_rows = inputs_of(specs, leaves, nodes, line["rows"], part=about["part"])
        if not is_y(line, bytes.fromhex(seed), self._pages.get(line["product"], {}), y, of_rows):
            return "what was sent are not the gradients that follow from the labels, or it was opened wrongly"
        return ""

    @property
    def notes(self) -> list[str]:
        """What labels and weights look like: an audit shows that they were used, not that they are true."""
        weights = np.concatenate([target.weights for target in self._targets if target.weights is not None])
        found = [_described("weights", weights[weights > 0])]
        if (of_rows := self._targets[0].row_weights) is not None:
            found.append(_described("row weights", of_rows))
        if not self._parameters.classes:
            found.append(_described("labels", np.concatenate([target.values for target in self._targets])))
        return found


class ColumnsCheck:
    """What a passive party put into one fit: its columns as it opens them, and what the checker knows of the trees."""

    notes: Sequence[str] = ()

    def __init__(self, parameters: AnyTrees, audited: Audited) -> None:
        self._parameters, self._own = parameters, columns_from(audited.inputs[COLUMNS])
        self._leaves, self._received = _leaves_of(audited.own, audited.fit), audited.received
        self._found: dict[str, tuple[Bins, Ints32]] = {}

    def problem_of(self, line: Line, seed: str, _told: Line) -> str:
        """What is wrong with a product, by its seed and what the opener says it is about; nothing if all is well."""
        if tuple(line["sizes"]) != self._own.layout.sizes:
            return "the columns that were opened have other bins than those that were lent"
        if line["product"] not in self._found:
            self._found = self._of_trees(line)
        x, nodes = self._found[line["product"]]
        if not is_x(line, bytes.fromhex(seed), x, nodes):
            return "what was sent are not the columns that were committed to, or it was opened wrongly"
        return ""

    def _of_trees(self, line: Line) -> dict[str, tuple[Bins, Ints32]]:
        """X and the rows' nodes in all products about the same trees, and those that shared a product with them."""
        lines, asked = self._about_same_trees(line), defaultdict[int, list[list[list[int]]]](list)
        for about in (other["about"] for other in lines):
            for tree, nodes in zip(about["trees"], about["nodes"], strict=True):
                if nodes == [ROOT]:  # a tree begins anew where the run was resumed
                    asked[tree].append([])
                asked[tree][-1].append(nodes)
        made = {tree: self._columns(line["about"]["group"], tree, attempts) for tree, attempts in asked.items()}
        found = dict[str, tuple[Bins, Ints32]]()
        for other in lines:
            about, count = other["about"], other["rows"]
            each, part = [next(made[tree]) for tree in about["trees"]], about["part"]
            trees = zip(_trees_at(self._leaves, about), about["nodes"], strict=True)
            rows = rows_together([rows for _, rows in each], [(len(tree.where), len(nodes)) for tree, nodes in trees])
            bins = np.concatenate([bins for bins, _ in each])
            x = bins if self._parameters.hide_nodes else rows.laid_out(bins, count, part=part)
            found[other["product"]] = x, rows.nodes_in(count, part=part)
        return found

    def _about_same_trees(self, line: Line) -> list[Line]:
        """What was received about the trees of a product, and about all that shared a product with one of them."""
        group = line["about"]["group"]
        lines = [other for other in self._received if other["about"]["group"] == group]
        trees, before = set(line["about"]["trees"]), 0
        while len(trees) > before:
            before = len(trees)
            trees |= {tree for other in lines for tree in other["about"]["trees"] if trees & {*other["about"]["trees"]}}
        return [other for other in lines if trees & {*other["about"]["trees"]}]

    def _columns(self, group: int, tree: int, attempts: Sequence[list[list[int]]]) -> Iterator[tuple[Bins, AskedRows]]:
        leaves = _at(self._leaves, group, tree)
        return chain.from_iterable(columns(self._parameters, self._own, leaves, asked) for asked in attempts)


def _leaves_of(pages: Mapping[str, Arrays], fit: int) -> list[list[Leaves]]:
    found: list[list[Leaves]] = []
    while (name := name_of(fit, len(found) + 1)) in pages:
        found.append(leaves_in(pages[name]))
    return found


def _trees_at(groups: Sequence[Sequence[T]], about: Line) -> list[T]:
    return [_at(groups, int(about["group"]), int(tree)) for tree in about["trees"]]


def _at(groups: Sequence[Sequence[T]], group: int, tree: int) -> T:
    try:
        return groups[group - 1][tree]
    except IndexError:
        raise InputError("the leaves of the tree were not opened; if the run broke off there, there are none") from None


def _described(what: str, values: Floats) -> str:
    """How many rows really count: one that is as large as all others together has their part in every sum."""
    sizes = np.abs(values[np.isfinite(values)])
    effective = float(sizes.sum() ** 2 / (sizes**2).sum()) if sizes.any() else 0.0
    different = len(np.unique(sizes))
    return f"{what}: {different} different values, {len(sizes)} that count as much as {effective:.0f} equal ones"
