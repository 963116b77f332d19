"""Linear models for columns that several parties hold: fitting, at the active party and at the others.

`fit` at the active party and `help_fit` at each passive one go together; `linear_scoring` uses what they leave. No
party's scores are ever in clear while a model is fitted. A party alone (`team.alone()`) fits to pooled columns.

>>> from unpooled.vertical.linear_scoring import predict
>>> from unpooled.vertical.team import alone
>>> rng = np.random.default_rng(1)
>>> matrix = rng.normal(size=(2000, 3))
>>> target = Target((matrix[:, 0] > matrix[:, 1]).astype(float))
>>> fitted = fit(alone(), LinearParameters(), Columns(matrix, ("a", "b", "c")), target, ("no", "yes"))
>>> predict(alone(), fitted.model, np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])).tolist()
['yes', 'no']
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from unpooled.codec import Floats, Ints
from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.linear_descent import descend, order_of
from unpooled.vertical.linear_final import descend_unseen
from unpooled.vertical.linear_messages import BeginLinear, RowWeights, Width
from unpooled.vertical.linear_model import LinearModel, LinearPart, Pace
from unpooled.vertical.linear_parameters import LinearParameters, outputs_of
from unpooled.vertical.linear_side import Side, State, begin_at
from unpooled.vertical.linear_weighted import MOST_POWERS, Weighing, weighing_of
from unpooled.vertical.numbers import mean_of
from unpooled.vertical.residuals import COLUMNS, MOST_COLUMNS, constants, encoded_columns
from unpooled.vertical.targets import Target, checked_weights
from unpooled.vertical.team import Team
from unpooled.vertical.trees import Columns

__all__ = ["Columns", "FittedLinear", "LinearParameters", "Target", "fit", "help_fit"]

_NAME_BYTES = 16


@dataclass(frozen=True, eq=False)
class FittedLinear:
    """A model, and the loss after each epoch; where weights were revealed at the end alone, no loss is known."""

    model: LinearModel
    losses: tuple[float, ...]


def fit(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    target: Target,
    classes: Sequence[str] = (),
    start: LinearModel | None = None,
) -> FittedLinear:
    """At the active party: fit a model; `classes` are the classes' names, `start` is a model to begin with."""
    party, rows = team.active, len(columns.matrix)
    names = tuple(classes) or tuple(map(str, range(parameters.classes)))
    if len(names) != parameters.classes:
        raise InputError(f"classes: {len(names)} names for {parameters.classes} classes")
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    weights = checked_weights(target, rows, parameters.classes, balanced=parameters.balanced)
    weighing = weighing_of(weights, shown=parameters.show_weights or not team.passive)
    _check_weighing(team, parameters, weighing)
    known = np.where(weights > 0, target.values, 0.0)
    centre, scale = (0.0, 1.0) if parameters.classes else _standard(known, weights)
    if start:
        centre, scale = start.centre, start.scale
    constant = constants(parameters, np.where(weights > 0, (known - centre) / scale, 0.0))
    intercept = start.intercept if start else (0.0,) * outputs_of(parameters)
    begin = _start(start.part if start else None, columns.names, parameters, party, intercept)
    name = secrets.token_bytes(_NAME_BYTES)
    widths = _widths(team, rows, len(columns.names) + 1)
    for owner in team.passive:
        team.session.send(owner, BeginLinear(name, weighing.weighted, weighing.heaviest))
        if weighing.weighted and weighing.shown and weighing.known is not None:
            team.session.send(owner, RowWeights(weighing.known))
    one = np.full((rows, 1), COLUMNS.encode(np.ones(1), "one")[0])
    with_one = np.concatenate([encoded, one], axis=1)
    side = _side(team, parameters, party, name, with_one, weighing, widths, begin, constant)
    losses = _descended(side)
    model = LinearModel(
        part=_part(side, columns.names),
        owners=team.owners,
        parameters=parameters,
        classes=names,
        intercept=side.state.weights[-1].tolist(),
        centre=centre,
        scale=scale,
    )
    return FittedLinear(model, tuple(losses))


def help_fit(team: Team, parameters: LinearParameters, columns: Columns, start: LinearPart | None = None) -> LinearPart:
    """At a passive party: take part, and keep this party's own weights."""
    session, party, active = team.session, team.session.party, team.active
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    initial = _start(start, columns.names, parameters, party, None)
    widths = _widths(team, len(encoded), len(columns.names))
    begin = session.recv(active, BeginLinear)
    if len(begin.name) != _NAME_BYTES or not 0 <= begin.heaviest <= MOST_POWERS:
        raise ProtocolError(f"{active} sent a BeginLinear that cannot be")
    shown = begin.weighted and parameters.show_weights
    known = session.recv(active, RowWeights).weights if shown else None
    weighing = Weighing(begin.weighted, shown, begin.heaviest, known)
    if known is not None and (
        known.shape != (len(encoded),) or not ((known >= 0) & (known <= 2.0**weighing.heaviest)).all()
    ):
        raise ProtocolError(f"{active} sent RowWeights that cannot be")
    _check_weighing(team, parameters, weighing)
    side = _side(team, parameters, party, begin.name, encoded, weighing, widths, initial)
    _descended(side)
    return _part(side, columns.names)


