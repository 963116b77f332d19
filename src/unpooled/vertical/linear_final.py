"""A descent that shows no gradient: weights that nobody knows until the end (`reveal = "final"`).

Each owner's weights are the sum of two random shares mod 2^64: one is its own, the other its partner's. The partner of
a passive party is the active one, and that of the active party the first passive one. For each batch, all owners at
once, and never more than shares of anything:
1. scores: each owner's columns times its own share, and under protection times its partner's
2. residuals follow share by share, since the rule is a straight line; the active party adds the constant part
3. gradients: each owner's columns times its own share of the residuals, and under protection times the others'; what
   others than owner and partner then hold goes to the partner
4. velocity and weights move share by share; both are brought back to their number of bits (`_shortened`)

At the end the partners send their shares to the owners. No loss is shown either, so all epochs are run. Which way a
last bit is rounded depends on the shares, so that two runs differ in the last digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unpooled.codec import Floats, Ints, Ring
from unpooled.errors import InputError, ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Dense, Inputs
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import forget, product_shares
from unpooled.vertical.linear_descent import MOMENTUM, batches
from unpooled.vertical.linear_messages import GradientShares, LastShare
from unpooled.vertical.linear_parameters import LinearParameters, outputs_of, rate_of
from unpooled.vertical.linear_side import Side, begin_at
from unpooled.vertical.residuals import COLUMNS, WEIGHTS, Diverged
from unpooled.vertical.team import Team

_RING = 2**63
_COLUMNS = FixedPoint(fraction_bits=10, largest=COLUMNS.largest)
_FACTOR_BITS, _RATE_BITS = 20, 30
_MOST_ROWS = 2**17
_TOP, _LIFT = np.uint64(63), np.uint64(2**62)
_AT_ONCE = 32

Shares = dict[str, Ring]
"""By owner this party's share of something of that owner's; it has shares of its own, and as a partner."""


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch at one party: its columns as they give scores, and as they are multiplied with residuals."""

    number: int
    columns: Ring
    multiplied: Ring
    constant: Ring | None


def descend_unseen(side: Side) -> None:
    """Go through all epochs; at the end the side has its weights."""
    parameters, team = side.parameters, side.team
    cut = batches(parameters, len(side.columns), side.widths)
    divisor, rows = _divisor(parameters), len(side.columns) // len(cut)
    if divisor * rows > _MOST_ROWS:
        raise InputError(f"batch_rows: with reveal = 'final' a batch has at most {_MOST_ROWS // divisor} rows")
    made = [_batch(side, number, part) for number, part in enumerate(cut)]
    weights: Shares = {
        owner: np.zeros((side.widths[owner], outputs_of(parameters)), np.uint64) for owner in _mine(team, side.party)
    }
    weights[side.party] = WEIGHTS.encode(side.state.weights, "weights").view(np.uint64)
    velocity = {owner: np.zeros_like(share) for owner, share in weights.items()}
    for epoch in range(parameters.epochs):
        for batch in made:
            gradients = _gradients(side, batch, _residuals(side, batch, weights))
            _step(side, gradients, weights, velocity, divisor * rows)
            team.session.progress(epoch * len(cut) + batch.number + 1, parameters.epochs * len(cut))
    forget(team.products, [name for batch in made for name in _names(side, batch)])
    side.state = begin_at(_opened(side, weights))


def _partner(team: Team, owner: str) -> str:
    return team.active if owner != team.active else team.passive[0]


def _mine(team: Team, party: str) -> list[str]:
    """The owners of whose numbers this party has shares."""
    return [owner for owner in team.owners if party in (owner, _partner(team, owner))]


def _with_columns(side: Side) -> list[str]:
    return [owner for owner in side.team.owners if side.widths[owner]]


def _divisor(parameters: LinearParameters) -> int:
    """What residuals are multiplied by, so that scores and labels have whole numbers as factors."""
    if not parameters.classes:
        return 1
    return 4 if outputs_of(parameters) == 1 or parameters.several == "one-versus-rest" else parameters.classes**2


