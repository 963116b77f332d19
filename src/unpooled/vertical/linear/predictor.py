"""Using linear models on new rows, jointly: the active party learns each row's score, and so the others' sum.

Several models of the same columns are used at once. For all of them together
1. the active party names the models
2. each passive party adds to its part of the scores random numbers that cancel out among the passive parties, and sends
   that; a single one has nothing to hide behind
3. the active party adds up
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Floats, Ring
from unpooled.errors import InputError, ProtocolError
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.randomness import expand
from unpooled.vertical.linear.messages import PartialScores, Score
from unpooled.vertical.linear.model import LinearModel, LinearPart
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.linear.residuals import encoded_columns, scores
from unpooled.vertical.numbers import sigmoid, softmax
from unpooled.vertical.team import Team

_SCORES = FixedPoint(fraction_bits=24, largest=2.0**26)


def predict(team: Team, model: LinearModel, matrix: Floats) -> Floats | NDArray[np.str_]:
    """At the active party: for each new row the name of its most likely class, or its number."""
    found = score(team, model, matrix)
    if not model.parameters.classes:
        numbers: Floats = model.centre + model.scale * found[:, 0]
        return numbers
    likely = (found[:, 0] > 0).astype(int) if model.parameters.classes == 2 else found.argmax(axis=1)
    names: NDArray[np.str_] = np.array(model.classes)[likely]
    return names


def predict_proba(team: Team, model: LinearModel, matrix: Floats) -> Floats:
    """At the active party: the probability of each class for each new row, rows × classes."""
    if not model.parameters.classes:
        raise InputError("a regression model has no probabilities")
    return probabilities(model.parameters, score(team, model, matrix))


def help_predict(team: Team, part: LinearPart, matrix: Floats) -> None:
    """At a passive party: send its part of the scores, hidden among those of the other passive parties."""
    help_predict_many(team, [part], matrix)


def help_predict_many(team: Team, parts: Sequence[LinearPart], matrix: Floats) -> None:
    """At a passive party: send its part of several models' scores, as for one."""
    session, active, engine = team.session, team.active, team.products
    asked = session.recv(active, Score)  # 1
    if [name.hex() for name in asked.names] != [part.name for part in parts]:
        raise ProtocolError(f"{active} asks for scores by another model than {session.party} has a part of")
    if asked.rows != len(matrix):
        raise ProtocolError(f"{active} has {asked.rows} rows and {session.party} {len(matrix)}: align first")
    total = _own(parts, matrix)
    engine.scored += 1  # numbers that cancel out are never used twice
    for other in team.passive:  # 2
        if other != session.party:
            numbers = expand(engine.mask_seeds[other], b"scores" + engine.scored.to_bytes(8, "little"), total.shape)
            total = total + numbers if engine.comes_before(other) else total - numbers
    session.send(active, PartialScores(total))


def score(team: Team, model: LinearModel, matrix: Floats) -> Floats:
    """At the active party: the scores of new rows, rows × outputs."""
    (found,) = score_many(team, [model], matrix)
    return found


def score_many(team: Team, models: Sequence[LinearModel], matrix: Floats) -> list[Floats]:
    """At the active party: for each model the scores of new rows, all of them for one message of each party."""
    for model in models:
        if set(model.owners) != set(team.owners):
            raise InputError(
                f"the model belongs to {', '.join(model.owners)}; the parties are {', '.join(team.owners)}"
            )
    total = _own([model.part for model in models], matrix)
    names = tuple(bytes.fromhex(model.part.name) for model in models)
    for owner in team.passive:
        team.session.send(owner, Score(names, len(matrix)))  # 1
    for owner in team.passive:
        values = team.session.recv(owner, PartialScores, at_most=total.nbytes).values
        if values.shape != total.shape:
            raise ProtocolError(f"invalid PartialScores from {owner}: not a number for each row and output")
        total = total + values  # 3
    found = _SCORES.decode(total.view(np.int64)) + np.concatenate([model.intercept for model in models])
    return np.split(found, list(accumulate(model.part.outputs for model in models))[:-1], axis=1)


def probabilities(parameters: LinearParameters, found: Floats) -> Floats:
    """Scores as probabilities, rows × classes."""
    if parameters.classes == 2:
        second = sigmoid(found[:, 0])
        return np.stack([1.0 - second, second], axis=1)
    if parameters.several == "softmax":
        return softmax(found)
    each = sigmoid(found)
    total = each[:, :1].copy()
    for k in range(1, each.shape[1]):
        total += each[:, k : k + 1]
    return each / total


def _own(parts: Sequence[LinearPart], matrix: Floats) -> Ring:
    """One party's part of the scores as whole numbers mod 2^64, rows × the outputs of all models."""
    if not parts:
        raise InputError("models: none is given to score with")
    first = parts[0]
    if any((part.columns, part.limit) != (first.columns, first.limit) for part in parts):
        raise InputError(f"{first.party}: models that score together have the same columns, and the same limit")
    weights = [np.array(part.weights).reshape(len(part.columns), part.outputs) for part in parts]
    columns = encoded_columns(matrix, first.columns, first.limit, first.party)
    return _SCORES.encode(scores(columns, np.concatenate(weights, axis=1), first.party), "scores").view(np.uint64)
