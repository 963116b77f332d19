"""Gradient descent at one party, in step with the others: batches, gradients, steps, and when to stop.

Several models are fitted at a time, each as if it were alone; what they ask and are told goes in the same messages.

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
from functools import partial
from itertools import pairwise
from math import ldexp

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.checkpoint import Notebook
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.secure import mod64
from unpooled.secure.calls import LARGEST, RING, Call, Dense, Inputs
from unpooled.secure.product import forget, product
from unpooled.secure.randomness import SEED_BYTES, shuffles
from unpooled.vertical.linear.checkpoint import go_on_from, is_page_due, page_of
from unpooled.vertical.linear.loss import losses
from unpooled.vertical.linear.messages import NextEpoch
from unpooled.vertical.linear.parameters import SAFE_ROWS, SAFE_ROWS_PER_COLUMN, LinearParameters, outputs_of, rate_of
from unpooled.vertical.linear.residuals import RESIDUALS, Diverged
from unpooled.vertical.linear.row_weights import stacked_bounds, stacked_columns, stacked_residuals, stacked_unit
from unpooled.vertical.linear.shared_columns import share_columns, shared_bound, shared_unit
from unpooled.vertical.linear.state import Side, State, about, in_one_go, own_residuals

MOMENTUM, _ADAM_SQUARES, _ADAM_LEAST = 0.9, 0.999, 1e-8
_DIVERGED = 100.0
GRADIENT = "gradient"
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


def parts_of(parameters: LinearParameters, rows: int, widths: dict[str, int]) -> tuple[list[slice], slice]:
    """The batches, and the rows that judge the loss: all, or those set aside for it."""
    training = rows - round(parameters.validation_share * rows)
    if not training:
        raise InputError("validation_share: no rows are left to learn from")
    judged = slice(training, rows) if training < rows else slice(0, rows)
    return batches(parameters, training, widths), judged


def descend(sides: Sequence[Side], notebook: Notebook | None = None) -> None:
    """Epoch after epoch, each model until its loss falls no more; the active party knows the losses.

    In a notebook each party keeps pages to go on from; all parties' notebooks have as many.
    """
    team = sides[0].team
    for side in sides:
        _check_sums(side, max(part.stop - part.start for part in side.cut))
    if not team.passive:
        return _epochs(sides, notebook)
    for side in sides:
        check_batches(side.parameters, side.cut, side.widths[side.party], side.party)
    engine, rules = team.products, team.products.rules
    engine.rules = replace(rules, questions=_questions(sides) if rules.questions is None else rules.questions)
    try:
        share_columns(sides)
        _epochs(sides, notebook)
    finally:
        engine.rules = rules
        forget(engine, [name for side in sides for name in side.own_names()])


def _check_sums(side: Side, rows: int) -> None:
    """Refuse batches whose sums might not fit."""
    parties = max(len(side.team.owners), 2)
    most = LARGEST // (parties * side.scale_of(side.team.active).bound * RESIDUALS.bound)
    if rows > most:
        raise InputError(f"batch_rows: {rows} rows in a batch are more than the {most} whose sums fit; take fewer")


def _questions(sides: Sequence[Side]) -> int:
    """How many columns are asked about the same rows: all gradients and losses, and what was asked before."""
    side, before = sides[0], sides[0].team.products.answered
    outputs, owners = outputs_of(side.parameters), len(side.team.owners)
    by_epoch = (sum(side.widths.values()) + 1) * outputs + owners
    if any(side.shares_columns for side in sides):  # both shares of columns are asked about
        by_epoch = 2 * by_epoch + owners**2 * outputs
    return max(before.values(), default=0) + len(sides) * side.parameters.epochs * by_epoch


def _epochs(sides: Sequence[Side], notebook: Notebook | None) -> None:
    team, parameters = sides[0].team, sides[0].parameters
    done, going = go_on_from(notebook.read(len(notebook) - 1), sides) if notebook else (0, list(sides))
    most = max(len(side.cut) for side in sides)
    for epoch in range(done, parameters.epochs):
        team.tell_waiting(epoch, parameters.epochs)
        for number in range(max(len(side.cut) for side in going)):
            moving = [side for side in going if number < len(side.cut)]
            for side, slope in zip(moving, gradients(moving, number), strict=True):
                side.state = step(parameters, side.state, slope, side.penalised)
            if team.passive:
                team.session.progress(epoch * most + number + 1, parameters.epochs * most)
        if parameters.reveal == "final":  # where gradients are not shown no loss is, and here it is as there
            continue
        going = _judged(going, losses(going))
        if not going:
            break
        if notebook is not None and is_page_due(parameters, epoch + 1):
            notebook.write(**page_of(sides, going, epoch + 1))
    for side in sides:
        side.state = side.best or side.state


def _judged(going: Sequence[Side], found: Sequence[float]) -> list[Side]:
    """The active party says which models go on, and which have the best weights so far; the ones that go on."""
    team, party = going[0].team, going[0].party
    if party == team.active:
        verdicts = [_verdict(side, loss) for side, loss in zip(going, found, strict=True)]
        said = NextEpoch(tuple(goes_on for goes_on, _ in verdicts), tuple(best for _, best in verdicts))
        for owner in team.passive:
            team.session.send(owner, said)
    else:
        said = team.session.recv(team.active, NextEpoch)
        if not len(said.go_on) == len(said.best) == len(going):
            raise ProtocolError(f"{team.active} sent NextEpoch for another number of models than are fitted")
    for side, best in zip(going, said.best, strict=True):
        if best:
            side.best = side.state
    return [side for side, goes_on in zip(going, said.go_on, strict=True) if goes_on]


def _verdict(side: Side, found: float) -> tuple[bool, bool]:
    """Whether a model goes on, and whether its loss was never lower."""
    if found > _DIVERGED:
        raise Diverged(side.party, "the loss grows")
    parameters, lowest, steps = side.parameters, min(side.losses, default=float("inf")), side.state.steps
    side.losses.append(found)
    if found < lowest * (1 - parameters.tolerance):
        side.fell = steps
    waited = steps - side.fell
    goes_on = waited < max(parameters.patience * len(side.cut), _SETTLING) and len(side.losses) < parameters.epochs
    return goes_on, found < lowest


# gradients


def _step_name(side: Side) -> str:
    return f"{side.name} step {side.state.steps}"


def gradients(sides: Sequence[Side], number: int) -> list[Floats]:
    """Steps 1 to 4 for a batch of each model: this party's gradients of the mean losses."""
    team, residuals = sides[0].team, [own_residuals(side, side.cut[number]) for side in sides]
    each = list(zip(sides, residuals, strict=True))
    if not team.passive:
        return [_in_units(side, number, [_own_product(side.multiplied[side.cut[number]], own)]) for side, own in each]
    asked = [about(side, GRADIENT, number, products_of(side, number, own)) for side, own in each]
    shown = in_one_go(partial(product, team.products), asked)
    forget(team.products, [_step_name(side) for side in sides])
    return [
        _in_units(side, number, [result for result in results if result is not None])
        for side, results in zip(sides, shown, strict=True)
    ]


