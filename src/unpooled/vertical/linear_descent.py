"""Gradient descent at one party, in step with the others: batches, gradients, steps, and when to stop.

The seed's four steps, for each batch, all parties at once:
1. each party computes its part of the residuals from its own columns and weights (`residuals`)
2. and 3. the product of each party's columns with the others' residuals is computed under protection
4. each party is shown its own gradient, its own part added, and moves its own weights

After each epoch the active party is shown the loss, one number, and says whether to go on. Batches are cut once and
stay as they are, also from one fit to the next: every gradient of a batch is about the same rows, and there are at
least 20 rows to a column, so that gradients do not determine labels. A party refuses smaller batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import ldexp

import numpy as np

from unpooled.codec import Floats, Ints
from unpooled.errors import InputError, RefusedError
from unpooled.secure import mod64
from unpooled.secure.calls import LARGEST, Call, Dense, Inputs
from unpooled.secure.engine import Engine
from unpooled.secure.product import forget, product
from unpooled.secure.randomness import SEED_BYTES, shuffles
from unpooled.vertical.linear_loss import loss
from unpooled.vertical.linear_messages import NextEpoch
from unpooled.vertical.linear_parameters import (
    SAFE_ROWS,
    SAFE_ROWS_PER_COLUMN,
    LinearParameters,
    outputs_of,
    rate_of,
)
from unpooled.vertical.linear_side import Side, State, own_residuals
from unpooled.vertical.linear_weighted import stacked_bounds, stacked_columns, stacked_residuals, stacked_unit
from unpooled.vertical.residuals import RESIDUALS, Diverged

MOMENTUM, _ADAM_SQUARES, _ADAM_LEAST = 0.9, 0.999, 1e-8
_DIVERGED = 100.0
_SETTLING = 30  # steps: with momentum the loss may rise for some, and fall again


def order_of(rows: int) -> Ints:
    """The order in which rows are cut into batches: mixed, since they may come sorted, and always the same."""
    return next(shuffles(bytes(SEED_BYTES), b"batches of a linear model", [(1, rows)])).reshape(rows)


def batches(parameters: LinearParameters, rows: int, widths: dict[str, int]) -> list[slice]:
    """The batches, cut once: as many as there are whole ones, of about the same size."""
    size = parameters.batch_rows or max(SAFE_ROWS, SAFE_ROWS_PER_COLUMN * max(widths.values()))
    count = max(rows // size, 1)
    edges = [rows * place // count for place in range(count + 1)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def check_batches(parameters: LinearParameters, cut: Sequence[slice], width: int, party: str) -> None:
    """Refuse batches so small that gradients give labels away."""
    least, smallest = max(SAFE_ROWS, SAFE_ROWS_PER_COLUMN * width), min(part.stop - part.start for part in cut)
    if smallest < least and not parameters.insecure_batch:
        raise RefusedError(
            f"{party} takes part in batches of at least {least} rows ({SAFE_ROWS_PER_COLUMN} for each column, "
            f"{SAFE_ROWS} at least), and one would have {smallest}: gradients of smaller ones give labels away "
            "(insecure_batch allows it)"
        )


def descend(side: Side) -> list[float]:
    """Epoch after epoch, until the loss falls no more; the active party knows the losses."""
    parameters, team, rows = side.parameters, side.team, len(side.columns)
    training = rows - round(parameters.validation_share * rows)
    if not training:
        raise InputError("validation_share: no rows are left to learn from")
    cut = batches(parameters, training, side.widths)
    judged = slice(training, rows) if training < rows else slice(0, rows)
    _check_sums(side, max(part.stop - part.start for part in cut))
    if not team.passive:
        return _epochs(side, cut, judged)
    check_batches(parameters, cut, side.widths[side.party], side.party)
    engine, rules = team.products, team.products.rules
    engine.rules = replace(rules, questions=_questions(side, engine) if rules.questions is None else rules.questions)
    try:
        return _epochs(side, cut, judged)
    finally:
        engine.rules = rules
        forget(engine, [_batch_name(side, number) for number in range(len(cut))])


def _check_sums(side: Side, rows: int) -> None:
    """Refuse batches whose sums might not fit."""
    parties = max(len(side.team.owners), 2)
    most = LARGEST // (parties * side.scale_of(side.team.active).bound * RESIDUALS.bound)
    if rows > most:
        raise InputError(f"batch_rows: {rows} rows in a batch are more than the {most} whose sums fit; take fewer")


def _questions(side: Side, engine: Engine) -> int:
    """How many columns are asked about the same rows: all gradients and losses, and what was asked before."""
    outputs, owners = outputs_of(side.parameters), len(side.team.owners)
    by_epoch = (sum(side.widths.values()) + 1) * outputs + owners
    return max(engine.answered.values(), default=0) + side.parameters.epochs * by_epoch


def _epochs(side: Side, cut: Sequence[slice], judged: slice) -> list[float]:
    parameters, losses, best = side.parameters, list[float](), side.state
    for epoch in range(parameters.epochs):
        for number, part in enumerate(cut):
            side.state = step(parameters, side.state, gradient(side, part, number), side.penalised)
            if side.team.passive:
                side.team.session.progress(epoch * len(cut) + number + 1, parameters.epochs * len(cut))
        if parameters.reveal == "final":  # where gradients are not shown no loss is, and here it is as there
            best = side.state
            continue
        said = _judge(side, losses, loss(side, judged), len(cut))
        if said.best:
            best = side.state
        if not said.go_on:
            break
    side.state = best
    return losses


def _judge(side: Side, losses: list[float], found: float | None, batches_of_epoch: int) -> NextEpoch:
    """The active party says whether to go on, and whether these weights are the best so far."""
    if not side.active or found is None:
        return side.team.session.recv(side.team.active, NextEpoch)
    if found > _DIVERGED:
        raise Diverged(side.party, "the loss grows")
    parameters, lowest, steps = side.parameters, min(losses, default=float("inf")), side.state.steps
    losses.append(found)
    if found < lowest * (1 - parameters.tolerance):
        side.fell = steps
    waited = steps - side.fell
    goes_on = waited < max(parameters.patience * batches_of_epoch, _SETTLING) and len(losses) < parameters.epochs
    said = NextEpoch(goes_on, found < lowest)
    for owner in side.team.passive:
        side.team.session.send(owner, said)
    return said


# gradients


def _batch_name(side: Side, number: int) -> str:
    return f"{side.name} batch {number}"


def gradient(side: Side, part: slice, number: int) -> Floats:
    """Steps 1 to 4 for one batch: this party's gradient of the mean loss."""
    residuals, columns = own_residuals(side, part), side.multiplied[part]
    own = mod64.product(columns.view(np.uint64), residuals.view(np.uint64)).view(np.int64)
    unit = side.scale_of(side.party).fraction_bits + RESIDUALS.fraction_bits
    if not side.team.passive:
        return own.astype(float) * (ldexp(1.0, -unit) / len(columns))
    batch, name = [], f"{side.name} step {side.state.steps}"
    for owner in side.team.owners:
        if not side.widths[owner]:
            continue
        if side.weighing.hidden and owner != side.team.active:
            batch += _stacked(side, part, number, residuals)
            unit = unit if side.active else stacked_unit(side.weighing)
        else:
            call = _call(side, owner, len(columns), residuals.shape[1], number, name)
            batch.append((call, Inputs(x=columns, added=own) if owner == side.party else Inputs(y=residuals)))
    shown = [result for result in product(side.team.products, batch) if result is not None]
    forget(side.team.products, [name])
    scale = ldexp(1.0, -unit) / len(columns)
    return np.concatenate(shown, axis=1).astype(float) * scale if shown else np.zeros(side.state.weights.shape)


