"""A descent that shows no gradient: weights that nobody knows until the end (`reveal = "final"`).

Each owner's weights are the sum of two random shares mod 2^64: one is its own, the other its partner's. The partner of
a passive party is the active one, and that of the active party the first passive one. For each batch, all owners at
once, and never more than shares of anything:
1. scores: each owner's columns times its own share, and under protection times its partner's
2. residuals follow share by share, since the rule is a straight line; the active party adds the constant part
3. gradients: each owner's columns times its own share of the residuals, and under protection times the others'; what
   others than owner and partner then hold goes to the partner
4. velocity and weights move share by share; both are brought back to their number of bits (`_shortened`)

Row weights that only the active party knows are multiplied with passive parties' columns once, before the first step
(`shared_columns`); in 3 the owner and the active party each multiply a share of that. Nobody sees more than without.

At the end the partners send their shares to the owners. No loss is shown either, so all epochs are run. Which way a
last bit is rounded depends on the shares, so that two runs differ in the last digits. Several models are fitted in
step, and share all messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Floats, Ints, Ring
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.secure import mod64
from unpooled.secure.calls import RING, Call, Dense, Inputs, RowByRow
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import forget
from unpooled.session import ITEM_BYTES
from unpooled.vertical.linear.descent import MOMENTUM
from unpooled.vertical.linear.messages import GradientShares, LastShare
from unpooled.vertical.linear.parameters import SAFE_ROWS_PER_COLUMN, LinearParameters, outputs_of, rate_of
from unpooled.vertical.linear.residuals import COLUMNS, MOST_COLUMNS, WEIGHTS, Diverged
from unpooled.vertical.linear.shared_columns import share_columns
from unpooled.vertical.linear.state import FitState, begin_at, epochs_for, shares_of
from unpooled.vertical.team import Team

_COLUMNS = FixedPoint(fraction_bits=10, largest=COLUMNS.largest)
_FACTOR_BITS, _RATE_BITS = 20, 30
_WEIGHT_BITS = _COLUMNS.fraction_bits + _FACTOR_BITS - COLUMNS.fraction_bits
_MOST_ROWS = 2**17
_TOP, _LIFT = np.uint64(63), np.uint64(2**62)
_TURNED, _UPRIGHT = " turned", " upright"

Shares = dict[str, Ring]
"""By owner this party's share of something of that owner's; it has shares of its own, and as a partner."""


@dataclass(eq=False)
class Descent:
    """One model's descent at one party; each gradient is `scale` times that of the mean loss."""

    state: FitState
    columns: Ring
    constant: Ring | None
    scale: int
    weights: Shares
    velocity: Shares


def descend_unseen(states: Sequence[FitState]) -> None:
    """Go through all epochs, all models in step; at the end the states have their weights."""
    team = states[0].team
    check_rows(states)
    descents = [_begun(state) for state in states]
    steps, epochs = max(len(state.cut) for state in states), epochs_for(states)
    share_columns(states, _column_scales, lambda found: _shortened(team, found, _FACTOR_BITS))
    for epoch in range(epochs):
        team.tell_waiting(epoch, epochs)
        for number in range(steps):
            moving = [each for each in descents if number < len(each.state.cut)]
            _step(moving, _gradients(moving, number, _residuals(moving, number)))
            team.session.progress(epoch * steps + number + 1, epochs * steps)
    own = [name for state in states for name in state.own_names()]
    forget(team.products, [f"{name}{form}" for name in own for form in (_TURNED, _UPRIGHT)])
    for state, weights in zip(states, _opened(descents), strict=True):
        state.iterate = begin_at(weights)


def check_rows(states: Sequence[FitState]) -> None:
    """Refuse so few rows that a party's own weights say who has which label; batches may be of any size."""
    for state in states:
        rows, least = len(state.columns), SAFE_ROWS_PER_COLUMN * state.widths[state.party]
        if rows < least and not state.parameters.insecure_batch:
            raise RefusedError(
                f"{state.party} takes part with at least {least} rows ({SAFE_ROWS_PER_COLUMN} for each column), and "
                f"there are {rows}: weights that are fitted to fewer give labels away (insecure_batch allows it)"
            )


def _column_scales(state: FitState) -> tuple[FixedPoint, FixedPoint]:
    return COLUMNS, FixedPoint(_WEIGHT_BITS, 2.0**state.weighting.heaviest)


def _begun(state: FitState) -> Descent:
    parameters = state.parameters
    divisor, rows = _divisor(parameters), len(state.columns) // len(state.cut)
    if divisor * rows > _MOST_ROWS:
        raise InputError(f"batch_rows: with reveal = 'final' a batch has at most {_MOST_ROWS // divisor} rows")
    weights: Shares = {
        owner: np.zeros((state.widths[owner], outputs_of(parameters)), np.uint64)
        for owner in _mine(state.team, state.party)
    }
    weights[state.party] = WEIGHTS.encode(state.iterate.weights, "weights").view(np.uint64)
    velocity = {owner: np.zeros_like(share) for owner, share in weights.items()}
    columns, weighting, constant = COLUMNS.decode(state.columns), state.weighting, None
    multiplied = columns if weighting.known is None else columns * weighting.known[:, np.newaxis]
    heavy = FixedPoint(_COLUMNS.fraction_bits, _COLUMNS.largest * 2.0**weighting.heaviest)
    state.multiplied = heavy.encode(multiplied, "columns")
    if state.constant is not None:
        bits = _COLUMNS.fraction_bits + WEIGHTS.fraction_bits
        constant = np.rint(np.ldexp(state.constant * divisor, bits)).astype(np.int64).view(np.uint64)
    encoded = _COLUMNS.encode(columns, "columns").view(np.uint64)
    return Descent(state, encoded, constant, divisor * rows, weights, velocity)


