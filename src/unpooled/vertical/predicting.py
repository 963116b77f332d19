"""Using trees on new rows, jointly: level by level for many rows and all trees at once.

The active party says which rows reach which splits of a passive one, and is told on which side they fall. With
`hide_nodes` it says only which splits it needs, and is told the sides of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unpooled.codec import Bools, Floats, Ints
from unpooled.errors import InputError, ProtocolError
from unpooled.vertical import messages
from unpooled.vertical.binning import apply_bins
from unpooled.vertical.boosting import probabilities
from unpooled.vertical.ground import LEAF
from unpooled.vertical.layout import Bins
from unpooled.vertical.model import Model, Part
from unpooled.vertical.parameters import ForestParameters, outputs_of
from unpooled.vertical.splits import right_of
from unpooled.vertical.standing import packed, unpacked
from unpooled.vertical.team import Team

_MOST_AT_ONCE = 4_000_000  # rows × trees


def predict(team: Team, model: Model, matrix: Floats) -> NDArray[np.str_] | Floats:
    """At the active party: for each new row the most probable class, by name, or the number."""
    if not model.parameters.classes:
        numbers: Floats = _mean(scores(team, model, matrix))[:, 0]
        return numbers
    names: NDArray[np.str_] = np.array(model.classes)[predict_proba(team, model, matrix).argmax(axis=1)]
    return names


def predict_proba(team: Team, model: Model, matrix: Floats) -> Floats:
    """At the active party: the probability of each class for new rows, rows × classes."""
    if not model.parameters.classes:
        raise InputError("a number has no probabilities")
    found = _mean(scores(team, model, matrix))
    return found if model.parameters.classes > 2 else np.concatenate([1.0 - found, found], axis=1)


def scores(team: Team, model: Model, matrix: Floats) -> list[Floats]:
    """At the active party: for each ensemble the probabilities or numbers of new rows, rows × outputs.

    For two classes there is one output, the probability of the second.
    """
    features = apply_bins(model.part.binning, matrix, team.active)
    if missing := [owner for owner in model.owners if owner not in team.owners]:
        raise InputError(f"the model needs columns of {', '.join(missing)}, who takes no part")
    nodes = _Nodes.of(model)
    helpers = [owner for owner in model.owners if owner != model.part.party]
    for owner in helpers:
        team.session.send(owner, messages.Sort(bytes.fromhex(model.part.name), len(features)))
    rows, step = len(features), max(_MOST_AT_ONCE // max(nodes.trees, 1), 1)
    leaves = np.empty((rows, nodes.trees), np.int32)
    for begin in range(0, rows, step):
        end = min(begin + step, rows)
        leaves[begin:end] = _leaves(team, model, nodes, features, begin, end)
        if helpers:
            team.session.progress(end, rows)
    for owner in helpers:
        team.session.send(owner, messages.Sorted())
    return list(_scores(model, nodes, leaves))


def help_predict(team: Team, part: Part, matrix: Floats) -> None:
    """At a passive party: say on which side of its splits the rows fall, as they are asked about."""
    session, active = team.session, team.active
    features, layout, table = apply_bins(part.binning, matrix, session.party), part.binning.layout, part.table
    begin = session.recv(active, messages.Sort)
    if begin.name.hex() != part.name:
        raise ProtocolError(f"{active} predicts with another model than {session.party} has a part of")
    if begin.rows != len(features):
        raise ProtocolError(f"{active} has {begin.rows} rows and {session.party} {len(features)}: align first")
    while True:
        request = session.recv(active, messages.Reached, messages.Needed, messages.Sorted)
        if isinstance(request, messages.Sorted):
            return
        if isinstance(request, messages.Needed) != part.hide_nodes:
            raise ProtocolError(f"{active} asks for sides in another way than the model was grown with (hide_nodes)")
        known = 0 <= request.begin <= request.begin + request.count <= len(features) and request.numbers.size > 0
        known = known and request.numbers.min() >= 0 and request.numbers.max() < len(table.splits)
        if not known or request.numbers.ndim != 1 or len(np.unique(request.numbers)) < request.numbers.size:
            raise ProtocolError(f"{active} asks about rows or splits that are not there, or twice")
        shape = len(request.numbers), request.count
        if isinstance(request, messages.Reached):
            reach = unpacked(request.reach, shape[0] * shape[1], active).reshape(shape)
        else:
            reach = np.ones(shape, bool)
        split, row = np.nonzero(reach)
        sides = packed(right_of(table, layout, features, row + request.begin, request.numbers[split].astype(np.int64)))
        whole = isinstance(request, messages.Needed)
        session.send(active, messages.AllSides(sides) if whole else messages.Sides(sides))
        session.progress(request.begin + request.count, len(features))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of all trees: the first child of each, by whom and by which split it is split, its values."""

    roots: Ints
    first: Ints
    owner: Ints
    split: Ints
    values: Floats

    @classmethod
    def of(cls, model: Model) -> _Nodes:
        trees = [tree for ensemble in model.ensembles for tree in ensemble.trees]
        lengths = [len(tree.first) for tree in trees]
        roots = np.cumsum([0, *lengths])[:-1].astype(np.int64)
        shift = np.repeat(roots, lengths)
        first = np.array([child for tree in trees for child in tree.first], np.int64)
        values = [value for tree in trees for value in tree.values]
        return cls(
            roots,
            np.where(first == LEAF, LEAF, first + shift),
            np.array([owner for tree in trees for owner in tree.owner], np.int64),
            np.array([split for tree in trees for split in tree.split], np.int64),
            np.array(values).reshape(len(first), -1),
        )

    @property
    def trees(self) -> int:
        return len(self.roots)


