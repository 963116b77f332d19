"""On which side of their splits the rows fall: the owner of the column says so."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Ints, Ints32, unpacked
from unpooled.errors import ProtocolError
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.grower.context import DueSides, GrowerContext, GrowingTrees
from unpooled.vertical.trees.grower.node_rows import NodeRows, TreeRows, cut, fill_sides
from unpooled.vertical.trees.prepared import SplitKey
from unpooled.vertical.trees.split_table import NO_SPLIT


@dataclass(frozen=True, eq=False)
class OpenedSplits:
    """Nodes that are split, their rows, and on which side each of these falls."""

    trees: Ints32
    nodes: Ints32
    rows: NodeRows
    sides: Bools

    def only(self, some: Bools, rows: TreeRows) -> OpenedSplits:
        """Those of some nodes."""
        trees, nodes = self.trees[some], self.nodes[some]
        return OpenedSplits(trees, nodes, rows.of(trees, nodes), self.sides[some.repeat(self.rows.counts)])


@dataclass(frozen=True, eq=False)
class _Splits:
    """The best splits of nodes: by which feature of which owner, after which of its bins, and their missing values."""

    owners: Ints
    features: Ints
    places: Ints
    missing_left: Bools


def open_splits(
    context: GrowerContext, group: int, growing: GrowingTrees, trees: Ints32, numbers: Ints32
) -> Generator[None, None, OpenedSplits]:
    """Step 4 of growing; the nodes learn by whose column and which split of that party they are split."""
    nodes, rows = growing.nodes, growing.rows.of(trees, numbers)
    found = context.space.places_of(nodes.best[trees, numbers])
    splits = _Splits(*found, nodes.missing_left[trees, numbers])
    opened = OpenedSplits(trees, numbers, rows, np.empty(len(rows), bool))
    theirs = [(helper, np.flatnonzero(splits.owners == place)) for place, helper in context.helpers]
    asked = [(helper, some, _keys(splits, some)) for helper, some in theirs if len(some)]
    for helper, some, keys in asked:
        if context.parameters.hide_nodes:
            _ask_for_all(context, group, helper, keys)
        else:
            of_some = splits.features[some], splits.places[some], splits.missing_left[some]
            fields = trees[some], numbers[some], *(each.astype(np.int32) for each in of_some)
            context.team.session.send(helper, messages.SplitRequest(*fields))
    _open_own(context, growing, opened, splits)
    if context.parameters.hide_nodes and not all(context.opened.keys() >= set(keys) for _, _, keys in asked):
        yield
    for helper, some, keys in asked:
        if context.parameters.hide_nodes:
            while not context.opened.keys() >= set(keys):
                _take_for_all(context, helper)
            _fill_in(context, growing, opened, some, keys)
        else:
            _take(context, helper, growing, opened, splits, some)
    nodes.owner[trees, numbers] = splits.owners
    return opened


def take_due(context: GrowerContext, helper: str, before: int | None = None) -> None:
    """Take the sides that nobody waited for: all, or those that come before the answer to a question."""
    due = context.due[helper]
    while due and (before is None or due[0].question < before):
        _take_for_all(context, helper)


def _open_own(context: GrowerContext, growing: GrowingTrees, opened: OpenedSplits, splits: _Splits) -> None:
    """The sides of the rows that the active party's own columns split."""
    numbers, own = np.full(len(opened.nodes), NO_SPLIT), np.flatnonzero(splits.owners == context.me)
    each = (splits.features[own].tolist(), splits.places[own].tolist(), splits.missing_left[own].tolist())
    numbers[own] = [context.table.number(*split) for split in zip(*each, strict=True)]
    growing.nodes.split[opened.trees[own], opened.nodes[own]] = numbers[own]
    fill_sides(context.table, growing.rows, opened.rows, numbers.tolist(), opened.sides)


