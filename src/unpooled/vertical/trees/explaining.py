"""What each column adds to what trees say of a row: how far its splits move the expected value along the row's path.

The expected value of a node is the mean of its leaves, weighted by their training rows (`cover`). From the root to the
leaf of a row each split moves it, and that counts for the split's column. So the base, which is the expected value at
the roots, and what all columns add make up the row's margin. Others call these approximate or Saabas contributions.

1. the active party says which rows are explained
2. each passive party says which of its splits are of the same column, which the active party saw when trees were grown
3. it says on which side of its splits these rows fall, as when rows are scored
4. the active party tells each passive party what its own columns add, and nothing of others'
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Floats, Ints, are_lists
from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.explained import Contributions, rows_told, tell_rows
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.grower.context import LEAF
from unpooled.vertical.trees.model import Model, Part, Tree
from unpooled.vertical.trees.parameters import ForestParameters, outputs_of
from unpooled.vertical.trees.predictor import Nodes, help_predict, leaves_of, margins_of


def lacks(kept: Model | Part) -> str:
    """What a model of an earlier version lacks to be explained; a passive party's part lacks nothing."""
    trees = [tree for ensemble in kept.ensembles for tree in ensemble.trees] if isinstance(kept, Model) else []
    if all(tree.cover for tree in trees):
        return ""
    return "how many training rows its nodes had (cover), so it cannot be explained: train it again"


def contributions(team: Team, model: Model, matrix: Floats, rows: Ints, outputs: Ints) -> Contributions:
    """At the active party: what columns add to the margins of some rows, each of one output; means over the ensembles.

    A party alone (`team.alone()`) has all columns.
    """
    if lacking := lacks(model):
        raise InputError(f"{team.active}: the model lacks {lacking}")
    tell_rows(team, rows)  # 1
    columns = [
        _own_columns(model.part) if owner == model.part.party else _columns_at(team, owner) for owner in model.owners
    ]  # 2
    nodes = Nodes.of(model)
    each = [leaves for _, leaves in leaves_of(team, model, nodes, matrix[rows])]  # 3
    leaves = np.concatenate(each or [np.empty((nodes.trees, 0), np.int32)], axis=1)
    expected = np.concatenate([_expected_values(tree) for ensemble in model.ensembles for tree in ensemble.trees])
    base, found = _along_paths(model, nodes, leaves, outputs, expected, _columns_of_splits(model, nodes, columns))
    own, others, begin = np.zeros((len(rows), len(model.part.columns))), dict[str, Floats](), 0
    for owner, of_splits in zip(model.owners, columns, strict=True):
        used = np.unique(of_splits)
        part, begin = found[:, begin : begin + len(used)], begin + len(used)
        if owner == model.part.party:
            own[:, used] = part
        else:
            team.session.send(owner, messages.ColumnContributions(np.ascontiguousarray(part)))  # 4
            others[owner] = part.sum(axis=1)
    margins = mean_of_models(list(margins_of(model, nodes, leaves)))
    return Contributions(base, own, others, margins[np.arange(len(rows)), outputs])


def help_contributions(team: Team, part: Part, matrix: Floats, most: int) -> tuple[Ints, Floats]:
    """At a passive party: which rows are explained, at the most so many, and what its columns add, rows × columns."""
    session, active = team.session, team.active
    rows, features = rows_told(team, len(matrix), most), [feature for feature, _, _ in part.splits]  # 1
    session.send(active, messages.SplitColumns(np.array(features, np.int32)))  # 2
    help_predict(team, part, matrix[rows], what="explained")  # 3
    used, found = np.unique(np.array(features, np.int64)), np.zeros((len(rows), len(part.columns)))
    told = session.recv(active, messages.ColumnContributions, at_most=found.nbytes).values  # 4
    if told.shape != (len(rows), len(used)) or not np.isfinite(told).all():
        raise ProtocolError(f"invalid ColumnContributions from {active}: not a number for each row and column")
    found[:, [part.binning.features[feature].column for feature in used]] = told
    return rows, found


def _own_columns(part: Part) -> Ints:
    """Which of the party's columns each of its splits is of."""
    return np.array([part.binning.features[feature].column for feature, _, _ in part.splits], np.int64)


def _columns_at(team: Team, owner: str) -> Ints:
    """The same of another party, whose columns have numbers that only it understands (2)."""
    columns = team.session.recv(owner, messages.SplitColumns).columns
    if not are_lists(columns) or (columns < 0).any():
        raise ProtocolError(f"invalid SplitColumns from {owner}: not a column for each split")
    return columns.astype(np.int64)


def _columns_of_splits(model: Model, nodes: Nodes, columns: Sequence[Ints]) -> Ints:
    """For each split, as `nodes` has them numbered, the place of its column among those with splits of all parties."""
    found, begin = np.zeros(nodes.begins[-1], np.int64), 0
    for place, (owner, of_splits) in enumerate(zip(model.owners, columns, strict=True)):
        splits = nodes.begins[place + 1] - nodes.begins[place]
        used, which = np.unique(of_splits, return_inverse=True)
        if len(which) < splits:
            raise ProtocolError(f"invalid SplitColumns from {owner}: fewer splits than the model has")
        found[nodes.begins[place] : nodes.begins[place + 1]] = begin + which[:splits]
        begin += len(used)
    return found


def _expected_values(tree: Tree) -> Floats:
    """For each node the mean value of its leaves, weighted by their training rows; nodes × outputs."""
    expected, cover = np.array(tree.values), tree.cover
    for node in reversed(range(len(tree.first))):
        if (left := tree.first[node]) != LEAF:
            both = cover[left] * expected[left] + cover[left + 1] * expected[left + 1]
            expected[node] = both / (cover[left] + cover[left + 1])
    return expected


def _along_paths(
    model: Model, nodes: Nodes, leaves: NDArray[np.int32], outputs: Ints, expected: Floats, columns: Ints
) -> tuple[Floats, Floats]:
    """The base of each row, and what each column adds, rows × columns: means over ensembles, added up tree by tree."""
    forest, width, inner = isinstance(model.parameters, ForestParameters), outputs_of(model.parameters), nodes.split > 0
    parents = np.full(len(nodes.first), -1)
    parents[nodes.first[inner]] = parents[nodes.first[inner] + 1] = np.flatnonzero(inner)
    bases, each, tree, rows = list[Floats](), list[Floats](), 0, np.arange(leaves.shape[1])
    for ensemble in model.ensembles:
        base, found = np.zeros(len(rows)), np.zeros((len(rows), int(columns.max(initial=-1)) + 1))
        for number in range(len(ensemble.trees)):
            chosen = rows if forest else rows[outputs == number % width]
            which = outputs[chosen] if forest else np.zeros(len(chosen), np.int64)
            at: Ints = leaves[tree, chosen].astype(np.int64)
            base[chosen] += expected[nodes.roots[tree], which]
            while (going := parents[at] >= 0).any():
                chosen, which, at = chosen[going], which[going], at[going]
                above = parents[at]
                found[chosen, columns[nodes.split[above]]] += expected[at, which] - expected[above, which]
                at = above
            tree += 1
        scale = len(ensemble.trees) if forest else 1
        bases.append(np.array(ensemble.base)[outputs] + base / scale)
        each.append(found / scale)
    return mean_of_models(bases), mean_of_models(each)