def _call(side: Side, owner: str, rows: int, outputs: int, number: int, name: str) -> Call:
    """One owner's columns with everybody else's residuals."""
    bound = side.scale_of(owner).bound
    return Call(
        terms=tuple((owner, other) for other in side.team.owners if other != owner),
        receiver=owner,
        rows=rows,
        left=Dense(side.widths[owner], bound),
        columns=outputs,
        bound=RESIDUALS.bound,
        added=((owner, rows * bound * RESIDUALS.bound),),
        x=_batch_name(side, number),
        y=name,
        digest=f"{side.team.digest} batch {number}",
    )


def _stacked(side: Side, part: slice, number: int, residuals: Ints) -> list[tuple[Call, Inputs]]:
    """The one passive party's columns, by weights that it does not know, output by output."""
    (passive,), (left, right) = side.team.passive, stacked_bounds(side.weighing)
    call = Call(
        terms=((passive, side.team.active),),
        receiver=passive,
        rows=2 * len(residuals),
        left=Dense(side.widths[passive], left),
        columns=1,
        bound=right,
        digest=f"{side.team.digest} batch {number}",
    )
    if side.weighing.known is None:
        return [(call, Inputs(x=stacked_columns(side.columns[part], column))) for column in residuals.T]
    weights = side.weighing.known[part]
    return [(call, Inputs(y=stacked_residuals(column, weights, side.weighing))) for column in residuals.T]


# steps


def step(parameters: LinearParameters, state: State, slope: Floats, penalised: slice) -> State:
    """Move the weights; every number by itself, in an order that does not matter."""
    rate, weights = rate_of(parameters), state.weights
    slope = slope.copy()
    slope[penalised] += parameters.l2 * weights[penalised]
    if parameters.optimiser == "plain":
        return replace(state, weights=weights - rate * slope, steps=state.steps + 1)
    if parameters.optimiser == "momentum":
        velocity = MOMENTUM * state.velocity + slope
        return State(weights - rate * velocity, velocity, state.squares, state.steps + 1)
    velocity = MOMENTUM * state.velocity + (1 - MOMENTUM) * slope
    squares = _ADAM_SQUARES * state.squares + (1 - _ADAM_SQUARES) * slope * slope
    mean = velocity / (1 - _power(MOMENTUM, state.steps + 1))
    spread = np.sqrt(squares / (1 - _power(_ADAM_SQUARES, state.steps + 1)))
    return State(weights - rate * mean / (spread + _ADAM_LEAST), velocity, squares, state.steps + 1)


def _power(base: float, times: int) -> float:
    """base^times by multiplying, which is the same on every processor."""
    result = 1.0
    while times:
        if times % 2:
            result *= base
        base, times = base * base, times // 2
    return result
