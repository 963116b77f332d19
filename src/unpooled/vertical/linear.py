"""Linear models for columns that several parties hold, by gradient descent: no party's scores are ever in clear.

The seed's four steps, for each batch, all parties at once:
1. each party computes its part of the residuals from its own columns and weights (`residuals`)
2. and 3. the product of each party's columns with the others' residuals is computed under protection
4. each party is shown its own gradient, adds its own part, and moves its own weights

After each epoch the active party is shown the loss, one number, and says whether to go on. Batches are cut once and stay
as they are: every gradient of a batch is about the same rows, and there are at least 20 rows to a column, so that the
gradients do not determine the labels. A party refuses smaller batches.

Weights of rows are the active party's secret. With one passive party they stay so: what is multiplied are that party's
columns beside its columns times its residuals, with weighted residuals beside the weights. With several that does not
work, and weights have to be shown (`show_weights`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unpooled.codec import Floats, Ints
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Dense, Inputs
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import forget, product
from unpooled.vertical.linear_messages import BeginLinear, NextEpoch, RowWeights, Width
from unpooled.vertical.linear_model import LinearModel, LinearPart
from unpooled.vertical.linear_parameters import SAFE_ROWS, SAFE_ROWS_PER_COLUMN, LinearParameters, outputs_of
from unpooled.vertical.numbers import exact_sum, mean_of
from unpooled.vertical.residuals import COLUMNS, RESIDUALS, constants, encoded_columns, partial_residuals, scores
from unpooled.vertical.targets import Target, checked_weights
from unpooled.vertical.team import Team
from unpooled.vertical.trees import Columns

_NAME_BYTES = 16
_HEAVIEST = 16.0
_LOSS = FixedPoint(fraction_bits=10, largest=RESIDUALS.largest)
_SQUARES = FixedPoint(fraction_bits=10, largest=RESIDUALS.largest**2)
_LOSS_WEIGHTS = FixedPoint(fraction_bits=10, largest=_HEAVIEST)
_WEIGHTED_LOSS = FixedPoint(fraction_bits=10, largest=_HEAVIEST * RESIDUALS.largest)
_WEIGHTED_COLUMNS = FixedPoint(fraction_bits=12, largest=_HEAVIEST * COLUMNS.largest)
_MOMENTS = FixedPoint(fraction_bits=10, largest=COLUMNS.largest * RESIDUALS.largest)
_WEIGHTED_RESIDUALS = FixedPoint(fraction_bits=14, largest=_HEAVIEST * RESIDUALS.largest)
_ROW_WEIGHTS = FixedPoint(fraction_bits=16, largest=_HEAVIEST)
_MOMENTUM, _ADAM_SQUARES, _ADAM_LEAST = 0.9, 0.999, 1e-8
_DIVERGED = 100.0
_PATIENCE = 3


@dataclass(frozen=True, eq=False)
class FittedLinear:
    """A model, and the loss after each epoch."""

    model: LinearModel
    losses: tuple[float, ...]


@dataclass(eq=False)
class Descent:
    """One party's side: its columns as whole numbers, its weights, rows' weights where it knows them."""

    team: Team
    parameters: LinearParameters
    party: str
    columns: Ints
    penalised: int
    weights: Floats
    widths: dict[str, int]
    constant: Floats | None = None
    row_weights: Floats | None = None
    hidden_weights: bool = False
    velocity: Floats = field(default_factory=lambda: np.zeros(0))
    squares: Floats = field(default_factory=lambda: np.zeros(0))
    steps: int = 0
    waited: int = 0
    best: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def active(self) -> bool:
        return self.party == self.team.active

    @property
    def others(self) -> list[str]:
        return [owner for owner in self.team.owners if owner != self.party]


def fit(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    target: Target,
    classes: Sequence[str] = (),
    start: LinearModel | None = None,
) -> FittedLinear:
    """At the active party: fit a model; `start` is one to begin with."""
    rows, party, width = len(columns.matrix), team.active, len(columns.names)
    weights = checked_weights(target, rows, parameters.classes, balanced=parameters.balanced)
    even = bool((weights == weights[0]).all())
    weights = weights / mean_of(weights, np.ones(rows))
    if not even and float(weights.max()) > _HEAVIEST:
        raise InputError(f"weights: one is more than {_HEAVIEST:g} times the mean, which a linear model does not take")
    if not even and len(team.passive) > 1 and not parameters.show_weights:
        raise InputError("weights: with several passive parties they must be shown (show_weights), or all be the same")
    centre, scale = _standard(target.values, weights) if not parameters.classes else (0.0, 1.0)
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    one = np.full((rows, 1), COLUMNS.encode(np.ones(1), "one")[0])
    widths = _widths(team, rows, width + 1)
    name = secrets.token_bytes(_NAME_BYTES)
    shown = not even and parameters.show_weights
    for owner in team.passive:
        team.session.send(owner, BeginLinear(name, not even))
        if shown:
            team.session.send(owner, RowWeights(weights))
    known = np.where(weights > 0, (target.values - centre) / scale if not parameters.classes else target.values, 0.0)
    begin = _start(start.part if start else None, columns.names, width, outputs_of(parameters), party)
    intercept = np.array([start.intercept]) if start else np.zeros((1, outputs_of(parameters)))
    side = Descent(
        team,
        parameters,
        party,
        np.concatenate([encoded, one], axis=1),
        width,
        np.concatenate([begin, intercept]),
        widths,
        constants(parameters, known),
        None if even else weights,
        hidden_weights=not even and not shown,
    )
    losses = _descend(side)
    part = LinearPart(
        name=name.hex(), party=party, columns=columns.names, limit=parameters.limit, weights=side.weights[:-1].tolist()
    )
    model = LinearModel(
        part=part,
        owners=team.owners,
        parameters=parameters,
        classes=tuple(classes) or tuple(map(str, range(parameters.classes))),
        intercept=side.weights[-1].tolist(),
        centre=centre,
        scale=scale,
    )
    return FittedLinear(model, tuple(losses))


def help_fit(team: Team, parameters: LinearParameters, columns: Columns, start: LinearPart | None = None) -> LinearPart:
    """At a passive party: take part, and keep this party's own weights."""
    session, party, width = team.session, team.session.party, len(columns.names)
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    widths = _widths(team, len(columns.matrix), width)
    begin = session.recv(team.active, BeginLinear)
    shown = begin.weighted and parameters.show_weights
    weights = session.recv(team.active, RowWeights).weights if shown else None
    if weights is not None and (
        weights.shape != (len(encoded),) or not ((weights >= 0) & (weights <= _HEAVIEST)).all()
    ):
        raise ProtocolError(f"{team.active} sent RowWeights that cannot be")
    initial = _start(start, columns.names, width, outputs_of(parameters), party)
    hidden = begin.weighted and not shown
    side = Descent(team, parameters, party, encoded, width, initial, widths, None, weights, hidden_weights=hidden)
    _descend(side)
    return LinearPart(
        name=begin.name.hex(), party=party, columns=columns.names, limit=parameters.limit, weights=side.weights.tolist()
    )