def _own_product(columns: Ints, residuals: Ints) -> Ints:
    """What a party holds of columns times its own residuals."""
    return mod64.product(columns.view(np.uint64), residuals.view(np.uint64)).view(np.int64)


def _in_units(side: Side, number: int, shown: Sequence[Ints]) -> Floats:
    """Sums of whole numbers as the gradient of the mean loss; a party without columns is shown none."""
    if not shown:
        return np.zeros(side.state.weights.shape)
    unit = side.scale_of(side.party).fraction_bits + RESIDUALS.fraction_bits
    if side.weighing.hidden and not side.active:
        unit = shared_unit(side) if side.shares_columns else stacked_unit(side.weighing)
    part = side.cut[number]
    values: Floats = np.concatenate(shown, axis=1).astype(float) * (ldexp(1.0, -unit) / (part.stop - part.start))
    return values


def products_of(side: Side, number: int, residuals: Ints) -> list[tuple[Call, Inputs]]:
    """The products that give all owners' gradients of a batch, and what this party holds of them."""
    part, batch = side.cut[number], []
    for owner in side.team.owners:
        if not side.widths[owner]:
            continue
        if side.weighing.hidden and owner != side.team.active and not side.shares_columns:
            batch += _stacked(side, part, number, residuals)
        else:
            columns = side.multiplies(owner, number)
            own = None if columns is None else _own_product(columns, residuals)
            batch.append((_call(side, owner, number, *residuals.shape), Inputs(x=columns, y=residuals, added=own)))
    return batch


def _call(side: Side, owner: str, number: int, rows: int, outputs: int) -> Call:
    """The gradient of one owner's columns."""
    holders, bound = side.holders(owner), side.scale_of(owner).bound
    shared = len(holders) > 1
    return Call(
        terms=side.terms(owner),
        receiver=owner,
        rows=rows,
        left=Dense(side.widths[owner], RING if shared else bound),
        columns=outputs,
        bound=RESIDUALS.bound,
        added=tuple((holder, RING if shared else rows * bound * RESIDUALS.bound) for holder in holders),
        x=side.columns_name(owner, number),
        y=_step_name(side),
        digest=f"{side.team.digest} batch {number}",
        most=shared_bound(side, rows) if shared else 0,
    )


def _stacked(side: Side, part: slice, number: int, residuals: Ints) -> list[tuple[Call, Inputs]]:
    """The one passive party's columns, by weights that it does not know, output by output.

    Its columns stay the same, as the weights do; what is new in every step are its columns times its residuals.
    """
    (passive,), (left, right) = side.team.passive, stacked_bounds(side.weighing)
    call = Call(
        terms=((passive, side.team.active),),
        receiver=passive,
        rows=2 * len(residuals),
        left=Dense(side.widths[passive], left),
        columns=1,
        bound=right,
        x=side.columns_name(passive, number),
        y=side.columns_name(side.team.active, number),
        digest=f"{side.team.digest} batch {number}",
        fixed=len(residuals),
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
