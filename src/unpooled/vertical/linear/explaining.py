"""What each column adds to what linear models say of a row: its weight times how far the row is from the mean.

The mean is that of the training rows, all of which count the same here. The base is what the models say of a row with
the mean in every column.

1. the active party says which rows are explained, for which output, and by how much a step of the score moves a number
2. each passive party says what its columns add together
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.explained import Contributions, rows_told, tell_rows
from unpooled.vertical.linear.messages import ExplainedOutputs, PartyContributions
from unpooled.vertical.linear.model import LinearModels, LinearParts
from unpooled.vertical.linear.residuals import COLUMNS, WEIGHTS, encoded_columns
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.team import Team


def lacks(kept: LinearModels | LinearParts) -> str:
    """What a party's part of models of an earlier version lacks to be explained."""
    part = kept.part if isinstance(kept, LinearModels) else kept
    if all(one.means or not one.columns for one in part.parts):
        return ""
    return "the means of its columns, so it cannot be explained: train it again"


def contributions(team: Team, model: LinearModels, matrix: Floats, rows: Ints, outputs: Ints) -> Contributions:
    """At the active party: what columns add to the scores of some rows, each of one output; means over the models."""
    scales = np.array([one.scale for one in model.models])
    own, base = _added(model.part, matrix[rows], outputs, scales)
    base = base + mean_of_models([one.centre + one.scale * np.array(one.intercept)[outputs] for one in model.models])
    tell_rows(team, rows)  # 1
    for owner in team.passive:
        team.session.send(owner, ExplainedOutputs(outputs.astype(np.int32), scales))
    others = {}
    for owner in team.passive:
        told = team.session.recv(owner, PartyContributions)  # 2
        for values in (told.totals, told.means):
            if values.shape != rows.shape or not np.isfinite(values).all():
                raise ProtocolError(f"invalid PartyContributions from {owner}: not a number for each row")
        others[owner], base = told.totals, base + told.means
    return Contributions(base, own, others, base + own.sum(axis=1) + sum(others.values()))


def help_contributions(team: Team, part: LinearParts, matrix: Floats, most: int) -> tuple[Ints, Floats]:
    """At a passive party: which rows are explained, at the most so many, and what its columns add, rows × columns."""
    active, first = team.active, part.parts[0]
    rows = rows_told(team, len(matrix), most)  # 1
    said = team.session.recv(active, ExplainedOutputs)
    fits = said.outputs.shape == rows.shape and said.scales.shape == (len(part.parts),)
    if not fits or ((said.outputs < 0) | (said.outputs >= first.outputs)).any() or not np.isfinite(said.scales).all():
        raise ProtocolError(f"invalid ExplainedOutputs from {active}: not an output for each row, or no scales")
    found, means = _added(part, matrix[rows], said.outputs.astype(np.int64), said.scales)
    team.session.send(active, PartyContributions(found.sum(axis=1), means))  # 2
    return rows, found


def _added(part: LinearParts, matrix: Floats, outputs: Ints, scales: Floats) -> tuple[Floats, Floats]:
    """What each column adds in some rows, rows × columns, and all of them in the mean row, for the output of each."""
    first = part.parts[0]
    if lacking := lacks(part):
        raise InputError(f"{part.party}: the model lacks {lacking}")
    means = np.array(first.means)
    away = COLUMNS.decode(encoded_columns(matrix, first.columns, first.limit, part.party)) - means
    each = zip(part.parts, scales.tolist(), strict=True)
    weights = mean_of_models([scale * _weights(one.weights, one.outputs) for one, scale in each])
    of_rows = weights.T[outputs]
    added: Floats = away * of_rows
    return added, (means * of_rows).sum(axis=1)


def _weights(rows: Sequence[Sequence[float]], outputs: int) -> Floats:
    """Weights as they count in scores, columns × outputs."""
    return WEIGHTS.decode(WEIGHTS.encode(np.array(rows).reshape(len(rows), outputs), "weights"))