def _batch(side: Side, number: int, part: slice) -> Batch:
    columns, weighing = COLUMNS.decode(side.columns[part]), side.weighing
    multiplied = columns if weighing.known is None else columns * weighing.known[part, np.newaxis]
    heavy = FixedPoint(_COLUMNS.fraction_bits, _COLUMNS.largest * 2.0**weighing.heaviest)
    constant = None
    if side.constant is not None:
        bits = _COLUMNS.fraction_bits + WEIGHTS.fraction_bits
        times = side.constant[part] * _divisor(side.parameters)
        constant = np.rint(np.ldexp(times, bits)).astype(np.int64).view(np.uint64)
    return Batch(
        number, _ring(_COLUMNS.encode(columns, "columns")), _ring(heavy.encode(multiplied, "columns")), constant
    )


def _ring(numbers: Ints) -> Ring:
    return numbers.view(np.uint64)


def _signed(numbers: Ring) -> Ints:
    return np.ascontiguousarray(numbers).view(np.int64)


def _names(side: Side, batch: Batch) -> tuple[str, str]:
    """What the batch's columns are called, turned (for scores) and as they are."""
    return f"{side.name} turned {batch.number}", f"{side.name} batch {batch.number}"


def _residuals(side: Side, batch: Batch, weights: Shares) -> Ring:
    """1 and 2: this party's share of the residuals, rows × outputs."""
    team, me, outputs = side.team, side.party, outputs_of(side.parameters)
    turned, rows = np.ascontiguousarray(batch.columns.T), len(batch.columns)
    asked = []
    for owner in _with_columns(side):
        partner, width = _partner(team, owner), side.widths[owner]
        call = Call(((owner, partner),), owner, width, Dense(rows, _RING), outputs, _RING, x=_names(side, batch)[0])
        held = Inputs(x=_signed(turned)) if me == owner else Inputs()
        asked.append((call, Inputs(y=_signed(weights[owner])) if me == partner else held))
    total = sum(product_shares(team.products, asked), mod64.product(turned, weights[me]))
    if side.parameters.several == "softmax" and outputs > 1:
        total = np.uint64(outputs) * total - total.sum(axis=1, keepdims=True, dtype=np.uint64)
    return total if batch.constant is None else total + batch.constant


def _gradients(side: Side, batch: Batch, residuals: Ring) -> Shares:
    """3: this party's shares of the gradients, its own and those of the owners whose partner it is."""
    team, me, owners = side.team, side.party, _with_columns(side)
    asked = []
    for owner in owners:
        call = Call(
            terms=tuple((owner, other) for other in team.owners if other != owner),
            receiver=owner,
            rows=len(residuals),
            left=Dense(side.widths[owner], _RING),
            columns=residuals.shape[1],
            bound=_RING,
            x=_names(side, batch)[1],
        )
        asked.append((call, Inputs(x=_signed(batch.multiplied)) if owner == me else Inputs(y=_signed(residuals))))
    held = dict(zip(owners, product_shares(team.products, asked), strict=True))
    if me in held:
        held[me] = held[me] + mod64.product(batch.multiplied, residuals)
    for partner in dict.fromkeys(_partner(team, owner) for owner in owners):
        passed = _passed(side, me, partner)
        if passed:
            team.session.send(partner, GradientShares(tuple(held[owner] for owner in passed)))
    for other in team.owners:
        passed = _passed(side, other, me)
        if passed:
            values = team.session.recv(other, GradientShares).values
            if [share.shape for share in values] != [held[owner].shape for owner in passed]:
                raise ProtocolError(f"{other} sent GradientShares of other columns than {me} has shares of")
            for owner, share in zip(passed, values, strict=True):
                held[owner] = held[owner] + share
    return {owner: share for owner, share in held.items() if owner in _mine(team, me)}


