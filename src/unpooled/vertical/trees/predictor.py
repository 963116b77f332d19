"""Using trees on new rows, jointly: level by level for many rows and all trees at once.

The active party says which rows reach which splits of a passive one, and is told on which side they fall. With
`hide_nodes` it says only which splits it needs, and is told the sides of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Bytes, Floats, Ints32, are_lists, unpacked
from unpooled.compiled import worthwhile
from unpooled.errors import InputError, ProtocolError
from unpooled.secure.engine import count_bits
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.binning import apply_bins
from unpooled.vertical.trees.boosting import probabilities
from unpooled.vertical.trees.bundles import Bins
from unpooled.vertical.trees.grower.context import LEAF
from unpooled.vertical.trees.model import Model, Part, Tree
from unpooled.vertical.trees.parameters import ForestParameters, outputs_of
from unpooled.vertical.trees.split_table import right_of

_MOST_AT_ONCE = 4_000_000  # rows × trees


def predict(team: Team, model: Model, matrix: Floats) -> NDArray[np.str_] | Floats:
    """At the active party: for each new row the most probable class, by name, or the number."""
    if not model.parameters.classes:
        numbers: Floats = mean_of_models(scores(team, model, matrix))[:, 0]
        return numbers
    names: NDArray[np.str_] = np.array(model.classes)[predict_proba(team, model, matrix).argmax(axis=1)]
    return names


def predict_proba(team: Team, model: Model, matrix: Floats) -> Floats:
    """At the active party: the probability of each class for new rows, rows × classes."""
    if not model.parameters.classes:
        raise InputError("a number has no probabilities")
    found = mean_of_models(scores(team, model, matrix))
    return found if model.parameters.classes > 2 else np.concatenate([1.0 - found, found], axis=1)


def scores(team: Team, model: Model, matrix: Floats) -> list[Floats]:
    """At the active party: for each ensemble the probabilities or numbers of new rows, rows × outputs.

    For two classes there is one output, the probability of the second.
    """
    nodes, outputs = Nodes.of(model), len(model.ensembles[0].base)
    found = [np.empty((len(matrix), outputs)) for _ in model.ensembles]
    for rows, leaves in leaves_of(team, model, nodes, matrix):
        for margins, part in zip(found, margins_of(model, nodes, leaves), strict=True):
            margins[rows] = part
    return [_linked(model, each) for each in found]


def leaves_of(team: Team, model: Model, nodes: Nodes, matrix: Floats) -> Iterator[tuple[slice, Ints32]]:
    """At the active party: the leaf of each new row in each tree, trees × rows, for one run of rows after the other."""
    features = apply_bins(model.part.binning, matrix, team.active)
    if missing := [owner for owner in model.owners if owner not in team.owners]:
        raise InputError(f"the model needs columns of {', '.join(missing)}, which is not in this job")
    helpers = [owner for owner in model.owners if owner != model.part.party]
    for owner in helpers:
        team.session.send(owner, messages.Sort(bytes.fromhex(model.part.name), len(features)))
    rows, step = len(features), max(_MOST_AT_ONCE // max(nodes.trees, 1), 1)
    for begin in range(0, rows, step):
        end = min(begin + step, rows)
        yield slice(begin, end), _leaves(team, model, nodes, features, begin, end)
        if helpers:
            team.session.progress(end, rows)
    for owner in helpers:
        team.session.send(owner, messages.Sorted())


def help_predict(team: Team, part: Part, matrix: Floats, *, same_rows: bool = False, what: str = "predicted") -> None:
    """At a passive party: say on which side of its splits the rows fall, as they are asked about.

    What it answers counts with what it answered in training if these are the `same_rows`, or else by `what` it is for.
    """
    digest = team.digest if same_rows else f"{team.digest} {what}"
    session, active = team.session, team.active
    features, layout, table = apply_bins(part.binning, matrix, session.party), part.binning.layout, part.table
    begin = session.recv(active, messages.Sort)
    if begin.name.hex() != part.name:
        raise ProtocolError(f"{active} predicts with another model than {session.party} has a part of")
    if begin.rows != len(features):
        raise ProtocolError(f"{active} has {begin.rows} rows and {session.party} {len(features)}: align first")
    run, most = _Run(), len(table.splits) * (4 + len(features) // 8)
    while not isinstance(
        request := session.recv(active, messages.Reached, messages.Needed, messages.Sorted, at_most=most),
        messages.Sorted,
    ):
        if isinstance(request, messages.Needed) != part.hide_nodes:
            raise ProtocolError(f"{active} asks for sides in another way than the model was grown with (hide_nodes)")
        reach = run.asked(request, len(features), len(table.splits), active)
        count_bits(team.products, digest, len(features), int(np.bitwise_count(reach).sum()))
        sides = []
        for number, bits in zip(request.numbers.tolist(), reach, strict=True):
            rows = request.begin + np.flatnonzero(np.unpackbits(bits, count=request.count))
            sides.append(right_of(table, layout, features, rows, number))
        answer = np.packbits(np.concatenate(sides))
        session.send(active, messages.AllSides(answer) if part.hide_nodes else messages.Sides(answer))
        session.progress(request.begin + request.count, len(features))


@dataclass(eq=False)
class _Run:
    """The run of rows that is asked about now, and by split a bit for each of its rows that has been."""

    begin: int = 0
    end: int = 0
    known: dict[int, Bytes] = field(default_factory=dict)

    def asked(self, request: messages.Reached | messages.Needed, rows: int, splits: int, sender: str) -> Bytes:
        """For each split that is asked about a bit for each row; refused if any was asked about before.

        Runs of rows come one after the other, so only one has to be remembered.
        """
        kind, numbers, begin, count = type(request).__name__, request.numbers, request.begin, request.count
        if count < 1 or (begin, begin + count) != (self.begin, self.end):
            if not (self.end <= begin < begin + count <= rows):
                raise ProtocolError(f"invalid {kind} from {sender}: rows that are not there, or not in order")
            self.begin, self.end = begin, begin + count
            self.known.clear()
        if not are_lists(numbers) or not numbers.size or len(set(numbers.tolist())) < numbers.size:
            raise ProtocolError(f"invalid {kind} from {sender}: no splits, or repeated ones")
        if numbers.min() < 0 or numbers.max() >= splits:
            raise ProtocolError(f"invalid {kind} from {sender}: splits that are not there")
        if isinstance(request, messages.Reached):
            flat = unpacked(request.reach, len(numbers) * count, kind, sender)
            reach = np.packbits(flat.reshape(len(numbers), count), axis=1)
        else:
            reach = np.tile(np.packbits(np.ones(count, bool)), (len(numbers), 1))
        if not reach.any(axis=1).all():
            raise ProtocolError(f"invalid {kind} from {sender}: a split that no row reaches")
        for number, bits in zip(numbers.tolist(), reach, strict=True):
            before = self.known.get(number)
            if before is not None and (before & bits).any():
                raise ProtocolError(f"invalid {kind} from {sender}: a row and split that were asked about before")
            self.known[number] = bits if before is None else before | bits
        return reach


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of all trees: the first child of each, by which split it is split, its values.

    Splits of all owners are numbered on, those of the owner at a place from `begins[place]` on. A leaf leads to itself,
    by split 0, of which every row is on the left.
    """

    roots: Ints32
    depth: int
    first: Ints32
    split: Ints32
    values: Floats
    begins: tuple[int, ...]

    @classmethod
    def of(cls, model: Model) -> Nodes:
        trees = [tree for ensemble in model.ensembles for tree in ensemble.trees]
        lengths = [len(tree.first) for tree in trees]
        roots = np.cumsum([0, *lengths])[:-1].astype(np.int64)
        first = np.array([child for tree in trees for child in tree.first], np.int64)
        owner = np.array([owner for tree in trees for owner in tree.owner], np.int64)
        split = np.array([split for tree in trees for split in tree.split], np.int64)
        inner, values = first != LEAF, [value for tree in trees for value in tree.values]
        splits = [int(split[inner & (owner == place)].max(initial=-1)) + 1 for place in range(len(model.owners))]
        begins = np.cumsum([1, *splits])
        return cls(
            roots.astype(np.int32),
            max(map(_depth, trees)),
            np.where(inner, first + np.repeat(roots, lengths), np.arange(len(first))).astype(np.int32),
            np.where(inner, split + begins[owner], 0).astype(np.int32),
            np.array(values).reshape(len(first), -1),
            tuple(begins.tolist()),
        )

    @property
    def trees(self) -> int:
        return len(self.roots)