def _partner(team: Team, owner: str) -> str:
    return team.active if owner != team.active else team.passive[0]


def _mine(team: Team, party: str) -> list[str]:
    """The owners of whose numbers this party has shares."""
    return [owner for owner in team.owners if party in (owner, _partner(team, owner))]


def _with_columns(state: FitState) -> list[str]:
    return [owner for owner in state.team.owners if state.widths[owner]]


def _divisor(parameters: LinearParameters) -> int:
    """What residuals are multiplied by, so that scores and labels have whole numbers as factors."""
    if not parameters.classes:
        return 1
    return 4 if outputs_of(parameters) == 1 or parameters.several == "one-versus-rest" else parameters.classes**2


def _signed(numbers: Ring) -> Ints:
    return np.ascontiguousarray(numbers).view(np.int64)


def _residuals(moving: Sequence[Descent], number: int) -> list[Ring]:
    """1 and 2: this party's shares of the residuals, rows × outputs."""
    turned = [np.ascontiguousarray(each.columns[each.state.cut[number]].T) for each in moving]
    asked = [_scores_asked(each, number, columns) for each, columns in zip(moving, turned, strict=True)]
    held = shares_of(moving[0].state.team, asked)
    found = []
    for each, columns, shares in zip(moving, turned, held, strict=True):
        state, outputs = each.state, outputs_of(each.state.parameters)
        total = sum(shares, mod64.product(columns, each.weights[state.party]))
        if state.parameters.several == "softmax" and outputs > 1:
            total = np.uint64(outputs) * total - total.sum(axis=1, keepdims=True, dtype=np.uint64)
        found.append(total if each.constant is None else total + each.constant[state.cut[number]])
    return found


def _scores_asked(descent: Descent, number: int, turned: Ring) -> list[tuple[Call, Inputs]]:
    """All owners' columns times the shares of their weights that their partners have."""
    state, asked = descent.state, []
    (_, rows), outputs, me = turned.shape, outputs_of(state.parameters), state.party
    for owner in _with_columns(state):
        partner, width = _partner(state.team, owner), state.widths[owner]
        name = f"{state.columns_name(owner, number, weighted=False)}{_TURNED}"
        call = Call(((owner, partner),), owner, width, Dense(rows, RING), outputs, RING, x=name)
        held = Inputs(x=_signed(turned)) if me == owner else Inputs()
        asked.append((call, Inputs(y=_signed(descent.weights[owner])) if me == partner else held))
    return asked


def _gradients(moving: Sequence[Descent], number: int, residuals: Sequence[Ring]) -> list[Shares]:
    """3: this party's shares of the gradients, its own and those of the owners whose partner it is."""
    state = moving[0].state
    owners, me = _with_columns(state), state.party
    asked = [_slopes_asked(each.state, number, r) for each, r in zip(moving, residuals, strict=True)]
    held = [dict(zip(owners, each, strict=True)) for each in shares_of(state.team, asked)]
    for each, ours, r in zip(moving, held, residuals, strict=True):
        for owner, share in ours.items():
            if (columns := each.state.multiplies(owner, number)) is not None:
                ours[owner] = share + mod64.product(columns.view(np.uint64), r)
    _pass_on(state, held)
    return [{owner: share for owner, share in ours.items() if owner in _mine(state.team, me)} for ours in held]


def _slopes_asked(state: FitState, number: int, residuals: Ring) -> list[tuple[Call, Inputs]]:
    """All owners' columns, or shares of them, times everybody else's shares of the residuals."""
    asked = []
    for owner in _with_columns(state):
        left, name = Dense(state.widths[owner], RING), f"{state.columns_name(owner, number)}{_UPRIGHT}"
        call = Call(state.terms(owner), owner, len(residuals), left, residuals.shape[1], RING, x=name)
        asked.append((call, Inputs(x=state.multiplies(owner, number), y=_signed(residuals))))
    return asked


def _pass_on(state: FitState, held: Sequence[Shares]) -> None:
    """What others than owner and partner hold of each model's gradients goes to the partner, who adds it to its own."""
    team, me = state.team, state.party
    for partner in dict.fromkeys(_partner(team, owner) for owner in _with_columns(state)):
        passed = _passed(state, me, partner)
        if passed:
            team.session.send(partner, GradientShares(tuple(ours[owner] for ours in held for owner in passed)))
    for other in team.owners:
        passed = _passed(state, other, me)
        if not passed:
            continue
        places = [(o, owner) for o in held for owner in passed]
        most = sum(ours[owner].nbytes + ITEM_BYTES for ours, owner in places)
        values = team.session.recv(other, GradientShares, at_most=most).values
        if [share.shape for share in values] != [ours[owner].shape for ours, owner in places]:
            raise ProtocolError(f"invalid GradientShares from {other}: not of the columns that {me} has shares of")
        for (ours, owner), share in zip(places, values, strict=True):
            ours[owner] = ours[owner] + share


