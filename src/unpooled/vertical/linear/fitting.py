"""Linear models for columns that several parties hold: fitting, at the active party and at the others.

`fit` at the active party and `help_fit` at each passive one go together; `predictor` uses the models. Nobody sees
another party's scores while a model is fitted. A party alone (`team.alone()`) fits to pooled columns.
`fit_many` and `help_fit_many` fit a model to each of several targets: the same models in as few messages as for one.

>>> from unpooled.vertical.linear.predictor import predict
>>> from unpooled.vertical.team import alone
>>> rng = np.random.default_rng(1)
>>> matrix = rng.normal(size=(2000, 3))
>>> target = Target((matrix[:, 0] > matrix[:, 1]).astype(float))
>>> fitted = fit(alone(), LinearParameters(), Columns(matrix, ("a", "b", "c")), target, ("no", "yes"))
>>> predict(alone(), fitted.model, np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])).tolist()
['yes', 'no']
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Ints
from unpooled.checkpoint import Notebook
from unpooled.errors import InputError
from unpooled.vertical.inputs import COLUMNS as COLUMNS_KEPT
from unpooled.vertical.inputs import TARGETS, Columns
from unpooled.vertical.linear.agreement import (
    exchange_commitments,
    exchange_widths,
    receive_inputs,
    tell_inputs,
    widths_apart,
)
from unpooled.vertical.linear.descent import descend
from unpooled.vertical.linear.fit_input import FitInput, input_of, start_of, states_of
from unpooled.vertical.linear.hidden_weights import descend_unseen
from unpooled.vertical.linear.model import LinearModel, LinearPart, OptimiserState
from unpooled.vertical.linear.parameters import LinearParameters, check_engine, outputs_of
from unpooled.vertical.linear.residuals import COLUMNS, encoded_columns
from unpooled.vertical.linear.state import FitState, epochs_for
from unpooled.vertical.targets import Target, inputs_of
from unpooled.vertical.team import Team


@dataclass(frozen=True, eq=False)
class FittedLinear:
    """A model, the loss after each epoch, and how many there were; where weights stay secret no loss is known."""

    model: LinearModel
    losses: tuple[float, ...]
    epochs: int


def fit(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    target: Target,
    classes: Sequence[str] = (),
    start: LinearModel | None = None,
    notebook: Notebook | None = None,
) -> FittedLinear:
    """At the active party: fit a model; `classes` are the classes' names, `start` is a model to begin with."""
    (fitted,) = fit_many(team, parameters, columns, [target], classes, [start], notebook)
    return fitted


def fit_many(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    targets: Sequence[Target],
    classes: Sequence[str] = (),
    starts: Sequence[LinearModel | None] = (),
    notebook: Notebook | None = None,
) -> list[FittedLinear]:
    """At the active party: fit a model to each target, all in step, and each as if it were fitted alone.

    In a notebook every party keeps pages to go on from after an interruption (`checkpoint`).
    """
    party, rows = team.active, len(columns.matrix)
    names, starts = tuple(classes) or tuple(map(str, range(parameters.classes))), starts or [None] * len(targets)
    if len(names) != parameters.classes:
        raise InputError(f"classes: {len(names)} names for {parameters.classes} classes")
    if not targets:
        raise InputError("target: none is given to fit to")
    if len(starts) != len(targets):
        raise InputError(f"start: {len(starts)} models to begin with, and {len(targets)} targets")
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    each = zip(targets, starts, strict=True)
    inputs = [input_of(team, parameters, columns, target, start) for target, start in each]
    if team.passive:
        weighted = any(given.weighting.weighted for given in inputs)
        check_engine(parameters, team.products.rules.engine, len(team.passive), weighted=weighted)
    widths = exchange_widths(team, rows, len(columns.names) + 1) if team.passive else widths_apart(columns)
    one = np.full((rows, 1), COLUMNS.encode(np.ones(1), "one")[0])
    states = states_of(team, party, parameters, np.concatenate([encoded, one], axis=1), inputs, widths)
    tell_inputs(team, parameters, inputs)
    exchange_commitments(team, {COLUMNS_KEPT: {"columns": encoded}, TARGETS: inputs_of(targets)})
    _descend(states, inputs, notebook)
    fitted = []
    for state, given in zip(states, inputs, strict=True):
        model = LinearModel(
            part=_part(state, columns.names, encoded),
            owners=team.owners,
            parameters=parameters,
            classes=names,
            intercept=state.iterate.weights[-1].tolist(),
            centre=given.centre,
            scale=given.scale,
        )
        fitted.append(FittedLinear(model, tuple(state.losses), len(state.losses) or epochs_for(states)))
    return fitted


def help_fit(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    start: LinearPart | None = None,
    notebook: Notebook | None = None,
) -> LinearPart:
    """At a passive party: take part, and keep this party's own weights."""
    (part,) = help_fit_many(team, parameters, columns, 1, [start], notebook)
    return part


def help_fit_many(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    models: int,
    starts: Sequence[LinearPart | None] = (),
    notebook: Notebook | None = None,
) -> list[LinearPart]:
    """At a passive party: take part in the fit of so many models, and keep this party's own weights of each."""
    party = team.session.party
    starts = starts or [None] * models
    if models < 1 or len(starts) != models:
        raise InputError(f"start: {len(starts)} models to begin with, and {models} to fit")
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    iterates = [start_of(start, columns.names, parameters, party) for start in starts]
    widths = exchange_widths(team, len(encoded), len(columns.names))
    inputs = receive_inputs(team, parameters, len(encoded), iterates)
    states = states_of(team, party, parameters, encoded, inputs, widths)
    exchange_commitments(team, {COLUMNS_KEPT: {"columns": encoded}})
    _descend(states, inputs, notebook)
    return [_part(state, columns.names, encoded) for state in states]


def _descend(states: Sequence[FitState], inputs: Sequence[FitInput], notebook: Notebook | None) -> None:
    if states[0].parameters.reveal == "final" and states[0].team.passive:
        descend_unseen(states)
    else:
        _count_fits(states, inputs)
        descend(states, notebook)


def _count_fits(states: Sequence[FitState], inputs: Sequence[FitInput]) -> None:
    """Count the fits of which others are shown gradients; models of the same rows, cut in the same way, are one."""
    team = states[0].team
    if not team.engine or not (spending := team.engine.spending):
        return
    others = [owner for owner in team.owners if owner != team.session.party]
    cuts = [
        hashlib.sha256(f"{state.cut} {state.judged}".encode() + np.packbits(given.taking_part).tobytes()).hexdigest()
        for state, given in zip(states, inputs, strict=True)
    ]
    for cut in dict.fromkeys(cuts):
        spending.show_gradients(others, team.digest, cut)


def _part(state: FitState, names: tuple[str, ...], encoded: Ints) -> LinearPart:
    """What a party keeps: its weights, the means of its columns, and how the descent could go on."""
    iterate, parameters = state.iterate, state.parameters
    pace = OptimiserState(
        optimiser=parameters.optimiser,
        steps=iterate.steps,
        velocity=iterate.velocity.tolist(),
        squares=iterate.squares.tolist(),
    )
    return LinearPart(
        name=state.name,
        party=state.party,
        columns=names,
        outputs=outputs_of(parameters),
        limit=parameters.limit,
        weights=iterate.weights[state.penalised].tolist(),
        means=(COLUMNS.decode(encoded.sum(axis=0)) / len(encoded)).tolist(),
        pace=None if parameters.reveal == "final" else pace,
    )