def _standard(values: Floats, weights: Floats) -> tuple[float, float]:
    """The mean of a target that is a number, and its standard deviation."""
    known = np.where(weights > 0, values, 0.0)
    centre = mean_of(known, weights)
    spread = mean_of((known - centre) ** 2, weights) ** 0.5
    return centre, spread or 1.0


def _start(part: LinearPart | None, names: tuple[str, ...], width: int, outputs: int, party: str) -> Floats:
    if part is None:
        return np.zeros((width, outputs))
    if part.columns != names or any(len(row) != outputs for row in part.weights):
        raise InputError(f"{party}: the model to begin with has other columns or classes")
    return np.array(part.weights).reshape(width, outputs)


def _widths(team: Team, rows: int, columns: int) -> dict[str, int]:
    """How many columns each owner has; the rows must be the same."""
    widths = {team.active: columns}
    if team.passive:
        me = team.session.party
        widths = {me: columns}
        for owner in team.owners:
            if owner != me:
                team.session.send(owner, Width(rows, columns))
        for owner in team.owners:
            if owner != me:
                told = team.session.recv(owner, Width)
                if told.rows != rows or told.columns < 0:
                    raise ProtocolError(f"{owner} has {told.rows} rows and {me} {rows}: align first")
                widths[owner] = told.columns
    return widths


