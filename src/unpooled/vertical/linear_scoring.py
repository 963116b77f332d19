"""Using linear models on new rows, jointly: the active party learns each row's score, and so the others' sum.

1. the active party names the model, and a random tag
2. each passive party adds to its part of the scores random numbers that cancel out among the passive parties, and sends
   that; a single one has nothing to hide behind
3. the active party adds up
"""

from __future__ import annotations

import secrets

import numpy as np

from unpooled.codec import Floats, Ring
from unpooled.errors import InputError, ProtocolError
from unpooled.secure.engine import Engine
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.randomness import expand
from unpooled.vertical.linear_messages import PartialScores, Score
from unpooled.vertical.linear_model import LinearModel, LinearPart
from unpooled.vertical.linear_parameters import LinearParameters, outputs_of
from unpooled.vertical.numbers import sigmoid, softmax
from unpooled.vertical.residuals import encoded_columns, scores
from unpooled.vertical.team import Team

_TAG_BYTES = 16
_SCORES = FixedPoint(fraction_bits=24, largest=2.0**26)


def score(team: Team, model: LinearModel, matrix: Floats) -> Floats:
    """At the active party: the scores of new rows, rows × outputs."""
    if missing := [owner for owner in model.owners if owner not in team.owners]:
        raise InputError(f"the model needs columns of {', '.join(missing)}, who takes no part")
    total = _own(model.part, outputs_of(model.parameters), matrix)
    helpers = [owner for owner in model.owners if owner != model.part.party]
    tag = secrets.token_bytes(_TAG_BYTES)
    for owner in helpers:
        team.session.send(owner, Score(bytes.fromhex(model.part.name), len(matrix), tag))
    for owner in helpers:
        values = team.session.recv(owner, PartialScores).values
        if values.shape != total.shape:
            raise ProtocolError(f"{owner} sent PartialScores for other rows than were asked about")
        total = total + values
    return _SCORES.decode(total.view(np.int64)) + np.array(model.intercept)


def help_score(team: Team, part: LinearPart, matrix: Floats, outputs: int) -> None:
    """At a passive party: send its part of the scores, hidden among those of the other passive parties."""
    session, active = team.session, team.active
    asked = session.recv(active, Score)
    if asked.name.hex() != part.name:
        raise ProtocolError(f"{active} scores with another model than {session.party} has a part of")
    if asked.rows != len(matrix) or len(asked.tag) != _TAG_BYTES:
        raise ProtocolError(f"{active} has {asked.rows} rows and {session.party} {len(matrix)}: align first")
    own = _own(part, outputs, matrix)
    session.send(active, PartialScores(own + _cancelling(team, team.products, asked.tag, own.shape)))


def predict_proba(parameters: LinearParameters, found: Floats) -> Floats:
    """Scores as probabilities, rows × classes."""
    if not parameters.classes:
        raise InputError("a number has no probabilities")
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


def numbers_of(model: LinearModel, found: Floats) -> Floats:
    """Scores as the numbers they stand for."""
    numbers: Floats = model.centre + model.scale * found[:, 0]
    return numbers


def _own(part: LinearPart, outputs: int, matrix: Floats) -> Ring:
    """One party's part of the scores as whole numbers mod 2^64."""
    columns = encoded_columns(matrix, part.columns, part.limit, part.party)
    found = scores(columns, np.array(part.weights).reshape(len(part.columns), outputs), part.party)
    return _SCORES.encode(found, "scores").view(np.uint64)


def _cancelling(team: Team, engine: Engine, tag: bytes, shape: tuple[int, ...]) -> Ring:
    """Numbers that are gone when those of all passive parties are added up."""
    total = np.zeros(shape, np.uint64)
    for other in team.passive:
        if other != engine.party:
            numbers = expand(engine.mask_seeds[other], b"scores" + tag, shape)
            total = total + numbers if engine.comes_before(other) else total - numbers
    return total