def _depth(tree: Tree) -> int:
    depths = [0] * len(tree.first)
    for node, first in enumerate(tree.first):
        if first != LEAF:
            depths[first] = depths[first + 1] = depths[node] + 1
    return max(depths)


def _leaves(team: Team, model: Model, nodes: Nodes, features: Bins, begin: int, end: int) -> Ints32:
    """For a run of rows the leaf of each in each tree, trees × rows."""
    count, mine = end - begin, model.own_place
    sides, known = np.zeros((nodes.begins[-1], count), bool), np.zeros((nodes.begins[-1], count), bool)
    known[0] = True
    own, table, layout = slice(nodes.begins[mine], nodes.begins[mine + 1]), model.part.table, model.part.binning.layout
    for number in range(own.stop - own.start):
        sides[own.start + number] = right_of(table, layout, features, slice(begin, end), number)
    known[own] = True
    at, rows = np.repeat(nodes.roots[:, np.newaxis], count, axis=1), np.arange(count)
    if compiled := worthwhile(at.size * nodes.depth):
        from unpooled.vertical.trees import kernels
    for _ in range(nodes.depth):
        reach = np.zeros(sides.shape, bool)
        if compiled:
            kernels.reached(nodes.split, at, reach)
        else:
            met = nodes.split.take(at).astype(np.int64)
            met *= count
            met += rows
            reach.reshape(-1)[met] = True
        np.greater(reach, known, out=reach)
        for place, owner in enumerate(model.owners):
            theirs = slice(nodes.begins[place], nodes.begins[place + 1])
            if reach[theirs].any():
                _ask(team, model, owner, begin, reach[theirs], sides[theirs], known[theirs])
        if compiled:
            kernels.go_on(nodes.first, nodes.split, at, sides)
        else:
            at = nodes.first.take(at)
            at += sides.reshape(-1).take(met)
    return at