def batches(parameters: LinearParameters, rows: int, widths: dict[str, int]) -> list[slice]:
    """The batches, cut once: as many as there are whole ones, of about the same size, in the order of rows."""
    widest = max(widths.values())
    size = parameters.batch_rows or max(SAFE_ROWS, SAFE_ROWS_PER_COLUMN * widest)
    count = max(rows // size, 1)
    edges = [rows * place // count for place in range(count + 1)]
    return [slice(begin, end) for begin, end in zip(edges, edges[1:], strict=False)]


def check_batches(parameters: LinearParameters, cut: Sequence[slice], width: int, party: str) -> None:
    """Refuse batches so small that gradients give labels away."""
    least, smallest = max(SAFE_ROWS, SAFE_ROWS_PER_COLUMN * width), min(part.stop - part.start for part in cut)
    if smallest < least and not parameters.insecure_batch:
        raise RefusedError(
            f"{party} takes part in batches of at least {least} rows ({SAFE_ROWS_PER_COLUMN} for each column, "
            f"{SAFE_ROWS} at least), and one would have {smallest}: gradients of smaller ones give labels away "
            "(insecure_batch allows it)"
        )


def _descend(side: Descent) -> list[float]:
    """Epoch after epoch, until the loss falls no more; the active party knows the losses."""
    parameters, rows = side.parameters, len(side.columns)
    judged = round(parameters.validation_share * rows)
    training = rows - judged
    if not training:
        raise InputError("validation_share: no rows are left to learn from")
    cut = batches(parameters, training, side.widths)
    if side.team.passive:
        check_batches(parameters, cut, side.widths[side.party], side.party)
        asked = parameters.epochs * sum(side.widths.values()) * outputs_of(parameters) * 2
        engine = side.team.products
        engine.rules = replace(
            engine.rules, questions=asked if engine.rules.questions is None else engine.rules.questions
        )
    losses: list[float] = []
    for epoch in range(parameters.epochs):
        for number, part in enumerate(cut):
            _step(side, _gradient(side, part, number))
            if side.team.passive:
                side.team.session.progress(epoch * len(cut) + number + 1, parameters.epochs * len(cut))
        loss = _loss(side, slice(training, rows) if judged else slice(0, training), epoch)
        if not _goes_on(side, losses, loss):
            break
    return losses


def _goes_on(side: Descent, losses: list[float], loss: float | None) -> bool:
    """The active party judges, and tells the others; all keep the weights that were best."""
    if not side.active:
        said = side.team.session.recv(side.team.active, NextEpoch)
        _keep(side, best=said.best, go_on=said.go_on)
        return said.go_on
    losses.append(float("inf") if loss is None else loss)
    if losses[-1] > _DIVERGED * losses[0]:
        raise InputError(f"{side.party}: the descent diverges: the loss grows; take a lower rate")
    lowest = min(losses[:-1], default=float("inf"))
    best = losses[-1] < lowest
    if losses[-1] < lowest * (1 - side.parameters.tolerance):
        side.waited = 0
    else:
        side.waited += 1
    go_on = side.waited < _PATIENCE and len(losses) < side.parameters.epochs
    for owner in side.team.passive:
        side.team.session.send(owner, NextEpoch(go_on, best))
    _keep(side, best=best, go_on=go_on)
    return go_on


def _keep(side: Descent, *, best: bool, go_on: bool) -> None:
    if best:
        side.best = side.weights
    if not go_on:
        side.weights = side.best


def _residuals(side: Descent, part: slice) -> Ints:
    own = scores(side.columns[part], side.weights, side.party)
    constant = None if side.constant is None else side.constant[part]
    found = partial_residuals(side.parameters, own, constant, side.party)
    if side.row_weights is not None and not side.hidden_weights:
        weighted = RESIDUALS.decode(found) * side.row_weights[part, np.newaxis]
        return RESIDUALS.encode(np.clip(weighted, -RESIDUALS.largest, RESIDUALS.largest), "residuals")
    return found


def _gradient(side: Descent, part: slice, number: int) -> Floats:
    """Steps 1 to 4 for one batch: this party's gradient of the mean loss."""
    residuals, columns = _residuals(side, part), side.columns[part]
    if side.hidden_weights:
        return _weighted_gradient(side, part, residuals)
    own = mod64.product(columns.view(np.uint64), residuals.view(np.uint64)).view(np.int64)
    scale = 2.0 ** -(COLUMNS.fraction_bits + RESIDUALS.fraction_bits) / len(columns)
    if not side.team.passive:
        return own * scale
    rows, outputs = residuals.shape
    name, batch, calls = f"step {side.steps}", [], []
    for owner in side.team.owners:
        if side.widths[owner]:
            terms = tuple((owner, other) for other in side.team.owners if other != owner)
            left = Dense(side.widths[owner], COLUMNS.bound)
            bound = rows * COLUMNS.bound * RESIDUALS.bound
            digest = f"{side.team.digest} batch {number}"
            calls.append(
                Call(
                    terms,
                    owner,
                    rows,
                    left,
                    outputs,
                    RESIDUALS.bound,
                    ((owner, bound),),
                    f"batch {number}",
                    name,
                    digest,
                )
            )
            batch.append((calls[-1], Inputs(x=columns, added=own) if owner == side.party else Inputs(y=residuals)))
    shown = [result for result in product(side.team.products, batch) if result is not None]
    forget(side.team.products, [name])
    return shown[0] * scale if shown else np.zeros((0, outputs))


def _weighted_gradient(side: Descent, part: slice, residuals: Ints) -> Floats:
    """The same with weights that only the active party knows; there is one other party at most.

    The active party multiplies its columns by the weights. For the other, whose residuals and columns are both its own,
    two products are summed up as one over twice the rows: its columns with weighted residuals, and its columns times
    its residuals with the weights.
    """
    rows, outputs = residuals.shape
    active, columns = side.team.active, COLUMNS.decode(side.columns[part])
    values = RESIDUALS.decode(residuals)
    if side.row_weights is not None:
        weights = side.row_weights[part, np.newaxis]
        own_columns = _WEIGHTED_COLUMNS.encode(columns * weights, "columns")
        own = mod64.product(own_columns.view(np.uint64), residuals.view(np.uint64)).view(np.int64)
        scale = 2.0 ** -(_WEIGHTED_COLUMNS.fraction_bits + RESIDUALS.fraction_bits) / rows
        if not side.team.passive:
            return own * scale
        held = Inputs(x=own_columns, added=own)
        weight_column = _ROW_WEIGHTS.encode(weights, "weights")
        stacked = [
            Inputs(
                y=np.concatenate(
                    [_WEIGHTED_RESIDUALS.encode(values[:, k : k + 1] * weights, "residuals"), weight_column]
                )
            )
            for k in range(outputs)
        ]
    else:
        held = Inputs(y=residuals)
        stacked = [
            Inputs(x=np.concatenate([side.columns[part], _MOMENTS.encode(columns * values[:, k : k + 1], "columns")]))
            for k in range(outputs)
        ]
        scale = 2.0 ** -(_MOMENTS.fraction_bits + _ROW_WEIGHTS.fraction_bits) / rows
    passive = side.team.passive[0]
    name = f"step {side.steps}"
    bound = rows * _WEIGHTED_COLUMNS.bound * RESIDUALS.bound
    batch = [
        (
            Call(
                ((active, passive),), active, rows, Dense(side.widths[active], _WEIGHTED_COLUMNS.bound), outputs,
                RESIDUALS.bound, ((active, bound),), "", name, f"{side.team.digest} {part.start}",
            ),
            held,
        )
    ]  # fmt: skip
    left, right = max(COLUMNS.bound, _MOMENTS.bound), max(_WEIGHTED_RESIDUALS.bound, _ROW_WEIGHTS.bound)
    if side.widths[passive]:
        batch += [
            (
                Call(
                    ((passive, active),), passive, 2 * rows, Dense(side.widths[passive], left), 1, right,
                    digest=f"{side.team.digest} {part.start}",
                ),
                inputs,
            )
            for inputs in stacked
        ]  # fmt: skip
    shown = [result for result in product(side.team.products, batch) if result is not None]
    forget(side.team.products, [name])
    return np.concatenate(shown, axis=1) * scale if shown else np.zeros((0, outputs))


def _step(side: Descent, gradient: Floats) -> None:
    """Move the weights; every number by itself, in an order that does not matter."""
    parameters = side.parameters
    rate = parameters.rate if parameters.classes else parameters.rate / 4  # a number's loss is four times as curved
    gradient = gradient.copy()
    gradient[: side.penalised] += parameters.l2 * side.weights[: side.penalised]
    if not side.steps:
        side.velocity, side.squares = np.zeros(gradient.shape), np.zeros(gradient.shape)
    side.steps += 1
    if parameters.optimiser == "plain":
        side.weights = side.weights - rate * gradient
    elif parameters.optimiser == "momentum":
        side.velocity = _MOMENTUM * side.velocity + gradient
        side.weights = side.weights - rate * side.velocity
    else:
        side.velocity = _MOMENTUM * side.velocity + (1 - _MOMENTUM) * gradient
        side.squares = _ADAM_SQUARES * side.squares + (1 - _ADAM_SQUARES) * gradient * gradient
        mean = side.velocity / (1 - _MOMENTUM**side.steps)
        spread = np.sqrt(side.squares / (1 - _ADAM_SQUARES**side.steps))
        side.weights = side.weights - rate * mean / (spread + _ADAM_LEAST)


def _loss(side: Descent, part: slice, epoch: int) -> float | None:
    """The mean square of the residuals, which falls as the loss does; only the active party is shown it."""
    own = RESIDUALS.decode(_residuals(side, part)).reshape(-1)
    if side.hidden_weights:
        return _weighted_loss(side, own, part, epoch)
    parts = _LOSS.encode(own, "residuals")[:, np.newaxis]
    squares = int(parts[:, 0] @ parts[:, 0])
    if not side.team.passive:
        return float(squares) / 4.0**_LOSS.fraction_bits / len(parts)
    owners = side.team.owners
    terms = tuple((one, other) for place, one in enumerate(owners) for other in owners[place + 1 :])
    bound = len(parts) * _LOSS.bound**2
    call = Call(
        terms, side.team.active, len(parts), Dense(1, _LOSS.bound), 1, 2 * _LOSS.bound,
        tuple((owner, bound) for owner in owners), digest=f"{side.team.digest} loss {epoch}",
    )  # fmt: skip
    (total,) = product(side.team.products, [(call, Inputs(x=parts, y=2 * parts, added=np.array([[squares]])))])
    return None if total is None else float(total[0, 0]) / 4.0**_LOSS.fraction_bits / len(parts)


def _weighted_loss(side: Descent, own: Floats, part: slice, epoch: int) -> float | None:
    outputs = outputs_of(side.parameters)
    if side.row_weights is not None:
        weights = np.repeat(side.row_weights[part], outputs)
        squares = int(_WEIGHTED_LOSS.encode(own * weights, "residuals") @ _LOSS.encode(own, "residuals"))
        if not side.team.passive:
            return float(squares) / 4.0**_LOSS.fraction_bits / len(own)
        added = np.array([[squares]])
        y = np.concatenate(
            [_LOSS_WEIGHTS.encode(weights, "weights"), _WEIGHTED_LOSS.encode(own * weights, "residuals")]
        )
        inputs = Inputs(y=y[:, np.newaxis], added=added)
    else:
        x = np.concatenate([_SQUARES.encode(own**2, "residuals"), 2 * _LOSS.encode(own, "residuals")])
        inputs = Inputs(x=x[:, np.newaxis])
    left = max(_SQUARES.bound, 2 * _LOSS.bound)
    bound = len(own) * _WEIGHTED_LOSS.bound * _LOSS.bound
    call = Call(
        ((side.team.passive[0], side.team.active),), side.team.active, 2 * len(own), Dense(1, left), 1,
        max(_LOSS_WEIGHTS.bound, _WEIGHTED_LOSS.bound), ((side.team.active, bound),), digest=f"{side.team.digest} loss {epoch}",
    )  # fmt: skip
    (total,) = product(side.team.products, [(call, inputs)])
    return None if total is None else float(total[0, 0]) / 4.0**_LOSS.fraction_bits / len(own)
