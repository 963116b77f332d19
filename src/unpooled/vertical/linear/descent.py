"""Gradient descent at one party, in step with the others: batches, gradients, steps, and when to stop.

Several models are fitted at a time, each as if it were alone; what they ask and are told goes in the same messages.

Four steps for each batch, all parties at once:
1. each party computes its part of the residuals from its own columns and weights (`residuals`)
2. and 3. the product of each party's columns with the others' residuals is computed under protection
4. each party is shown its own gradient, its own part added, and moves its own weights

After each epoch the active party is shown the loss, one number, and says whether to go on. Batches are cut once and
stay as they are, also from one fit to the next: every gradient of a batch is about the same rows, and there are at
least 20 rows to a column, so that gradients do not determine labels. A party refuses smaller batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from unpooled.vertical.linear.shared_columns import scales_of, share_columns, shared_bound, shared_unit
from unpooled.vertical.linear.state import FitState, Iterate, about, epochs_for, in_one_go, own_residuals

MOMENTUM, _ADAM_SQUARES, _ADAM_LEAST = 0.9, 0.999, 1e-8
_DIVERGED = 100.0
GRADIENT = "gradient"
_SETTLING = 30  # steps: with momentum the loss may rise for some, and fall again


@dataclass(frozen=True, eq=False)
class ShownGradient:
    """What a party is shown in a step: of which model and batch, and its weights before it; for observers alone."""

    model: str
    batch: slice
    weights: Floats
    gradient: Floats


def order_of(rows: int) -> Ints:
    """The order in which rows are cut into batches: mixed, since they may come sorted, and always the same."""
    return next(shuffles(bytes(SEED_BYTES), b"batches of a linear model", [(1, rows)])).reshape(rows).astype(np.int64)


def batch_size(parameters: LinearParameters, columns: int) -> int:
    """How many rows a batch has, if the party with most columns has so many."""
    return parameters.batch_rows or max(SAFE_ROWS, SAFE_ROWS_PER_COLUMN * columns)


def batches(parameters: LinearParameters, rows: int, widths: dict[str, int]) -> list[slice]:
    """The batches, cut once: as many as there are whole ones, of about the same size."""
    count = max(rows // batch_size(parameters, max(widths.values())), 1)
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
    training = rows - round(parameters.validation_fraction * rows)
    if not training:
        raise InputError("validation_fraction: no rows are left to learn from")
    judged = slice(training, rows) if training < rows else slice(0, rows)
    return batches(parameters, training, widths), judged


def descend(states: Sequence[FitState], notebook: Notebook | None = None) -> None:
    """Epoch after epoch, each model until its loss falls no more; the active party knows the losses.

    In a notebook each party keeps pages to go on from; all parties' notebooks have as many.
    """
    team = states[0].team
    for state in states:
        _check_sums(state)
    if not team.passive:
        return _epochs(states, notebook)
    for state in states:
        check_batches(state.parameters, state.cut, state.widths[state.party], state.party)
    engine, rules = team.products, team.products.rules
    engine.rules = replace(rules, questions=_questions(states) if rules.questions is None else rules.questions)
    try:
        share_columns(states, scales_of)
        _epochs(states, notebook)
    finally:
        engine.rules = rules
        forget(engine, [name for state in states for name in state.own_names()])


def _check_sums(state: FitState) -> None:
    """Refuse batches whose sums might not fit."""
    rows, parties = max(part.stop - part.start for part in state.cut), max(len(state.team.owners), 2)
    most = LARGEST // (parties * state.scale_of(state.team.active).bound * RESIDUALS.bound)
    if rows > most:
        raise InputError(f"batch_rows: {rows} rows in a batch are more than the {most} whose sums fit; take fewer")


def _questions(states: Sequence[FitState]) -> int:
    """How many columns are asked about the same rows: all gradients and losses, and what was asked before."""
    state, before = states[0], states[0].team.products.answered
    outputs, owners = outputs_of(state.parameters), len(state.team.owners)
    by_epoch = (sum(state.widths.values()) + 1) * outputs + owners
    if any(state.shares_columns for state in states):  # both shares of columns are asked about
        by_epoch = 2 * by_epoch + owners**2 * outputs
    return max(before.values(), default=0) + len(states) * epochs_for(states) * by_epoch


def _epochs(states: Sequence[FitState], notebook: Notebook | None) -> None:
    team, parameters = states[0].team, states[0].parameters
    done, going = go_on_from(notebook.read(len(notebook) - 1), states) if notebook else (0, list(states))
    most, epochs = max(len(state.cut) for state in states), epochs_for(states)
    for epoch in range(done, epochs):
        team.tell_waiting(epoch, epochs)
        for number in range(max(len(state.cut) for state in going)):
            moving = [state for state in going if number < len(state.cut)]
            for state, slope in zip(moving, gradients(moving, number), strict=True):
                state.iterate = step(parameters, state.iterate, slope, state.penalised)
            if team.passive:
                team.session.progress(epoch * most + number + 1, epochs * most)
        if parameters.reveal == "final":  # where gradients are not shown no loss is, and here it is as there
            continue
        going = _judged(going, losses(going))
        if not going:
            break
        if notebook is not None and is_page_due(epoch + 1, epochs):
            notebook.write(**page_of(states, going, epoch + 1))
    for state in states:
        state.iterate = state.best or state.iterate


def _judged(going: Sequence[FitState], found: Sequence[float]) -> list[FitState]:
    """The active party says which models go on, and which have the best weights so far; the ones that go on."""
    team, party = going[0].team, going[0].party
    if party == team.active:
        verdicts = [_verdict(state, loss) for state, loss in zip(going, found, strict=True)]
        said = NextEpoch(tuple(goes_on for goes_on, _ in verdicts), tuple(best for _, best in verdicts))
        for owner in team.passive:
            team.session.send(owner, said)
    else:
        said = team.session.recv(team.active, NextEpoch)
        if not len(said.go_on) == len(said.best) == len(going):
            raise ProtocolError(f"invalid NextEpoch from {team.active}: not of the {len(going)} models that are fitted")
    for state, best in zip(going, said.best, strict=True):
        if best:
            state.best = state.iterate
    return [state for state, goes_on in zip(going, said.go_on, strict=True) if goes_on]


def _verdict(state: FitState, found: float) -> tuple[bool, bool]:
    """Whether a model goes on, and whether its loss was never lower."""
    if found > _DIVERGED:
        raise Diverged(state.party, "the loss grows")
    parameters, lowest, steps = state.parameters, min(state.losses, default=float("inf")), state.iterate.steps
    state.losses.append(found)
    if found < lowest * (1 - parameters.tolerance):
        state.fell = steps
    waited = steps - state.fell
    goes_on = waited < max(parameters.patience * len(state.cut), _SETTLING) and len(state.losses) < epochs_for([state])
    return goes_on, found < lowest


# gradients


def _step_name(state: FitState) -> str:
    return f"{state.name} step {state.iterate.steps}"


def gradients(states: Sequence[FitState], number: int) -> list[Floats]:
    """Steps 1 to 4 for a batch of each model: this party's gradients of the mean losses."""
    team, residuals = states[0].team, [own_residuals(state, state.cut[number]) for state in states]
    each = list(zip(states, residuals, strict=True))
    if not team.passive:
        pooled = [_own_product(state.multiplied[state.cut[number]], own) for state, own in each]
        return [_in_units(state, number, [own]) for state, own in zip(states, pooled, strict=True)]
    asked = [about(state, GRADIENT, number, products_of(state, number, own)) for state, own in each]
    shown = in_one_go(partial(product, team.products), asked)
    forget(team.products, [_step_name(state) for state in states])
    found = []
    for state, results in zip(states, shown, strict=True):
        gradient = _in_units(state, number, [result for result in results if result is not None])
        seen = ShownGradient(state.name, state.cut[number], state.iterate.weights, gradient)
        team.session.observe(team.active, seen)
        found.append(gradient)
    return found


