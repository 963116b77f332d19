"""On which side of their splits the rows fall: whoever has the column says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Ints
from unpooled.errors import ProtocolError
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.grower.context import Ground, Growing
from unpooled.vertical.trees.grower.node_rows import members, unpacked
from unpooled.vertical.trees.split_table import right_of

T = TypeVar("T", bound=np.generic)


def cut(values: NDArray[T], lengths: Sequence[int]) -> list[NDArray[T]]:
    """Views of parts of these lengths, one after the other; quicker than numpy's `split`."""
    return [values[end - length : end] for end, length in zip(accumulate(lengths), lengths, strict=True)]


@dataclass(frozen=True, eq=False)
class TreeSides:
    """Of one tree the rows of the nodes that are split, node by node, how many each has, and their sides."""

    rows: Ints
    counts: Ints
    sides: Bools

    def by_node(self, values: Bools) -> list[Bools]:
        """Views of each node's part."""
        return cut(values, self.counts.tolist())


@dataclass(frozen=True)
class _Split:
    """A split to be opened: the tree and the node's place among those chosen there, its number, and the split."""

    tree: int
    place: int
    node: int
    owner: int
    feature: int
    bin: int
    missing_left: bool


def open_splits(
    ground: Ground, growing: Sequence[Growing], chosen: Mapping[int, Sequence[int]]
) -> dict[int, TreeSides]:
    """Step 4 of growing, by tree; the nodes learn by whose column and which split of that party they are split."""
    splits = _splits_of(ground, growing, chosen)
    opened = {}
    for number, nodes in chosen.items():
        rows, counts = members(growing[number].where, np.array(nodes, np.int32))
        opened[number] = TreeSides(rows, counts, np.empty(len(rows), bool))
    parts = {number: of_tree.by_node(of_tree.sides) for number, of_tree in opened.items()}
    asked = [(lender, [split for split in splits if split.owner == place]) for place, lender in ground.lenders]
    asked = [(lender, theirs) for lender, theirs in asked if theirs]
    if ground.parameters.hide_nodes:
        for lender, theirs in asked:
            _ask_for_all(ground, lender, theirs)
            for split in theirs:
                _take_for_all(ground, growing[split.tree], split, opened[split.tree], parts[split.tree])
    else:
        for lender, theirs in asked:
            fields = [(s.tree, s.node, s.feature, s.bin, s.missing_left) for s in theirs]
            ground.team.session.send(lender, messages.SplitRequest(*np.array(fields, np.int32).T.copy()))
    for number in chosen:
        _open_own(
            ground,
            growing[number],
            [s for s in splits if (s.tree, s.owner) == (number, ground.me)],
            parts[number],
            opened[number],
        )
    if not ground.parameters.hide_nodes:
        for lender, theirs in asked:
            most = sum(4 + len(parts[split.tree][split.place]) for split in theirs)
            answer = ground.team.session.recv(lender, messages.SplitSides, at_most=most)
            _take(ground, answer, lender, theirs, growing, parts)
    return opened


def _splits_of(ground: Ground, growing: Sequence[Growing], chosen: Mapping[int, Sequence[int]]) -> list[_Split]:
    each = [(number, place, node) for number, nodes in chosen.items() for place, node in enumerate(nodes)]
    at = [growing[number].nodes[node] for number, _, node in each]
    splits = []
    for of_node, where, (owner, feature, bin_) in zip(
        at, each, ground.space.places_of([n.best for n in at]), strict=True
    ):
        of_node.owner = owner
        splits.append(_Split(*where, owner, feature, bin_, of_node.missing_left))
    return splits


def _open_own(
    ground: Ground, tree: Growing, splits: Sequence[_Split], parts: Sequence[Bools], opened: TreeSides
) -> None:
    if not splits:
        return
    rows = cut(opened.rows, opened.counts.tolist())
    numbers = [ground.table.number(split.feature, split.bin, split.missing_left) for split in splits]
    lengths = [len(rows[split.place]) for split in splits]
    mine = np.concatenate([rows[split.place] for split in splits])
    right = right_of(
        ground.table, tree.standing.layout, tree.standing.own.feature_bins, mine, np.repeat(numbers, lengths)
    )
    for split, number, sides in zip(splits, numbers, cut(right, lengths), strict=True):
        parts[split.place][:] = sides
        tree.nodes[split.node].split = number
        ground.table.used(number, len(sides))


def _take(
    ground: Ground,
    answer: messages.SplitSides,
    lender: str,
    splits: Sequence[_Split],
    growing: Sequence[Growing],
    parts: Mapping[int, Sequence[Bools]],
) -> None:
    """A passive party's sides of the rows of its nodes."""
    _check_numbers(ground, answer, splits[0].owner, len(splits), lender)
    lengths = [len(parts[split.tree][split.place]) for split in splits]
    right = unpacked(answer.sides, sum(lengths), lender)
    numbers = answer.numbers.tolist()
    for split, number, sides in zip(splits, numbers, cut(right, lengths), strict=True):
        parts[split.tree][split.place][:] = sides
        growing[split.tree].nodes[split.node].split = number


def _check_numbers(
    ground: Ground, answer: messages.SplitSides | messages.SplitSidesForAll, owner: int, asked: int, lender: str
) -> None:
    """Refuse numbers of splits beyond those asked for so far: a model has room for as many as the largest says."""
    kind, most = type(answer).__name__, ground.numbered.get(owner, 0) + asked
    if answer.numbers.shape != (asked,):
        raise ProtocolError(f"invalid {kind} from {lender}: another number of splits than the {asked} asked for")
    if int(answer.numbers.min()) < 0 or int(answer.numbers.max()) >= most:
        raise ProtocolError(f"invalid {kind} from {lender}: a split's number is out of range")
    ground.numbered[owner] = max(ground.numbered.get(owner, 0), int(answer.numbers.max()) + 1)


def _ask_for_all(ground: Ground, lender: str, splits: Sequence[_Split]) -> None:
    """With hidden nodes: the sides of all rows, asked for once for each split that is new."""
    new = sorted({_key(split) for split in splits} - set(ground.opened))
    if not new:
        return
    session, rows = ground.team.session, len(ground.own.columns)
    session.send(lender, messages.SplitRequestForAll(*np.array([key[1:] for key in new], np.int32).T.copy()))
    answer = session.recv(lender, messages.SplitSidesForAll, at_most=len(new) * (4 + rows))
    _check_numbers(ground, answer, new[0][0], len(new), lender)
    right = unpacked(answer.sides, rows * len(new), lender).reshape(len(new), rows)
    for key, number, sides in zip(new, answer.numbers.tolist(), right, strict=True):
        ground.opened[key] = number, sides


def _take_for_all(ground: Ground, tree: Growing, split: _Split, opened: TreeSides, parts: Sequence[Bools]) -> None:
    number, sides = ground.opened[_key(split)]
    part = tree.seedling.taking_part
    sides = sides[part] if tree.seedling.cut and part is not None else sides
    end = int(np.cumsum(opened.counts)[split.place])
    parts[split.place][:] = sides[opened.rows[end - int(opened.counts[split.place]) : end]]
    tree.nodes[split.node].split = number


def _key(split: _Split) -> tuple[int, int, int, bool]:
    return split.owner, split.feature, split.bin, split.missing_left