def _passed(side: Side, sender: str, partner: str) -> list[str]:
    """The owners whose gradients' shares go from one party to the partner."""
    return [
        owner
        for owner in _with_columns(side)
        if _partner(side.team, owner) == partner and sender not in (owner, partner)
    ]


def _step(side: Side, gradients: Shares, weights: Shares, velocity: Shares, scale: int) -> None:
    """4: velocity counts in gradients as they are, of which each is `scale` times that of the mean loss."""
    parameters = side.parameters
    keep = _factor(MOMENTUM, _FACTOR_BITS) if parameters.optimiser == "momentum" else _factor(0.0, 0)
    shrink, rate = _factor(parameters.l2 * scale, _FACTOR_BITS), _factor(rate_of(parameters) / scale, _RATE_BITS)
    moved = {}
    for owner, slope in gradients.items():
        penalised = weights[owner].copy()
        if owner == side.team.active:
            penalised[-1] = 0  # the intercept
        moved[owner] = keep * velocity[owner] + slope + shrink * penalised
    velocity |= _shortened(side, moved, _FACTOR_BITS)
    moved = {owner: (weights[owner] << np.uint64(_RATE_BITS)) - rate * velocity[owner] for owner in gradients}
    weights |= _shortened(side, moved, _RATE_BITS)


def _factor(value: float, bits: int) -> np.uint64:
    return np.uint64(round(value * 2.0**bits))


def _shortened(side: Side, values: Shares, bits: int) -> Shares:
    """Shares of numbers below 2^62, without their last bits; a result is off by one at most.

    A number x, lifted above zero, is a + b - 2^64 o, where a and b are its shares and o says whether they wrapped
    around. Since x is below 2^63, they did if the top bit of either is set: o = a' + b' - a'b', and a'b' is a product.
    """
    team, me = side.team, side.party
    tops = {owner: (share + _LIFT if me != owner else share) for owner, share in values.items()}
    asked, places = [], []
    for owner in _with_columns(side):
        count = side.widths[owner] * outputs_of(side.parameters)
        for begin in range(0, count, _AT_ONCE):  # of a product of all with all only the diagonal is needed
            place = slice(begin, min(begin + _AT_ONCE, count))
            size, partner = place.stop - begin, _partner(team, owner)
            call = Call(((owner, partner),), owner, 1, Dense(size, _RING), size, _RING)
            bit = _signed(tops[owner].reshape(1, -1)[:, place] >> _TOP) if owner in tops else None
            asked.append((call, Inputs(x=bit if me == owner else None, y=bit if me == partner else None)))
            places.append((owner, place))
    both = {owner: np.zeros(share.size, np.uint64) for owner, share in values.items()}
    for (owner, place), product in zip(places, product_shares(team.products, asked), strict=True):
        if owner in both:
            both[owner][place] = product.diagonal()
    short, found = np.uint64(bits), {}
    for owner, share in tops.items():
        wrapped = (share >> _TOP) - both[owner].reshape(share.shape)
        found[owner] = (share >> short) - (wrapped << np.uint64(64 - bits))
        if me != owner:
            found[owner] = found[owner] - (_LIFT >> short) + np.uint64(1)  # what both shares lose, in the mean
    return found


def _opened(side: Side, weights: Mapping[str, Ring]) -> Floats:
    """The end: each owner is sent what its partner has."""
    team, me = side.team, side.party
    for owner in _mine(team, me):
        if owner != me:
            team.session.send(owner, LastShare(weights[owner]))
    values = team.session.recv(_partner(team, me), LastShare).values
    if values.shape != weights[me].shape:
        raise ProtocolError(f"{_partner(team, me)} sent a LastShare of other columns than {me} has")
    opened = (weights[me] + values).view(np.int64)
    if opened.size and (int(opened.max()) > WEIGHTS.bound or int(opened.min()) < -WEIGHTS.bound):
        raise Diverged(me, f"a weight has grown beyond {WEIGHTS.largest:g}")
    return WEIGHTS.decode(opened)