def _own_product(columns: Ints, residuals: Ints) -> Ints:
    """What a party holds of columns times its own residuals."""
    return mod64.product(columns.view(np.uint64), residuals.view(np.uint64)).view(np.int64)


def _in_units(state: FitState, number: int, shown: Sequence[Ints]) -> Floats:
    """Sums of whole numbers as the gradient of the mean loss; a party without columns is shown none."""
    if not shown:
        return np.zeros(state.iterate.weights.shape)
    unit = state.scale_of(state.party).fraction_bits + RESIDUALS.fraction_bits
    if state.weighting.hidden and not state.active:
        unit = shared_unit(state) if state.shares_columns else stacked_unit(state.weighting)
    part = state.cut[number]
    values: Floats = np.concatenate(shown, axis=1).astype(float) * (ldexp(1.0, -unit) / (part.stop - part.start))
    return values


def products_of(state: FitState, number: int, residuals: Ints) -> list[tuple[Call, Inputs]]:
    """The products that give all owners' gradients of a batch, and what this party holds of them."""
    part, batch = state.cut[number], []
    for owner in state.team.owners:
        if not state.widths[owner]:
            continue
        if state.weighting.hidden and owner != state.team.active and not state.is_shared(owner):
            batch += _stacked(state, part, number, residuals)
        else:
            columns = state.multiplies(owner, number)
            own = None if columns is None else _own_product(columns, residuals)
            batch.append((_call(state, owner, number, *residuals.shape), Inputs(x=columns, y=residuals, added=own)))
    return batch