def _ask(team: Team, model: Model, owner: str, begin: int, reach: Bools, sides: Bools, known: Bools) -> None:
    """Fill in a passive party's sides, splits × rows; nothing is asked about twice."""
    numbers = np.flatnonzero(reach.view(np.uint8).max(axis=1))  # faster than `any`
    count, session = reach.shape[1], team.session
    if model.parameters.hide_nodes:
        session.send(owner, messages.Needed(begin, count, numbers.astype(np.int32)))
        answer = session.recv(owner, messages.AllSides, at_most=len(numbers) * count // 8).sides
        sides[numbers] = unpacked(answer, len(numbers) * count, "AllSides", owner).reshape(len(numbers), count)
        known[numbers] = True
    else:
        session.send(owner, messages.Reached(begin, count, numbers.astype(np.int32), np.packbits(reach[numbers])))
        reached = int(np.count_nonzero(reach))
        told = unpacked(session.recv(owner, messages.Sides, at_most=reached // 8).sides, reached, "Sides", owner)
        if worthwhile(reach.size):
            from unpooled.vertical.trees import kernels

            kernels.spread(told.view(np.uint8), reach.view(np.uint8), sides.view(np.uint8))
        else:
            sides[reach] = told
        known |= reach


def margins_of(model: Model, nodes: Nodes, leaves: NDArray[np.int32]) -> Iterator[Floats]:
    """For each ensemble what it says of rows before that becomes a probability; a forest's trees say probabilities.

    The leaves' values are added up tree by tree, in the order of growing, as it was done in training.
    """
    parameters, tree = model.parameters, 0
    outputs = outputs_of(parameters)
    forest = isinstance(parameters, ForestParameters)
    for ensemble in model.ensembles:
        base = np.array(ensemble.base)
        total = np.tile(np.zeros_like(base) if forest else base, (leaves.shape[1], 1))
        for number in range(len(ensemble.trees)):
            if forest:
                total += nodes.values[leaves[tree]]
            else:
                total[:, number % outputs] += nodes.values[:, 0].take(leaves[tree])
            tree += 1
        yield base + total / len(ensemble.trees) if forest else total


def _linked(model: Model, margins: Floats) -> Floats:
    return margins if isinstance(model.parameters, ForestParameters) else probabilities(model.parameters, margins)