def _leaves(team: Team, model: Model, nodes: _Nodes, features: Bins, begin: int, end: int) -> NDArray[np.int32]:
    """For a run of rows the leaf of each in each tree."""
    count = end - begin
    at = np.tile(nodes.roots, (count, 1))
    table, layout = model.part.table, model.part.binning.layout
    while (inner := nodes.first[at] != LEAF).any():
        right = np.zeros(at.shape, bool)
        for place, owner in enumerate(model.owners):
            row, tree = np.nonzero(inner & (nodes.owner[at] == place))
            if not row.size:
                continue
            split = nodes.split[at[row, tree]]
            if place == model.own_place:
                right[row, tree] = right_of(table, layout, features, row + begin, split)
            else:
                right[row, tree] = _asked(team, model, owner, begin, count, row, split)
        at = np.where(inner, nodes.first[at] + right, at)
    return at.astype(np.int32)


def _asked(team: Team, model: Model, owner: str, begin: int, count: int, row: Ints, split: Ints) -> Bools:
    """A passive party's sides for pairs of a row and a split; each is asked about once."""
    numbers, place = np.unique(split, return_inverse=True)
    sides = np.zeros((len(numbers), count), bool)
    if model.parameters.hide_nodes:
        team.session.send(owner, messages.Needed(begin, count, numbers.astype(np.int32)))
        answer = team.session.recv(owner, messages.AllSides).sides
        sides = unpacked(answer, sides.size, owner).reshape(sides.shape)
    else:
        reach = np.zeros(sides.shape, bool)
        reach[place, row] = True
        team.session.send(owner, messages.Reached(begin, count, numbers.astype(np.int32), packed(reach.reshape(-1))))
        sides[reach] = unpacked(team.session.recv(owner, messages.Sides).sides, int(reach.sum()), owner)
    return sides[place, row]


def _mean(each: Sequence[Floats]) -> Floats:
    """The mean over ensembles, added up in their order."""
    total = each[0]
    for found in each[1:]:
        total = total + found
    return total / len(each)


def _scores(model: Model, nodes: _Nodes, leaves: NDArray[np.int32]) -> Iterator[Floats]:
    """Add up the leaves' values tree by tree, in the order of growing, as it was done in training."""
    parameters, tree = model.parameters, 0
    outputs = outputs_of(parameters)
    forest = isinstance(parameters, ForestParameters)
    for ensemble in model.ensembles:
        base = np.array(ensemble.base)
        total = np.tile(np.zeros_like(base) if forest else base, (len(leaves), 1))
        for number in range(len(ensemble.trees)):
            values = nodes.values[leaves[:, tree]]
            if forest:
                total += values
            else:
                total[:, number % outputs] += values[:, 0]
            tree += 1
        if isinstance(parameters, ForestParameters):
            yield base + total / len(ensemble.trees)
        else:
            yield probabilities(parameters, total)