def _passed(state: FitState, sender: str, partner: str) -> list[str]:
    """The owners whose gradients' shares go from one party to the partner."""
    return [
        owner
        for owner in _with_columns(state)
        if _partner(state.team, owner) == partner and sender not in (owner, partner)
    ]


def _step(moving: Sequence[Descent], gradients: Sequence[Shares]) -> None:
    """4: velocity counts in gradients as they are."""
    state = moving[0].state
    parameters, active = state.parameters, state.team.active
    keep = _factor(MOMENTUM, _FACTOR_BITS) if parameters.optimiser == "momentum" else _factor(0.0, 0)
    pushed = []
    for each, slopes in zip(moving, gradients, strict=True):
        shrink, moved = _factor(parameters.l2 * each.scale, _FACTOR_BITS), {}
        for owner, slope in slopes.items():
            penalised = each.weights[owner].copy()
            if owner == active:
                penalised[-1] = 0  # the intercept
            moved[owner] = keep * each.velocity[owner] + slope + shrink * penalised
        pushed.append(moved)
    for each, velocity in zip(moving, _shortened(state.team, pushed, _FACTOR_BITS), strict=True):
        each.velocity |= velocity
    pushed = []
    for each, slopes in zip(moving, gradients, strict=True):
        rate, up = _factor(rate_of(parameters) / each.scale, _RATE_BITS), np.uint64(_RATE_BITS)
        pushed.append({owner: (each.weights[owner] << up) - rate * each.velocity[owner] for owner in slopes})
    for each, weights in zip(moving, _shortened(state.team, pushed, _RATE_BITS), strict=True):
        each.weights |= weights


def _factor(value: float, bits: int) -> np.uint64:
    return np.uint64(round(value * 2.0**bits))


def _shortened(team: Team, models: Sequence[Shares], bits: int) -> list[Shares]:
    """Shares of numbers below 2^62, without their last bits; a result is off by one at most.

    A number x, lifted above zero, is a + b - 2^64 o, where a and b are its shares and o says whether they wrapped
    around. Since x is below 2^63, they did if the top bit of either is set: o = a' + b' - a'b', and a'b' is a product.
    """
    me = team.products.party
    tops = {owner: np.concatenate([shares[owner].reshape(-1) for shares in models]) for owner in models[0]}
    tops = {owner: (share + _LIFT if me != owner else share) for owner, share in tops.items() if share.size}
    asked = []
    for owner, share in tops.items():
        bit, ours = _signed(share >> _TOP)[:, np.newaxis], []
        for part in np.split(bit, range(MOST_COLUMNS, len(bit), MOST_COLUMNS)):  # so many rows any coordinator serves
            call = Call(((owner, _partner(team, owner)),), owner, len(part), RowByRow(1, RING), 1, RING)
            ours.append((call, Inputs(x=part) if me == owner else Inputs(y=part)))
        asked.append(ours)
    found, short = [dict(shares) for shares in models], np.uint64(bits)
    for (owner, share), parts in zip(tops.items(), shares_of(team, asked), strict=True):
        both = np.concatenate(parts).reshape(-1)
        shorter = (share >> short) - (((share >> _TOP) - both) << np.uint64(64 - bits))
        if me != owner:
            shorter = shorter - (_LIFT >> short) + np.uint64(1)  # what both shares lose, in the mean
        ends = np.cumsum([shares[owner].size for shares in models])
        for shares, own in zip(found, np.split(shorter, ends[:-1]), strict=True):
            shares[owner] = own.reshape(shares[owner].shape)
    return found


def _opened(descents: Sequence[Descent]) -> list[Floats]:
    """The end: each owner is sent what its partner has."""
    team, me = descents[0].state.team, descents[0].state.party
    for owner in _mine(team, me):
        if owner != me:
            team.session.send(owner, LastShare(tuple(each.weights[owner] for each in descents)))
    own = [each.weights[me] for each in descents]
    most = sum(share.nbytes + ITEM_BYTES for share in own)
    values = team.session.recv(_partner(team, me), LastShare, at_most=most).values
    if [share.shape for share in values] != [share.shape for share in own]:
        raise ProtocolError(f"invalid LastShare from {_partner(team, me)}: not of the columns of {me}")
    opened = [(ours + theirs).view(np.int64) for ours, theirs in zip(own, values, strict=True)]
    for weights in opened:
        if weights.size and (int(weights.max()) > WEIGHTS.bound or int(weights.min()) < -WEIGHTS.bound):
            raise Diverged(me, f"a weight has grown beyond {WEIGHTS.largest:g}")
    return [WEIGHTS.decode(weights) for weights in opened]