def _call(state: FitState, owner: str, number: int, rows: int, outputs: int) -> Call:
    """The gradient of one owner's columns."""
    holders, bound = state.holders(owner), state.scale_of(owner).bound
    shared = state.is_shared(owner)
    return Call(
        terms=state.terms(owner),
        receiver=owner,
        rows=rows,
        left=Dense(state.widths[owner], RING if shared else bound),
        columns=outputs,
        bound=RESIDUALS.bound,
        added=tuple((holder, RING if shared else rows * bound * RESIDUALS.bound) for holder in holders),
        x=state.columns_name(owner, number),
        y=_step_name(state),
        digest=f"{state.team.digest} batch {number}",
        most=shared_bound(state, rows) if shared else 0,
    )


def _stacked(state: FitState, part: slice, number: int, residuals: Ints) -> list[tuple[Call, Inputs]]:
    """The one passive party's columns, by weights that it does not know, output by output.

    Its columns stay the same, as the weights do; what is new in every step are its columns times its residuals.
    """
    (passive,), (left, right) = state.team.passive, stacked_bounds(state.weighting)
    call = Call(
        terms=((passive, state.team.active),),
        receiver=passive,
        rows=2 * len(residuals),
        left=Dense(state.widths[passive], left),
        columns=1,
        bound=right,
        x=state.columns_name(passive, number),
        y=state.columns_name(state.team.active, number),
        digest=f"{state.team.digest} batch {number}",
        fixed=len(residuals),
    )
    if state.weighting.known is None:
        return [(call, Inputs(x=stacked_columns(state.columns[part], column))) for column in residuals.T]
    weights = state.weighting.known[part]
    return [(call, Inputs(y=stacked_residuals(column, weights, state.weighting))) for column in residuals.T]


# steps


def step(parameters: LinearParameters, iterate: Iterate, slope: Floats, penalised: slice) -> Iterate:
    """Move the weights; every number by itself, in an order that does not matter."""
    rate, weights = rate_of(parameters), iterate.weights
    slope = slope.copy()
    slope[penalised] += parameters.l2 * weights[penalised]
    if parameters.optimiser == "plain":
        return replace(iterate, weights=weights - rate * slope, steps=iterate.steps + 1)
    if parameters.optimiser == "momentum":
        velocity = MOMENTUM * iterate.velocity + slope
        return Iterate(weights - rate * velocity, velocity, iterate.squares, iterate.steps + 1)
    velocity = MOMENTUM * iterate.velocity + (1 - MOMENTUM) * slope
    squares = _ADAM_SQUARES * iterate.squares + (1 - _ADAM_SQUARES) * slope * slope
    mean = velocity / (1 - _power(MOMENTUM, iterate.steps + 1))
    spread = np.sqrt(squares / (1 - _power(_ADAM_SQUARES, iterate.steps + 1)))
    return Iterate(weights - rate * mean / (spread + _ADAM_LEAST), velocity, squares, iterate.steps + 1)


def _power(base: float, times: int) -> float:
    """base^times by multiplying, which is the same on every processor."""
    result = 1.0
    while times:
        if times % 2:
            result *= base
        base, times = base * base, times // 2
    return result
