"""On which side of their splits the rows fall: the owner of the column says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unpooled.arrays import Bools, Ints, unpacked
from unpooled.errors import ProtocolError
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.grower.context import GrowerContext, GrowingTree
from unpooled.vertical.trees.grower.node_rows import cut, members
from unpooled.vertical.trees.split_table import NO_SPLIT, fill_sides


class TreeSides(NamedTuple):
    """Of one tree the rows of the nodes that are split, node by node, how many each has, and their sides."""

    rows: Ints
    counts: Ints
    sides: Bools


@dataclass(frozen=True, eq=False)
class _Split:
    """A split to be opened, and the rows of its node, whose `sides` are to be filled in."""

    tree: int
    node: int
    owner: int
    feature: int
    bin: int
    missing_left: bool
    rows: Ints
    sides: Bools

    @property
    def key(self) -> tuple[int, int, int, bool]:
        return self.owner, self.feature, self.bin, self.missing_left


def open_splits(
    context: GrowerContext, growing: Sequence[GrowingTree], chosen: Mapping[int, Sequence[int]]
) -> dict[int, TreeSides]:
    """Step 4 of growing, by tree; the nodes learn by whose column and which split of that party they are split."""
    opened, splits, me = dict[int, TreeSides](), list[_Split](), context.me
    own = dict[int, list[int]]()
    bests = [growing[number].nodes[node].best for number, nodes in chosen.items() for node in nodes]
    places = iter(context.space.places_of(np.array(bests)))
    for number, nodes in chosen.items():
        tree = growing[number]
        rows, counts = members(tree.rows.node_of_row, np.array(nodes, np.int32))
        of_tree = opened[number] = TreeSides(rows, counts, np.empty(len(rows), bool))
        numbers, end = list[int](), 0
        for place, count in zip(nodes, counts.tolist(), strict=True):
            node, end = tree.nodes[place], end + count
            node.owner, feature, last = next(places)
            if node.owner == me:
                node.split = context.table.number(feature, last, node.missing_left)
                numbers.append(node.split)
            else:
                numbers.append(NO_SPLIT)
                part = rows[end - count : end], of_tree.sides[end - count : end]
                splits.append(_Split(number, place, node.owner, feature, last, node.missing_left, *part))
        own[number] = numbers
    asked = [(helper, [split for split in splits if split.owner == place]) for place, helper in context.helpers]
    asked = [(helper, theirs) for helper, theirs in asked if theirs]
    for helper, theirs in asked:
        if context.parameters.hide_nodes:
            _open_for_all(context, helper, growing, theirs)
        else:
            fields = [(split.tree, split.node, split.feature, split.bin, split.missing_left) for split in theirs]
            context.team.session.send(helper, messages.SplitRequest(*np.array(fields, np.int32).T.copy()))
    for number, (rows, counts, sides) in opened.items():
        fill_sides(context.table, growing[number].rows.own, rows, counts, own[number], sides)
    if not context.parameters.hide_nodes:
        for helper, theirs in asked:
            _take(context, helper, growing, theirs)
    return opened


def _take(context: GrowerContext, helper: str, growing: Sequence[GrowingTree], splits: Sequence[_Split]) -> None:
    """A passive party's sides of the rows of its nodes."""
    lengths = np.array([len(split.rows) for split in splits])
    most = 4 * len(splits) + int(lengths.sum())
    answer = context.team.session.recv(helper, messages.SplitSides, at_most=most)
    _check_numbers(context, answer, splits[0].owner, len(splits), helper)
    right = unpacked(answer.sides, int(lengths.sum()), "SplitSides", helper)
    for split, number, sides in zip(splits, answer.numbers.tolist(), cut(right, lengths), strict=True):
        split.sides[:] = sides
        growing[split.tree].nodes[split.node].split = number


def _open_for_all(
    context: GrowerContext, helper: str, growing: Sequence[GrowingTree], splits: Sequence[_Split]
) -> None:
    """With hidden nodes: the sides of all rows, asked for once for each split that is new."""
    session, rows = context.team.session, len(context.own.columns)
    if new := sorted({split.key for split in splits} - set(context.opened)):
        session.send(helper, messages.SplitRequestForAll(*np.array([key[1:] for key in new], np.int32).T.copy()))
        answer = session.recv(helper, messages.SplitSidesForAll, at_most=len(new) * (4 + rows))
        _check_numbers(context, answer, new[0][0], len(new), helper)
        right = unpacked(answer.sides, rows * len(new), "SplitSidesForAll", helper).reshape(len(new), rows)
        context.opened |= dict(zip(new, zip(answer.numbers.tolist(), right, strict=True), strict=True))
    for split in splits:
        tree, (number, sides) = growing[split.tree], context.opened[split.key]
        if tree.spec.cut and tree.spec.taking_part is not None:
            sides = sides[tree.spec.taking_part]
        split.sides[:] = sides[split.rows]
        tree.nodes[split.node].split = number


def _check_numbers(
    context: GrowerContext, answer: messages.SplitSides | messages.SplitSidesForAll, owner: int, asked: int, helper: str
) -> None:
    """Refuse numbers of splits beyond those asked for so far: a model has room for as many as the largest says."""
    kind, before = type(answer).__name__, context.numbered.get(owner, 0)
    if answer.numbers.shape != (asked,):
        raise ProtocolError(f"invalid {kind} from {helper}: another number of splits than the {asked} asked for")
    if int(answer.numbers.min()) < 0 or int(answer.numbers.max()) >= before + asked:
        raise ProtocolError(f"invalid {kind} from {helper}: a split's number is out of range")
    context.numbered[owner] = max(before, int(answer.numbers.max()) + 1)