def _descended(side: Side) -> list[float]:
    if side.parameters.reveal == "final" and side.team.passive:
        descend_unseen(side)
        return []
    return descend(side)


def _side(
    team: Team,
    parameters: LinearParameters,
    party: str,
    name: bytes,
    columns: Ints,
    weighing: Weighing,
    widths: dict[str, int],
    state: State,
    constant: Floats | None = None,
) -> Side:
    """One party's side, its rows in the order of the batches."""
    order = order_of(len(columns))
    columns, weighing = columns[order], weighing.in_order(order)
    multiplied = columns
    if weighing.known is not None:
        multiplied = weighing.columns.encode(COLUMNS.decode(columns) * weighing.known[:, np.newaxis], "columns")
    constant = None if constant is None else constant[order]
    return Side(team, parameters, party, name.hex(), columns, multiplied, weighing, widths, state, constant)


def _part(side: Side, names: tuple[str, ...]) -> LinearPart:
    """What a party keeps: its weights, and how the descent could go on."""
    state, parameters = side.state, side.parameters
    pace = Pace(
        optimiser=parameters.optimiser,
        steps=state.steps,
        velocity=state.velocity.tolist(),
        squares=state.squares.tolist(),
    )
    return LinearPart(
        name=side.name,
        party=side.party,
        columns=names,
        outputs=outputs_of(parameters),
        limit=parameters.limit,
        weights=state.weights[side.penalised].tolist(),
        pace=None if parameters.reveal == "final" else pace,
    )


def _start(
    part: LinearPart | None,
    names: tuple[str, ...],
    parameters: LinearParameters,
    party: str,
    intercept: Sequence[float] | None,
) -> State:
    """Where the descent begins: at zero, or where another one ended, with what its optimiser remembers.

    Only the active party has an intercept.
    """
    outputs = outputs_of(parameters)
    if part is not None and (part.columns, part.outputs) != (names, outputs):
        raise InputError(f"{party}: the model to begin with has other columns or classes")
    weights = np.array(part.weights if part else np.zeros((len(names), outputs))).reshape(len(names), outputs)
    if intercept is not None:
        weights = np.concatenate([weights, np.array([intercept])])
    state = begin_at(weights)
    pace = part.pace if part else None
    if pace is None or pace.optimiser != parameters.optimiser:
        return state
    velocity, squares = np.array(pace.velocity), np.array(pace.squares)
    if weights.size and not velocity.shape == squares.shape == weights.shape:
        raise InputError(f"{party}: the model to begin with remembers steps of other columns or classes")
    return State(weights, velocity.reshape(weights.shape), squares.reshape(weights.shape), pace.steps)


def _standard(values: Floats, weights: Floats) -> tuple[float, float]:
    """The mean of a target that is a number, and its standard deviation."""
    centre = mean_of(values, weights)
    return centre, sqrt(mean_of((values - centre) ** 2, weights)) or 1.0


def _check_weighing(team: Team, parameters: LinearParameters, weighing: Weighing) -> None:
    """Refuse secret weights where they would have to be known."""
    if weighing.hidden and len(team.passive) > 1:
        raise InputError("weights: with several passive parties they must be shown (show_weights), or all be the same")
    if weighing.hidden and parameters.reveal == "final":
        raise InputError("weights: where gradients are not (reveal), weights must be shown (show_weights)")


def _widths(team: Team, rows: int, columns: int) -> dict[str, int]:
    """How many columns each owner has, the intercept counted; the rows must be the same."""
    if not team.passive:
        return {team.active: columns}
    session, me = team.session, team.session.party
    widths = {me: columns}
    others = [owner for owner in team.owners if owner != me]
    for owner in others:
        session.send(owner, Width(rows, columns))
    for owner in others:
        told = session.recv(owner, Width)
        if told.rows != rows:
            raise ProtocolError(f"{owner} has {told.rows} rows and {me} {rows}: align first")
        if not 0 <= told.columns <= MOST_COLUMNS + 1:
            raise ProtocolError(f"{owner} sent a Width that cannot be")
        widths[owner] = told.columns
    return widths