def _take(
    context: GrowerContext,
    helper: str,
    growing: GrowingTrees,
    opened: OpenedSplits,
    splits: _Splits,
    some: Ints,
) -> None:
    """A passive party's sides of the rows of some nodes."""
    owner, theirs = int(splits.owners[some[0]]), np.zeros(len(opened.nodes), bool)
    theirs[some] = True
    count = int(opened.rows.counts[some].sum())
    answer = context.team.session.recv(helper, messages.SplitSides, at_most=4 * len(some) + count)
    _check_numbers(answer, len(some), context.numbered[owner] + len(some), helper)
    context.numbered[owner] = max(context.numbered[owner], int(answer.numbers.max()) + 1)
    right = unpacked(answer.sides, count, "SplitSides", helper)
    opened.sides[theirs.repeat(opened.rows.counts)] = right
    growing.nodes.split[opened.trees[some], opened.nodes[some]] = answer.numbers


def _keys(splits: _Splits, some: Ints) -> list[SplitKey]:
    """What tells splits apart: owner, feature, place and side of missing values."""
    fields = (splits.owners, splits.features, splits.places, splits.missing_left)
    return list(zip(*(field[some].tolist() for field in fields), strict=True))


def _ask_for_all(context: GrowerContext, group: int, helper: str, keys: Sequence[SplitKey]) -> None:
    """With hidden nodes: ask for the sides of all rows, once for each split that is new.

    Those that are known from an earlier fit need not be waited for: splits get their numbers in the order of asking.
    But where bags are shown, the next message of a passive party may be its bins, which are others in each tree.
    """
    due = {key for each in context.due[helper] for key in each.keys}
    if not (new := sorted(set(keys) - context.opened.keys() - due)):
        return
    fields = np.array([key[1:] for key in new], np.int32).T.copy()
    context.team.session.send(helper, messages.SplitRequestForAll(group, *fields))
    owner = new[0][0]
    known = context.earlier.sides if context.parameters.hide_bags else {}
    for number, key in enumerate(new, context.numbered[owner]):
        if key in known:
            context.opened[key] = number, known[key]
    context.numbered[owner] += len(new)
    context.due[helper].append(DueSides(context.next_question(), tuple(new), context.numbered[owner]))


def _take_for_all(context: GrowerContext, helper: str) -> None:
    """Take the next sides that are due from a passive party."""
    due, rows = context.due[helper].popleft(), len(context.own.columns)
    count = len(due.keys)
    answer = context.team.session.recv(helper, messages.SplitSidesForAll, at_most=count * (4 + rows))
    _check_numbers(answer, count, due.most, helper)
    right = unpacked(answer.sides, rows * count, "SplitSidesForAll", helper).reshape(count, rows)
    for key, number, sides in zip(due.keys, answer.numbers.tolist(), right, strict=True):
        told = context.opened.setdefault(key, (number, sides))
        if told[0] != number or (told[1] is not sides and (told[1] != sides).any()):
            raise ProtocolError(f"invalid SplitSidesForAll from {helper}: other sides or numbers than before")
        context.earlier.sides.setdefault(key, sides)


def _fill_in(
    context: GrowerContext, growing: GrowingTrees, opened: OpenedSplits, some: Ints, keys: Sequence[SplitKey]
) -> None:
    """The sides of the rows of some nodes, from those of all rows."""
    places = opened.rows.places if growing.rows.source is None else growing.rows.source[opened.rows.places]
    of_nodes, sides = cut(places, opened.rows.counts), cut(opened.sides, opened.rows.counts)
    for place, key in zip(some.tolist(), keys, strict=True):
        number, of_all = context.opened[key]
        sides[place][:] = of_all[of_nodes[place]]
        growing.nodes.split[opened.trees[place], opened.nodes[place]] = number


def _check_numbers(answer: messages.SplitSides | messages.SplitSidesForAll, asked: int, most: int, helper: str) -> None:
    """Refuse numbers of splits beyond those asked for so far: a model has room for as many as the largest says."""
    kind = type(answer).__name__
    if answer.numbers.shape != (asked,):
        raise ProtocolError(f"invalid {kind} from {helper}: another number of splits than the {asked} asked for")
    if int(answer.numbers.min()) < 0 or int(answer.numbers.max()) >= most:
        raise ProtocolError(f"invalid {kind} from {helper}: a split's number is out of range")
