"""The loss over all rows, shown to the active party alone, which decides by it when to stop.

It is the objective over its curvature (`residuals`): the mean over the rows of the squared residuals, and where it is
that of the training rows what l2 adds. Sums are of whole numbers; the more rows, the coarser, since errors level out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import ldexp
from typing import NamedTuple

import numpy as np

from unpooled.arrays import Floats, Ring
from unpooled.errors import InputError
from unpooled.secure import mod64
from unpooled.secure.calls import LARGEST, RING, Call, Dense, Inputs, RowByRow
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import product
from unpooled.vertical.linear.parameters import outputs_of
from unpooled.vertical.linear.residuals import RESIDUALS, curvature
from unpooled.vertical.linear.row_weights import MOST_POWERS
from unpooled.vertical.linear.state import FitState, about, own_residuals, shares_of
from unpooled.vertical.numbers import exact_sum

LOSS = "loss"
_LOSS_BITS, _LEAST_LOSS_BITS = 10, 4
_HIDDEN_BITS, _LEAST_HIDDEN_BITS = 16, MOST_POWERS + 1


def losses(states: Sequence[FitState]) -> list[float]:
    """At the active party each model's loss, at the others none."""
    team, weighted = states[0].team, _weighted_residuals(states)
    asked = [_shared_loss(state, weighted[state.name]) if state.shares_columns else loss_of(state) for state in states]
    if team.passive:
        each = zip(states, asked, strict=True)
        batch = [one for state, (_, call, held) in each for one in about(state, LOSS, 0, [(call, held)])]
        totals = product(team.products, batch)
    else:
        totals = [inputs.added for _, _, inputs in asked]
    return [
        ldexp(float(total[0, 0]), -unit) / (state.judged.stop - state.judged.start)
        for state, (unit, *_), total in zip(states, asked, totals, strict=True)
        if total is not None
    ]


def loss_of(state: FitState) -> tuple[int, Call, Inputs]:
    """The sum's fraction bits, the product, and what this party holds of it."""
    part, team = state.judged, state.team
    own, penalty = RESIDUALS.decode(own_residuals(state, part)), _penalty(state)
    if state.weighting.hidden:
        return _hidden_loss(state, own.reshape(-1), part, penalty)
    if state.weighting.known is not None:
        own = own * np.sqrt(state.weighting.known[part, np.newaxis])
    scale = _loss_scale(own.size, len(team.owners), state.weighting.heaviest)
    numbers = scale.encode(own.reshape(-1), "residuals")
    unit, bound = 2 * scale.fraction_bits, own.size * scale.bound**2
    added = int(numbers @ numbers) + min(round(ldexp(penalty, unit)), bound)
    call = Call(
        terms=tuple((one, other) for place, one in enumerate(team.owners) for other in team.owners[place + 1 :]),
        receiver=team.active,
        rows=own.size,
        left=Dense(1, scale.bound),
        columns=1,
        bound=2 * scale.bound,
        added=tuple((owner, 2 * bound) for owner in team.owners),
        digest=f"{team.digest} loss",
    )
    return unit, call, Inputs(x=numbers[:, np.newaxis], y=2 * numbers[:, np.newaxis], added=np.array([[added]]))


def _penalty(state: FitState) -> float:
    """What this party's l2 adds to the sum over the training rows."""
    if state.parameters.validation_fraction:
        return 0.0
    weights = state.iterate.weights[state.penalised]
    rows: int = state.judged.stop - state.judged.start
    return state.parameters.l2 / (2 * curvature(state.parameters)) * exact_sum(weights * weights) * rows


def _loss_scale(numbers: int, owners: int, heaviest: int) -> FixedPoint:
    """Steps as small as the sum allows; the more numbers, the coarser, since their errors level out."""
    largest = RESIDUALS.largest * 2.0 ** -(-heaviest // 2)
    room = 62 - 2 * round(largest).bit_length() - (numbers * (owners + 1) ** 2).bit_length()
    if room // 2 < _LEAST_LOSS_BITS:
        raise InputError(f"{numbers} rows times outputs are too many for a loss")
    return FixedPoint(min(room // 2, _LOSS_BITS), largest)


def _hidden_loss(state: FitState, own: Floats, part: slice, penalty: float) -> tuple[int, Call, Inputs]:
    """By weights that the one passive party does not know: Σ w (a + b)² as Σ w a² + Σ (w b² + 2 w a b).

    a are the active party's residuals, b those of the passive one, which multiplies b² with w and 2b with wa.
    """
    (passive,), active, outputs = state.team.passive, state.team.active, outputs_of(state.parameters)
    scales = hidden_scales(len(own), state.weighting.heaviest)
    unit = scales.residuals.fraction_bits + scales.weighted.fraction_bits
    bound = len(own) * scales.weighted.bound * scales.residuals.bound
    call = Call(
        terms=((passive, active),),
        receiver=active,
        rows=2 * len(own),
        left=Dense(1, max(scales.squares.bound, 2 * scales.residuals.bound)),
        columns=1,
        bound=max(scales.weights.bound, scales.weighted.bound),
        added=((active, 2 * bound), (passive, bound)),
        digest=f"{state.team.digest} loss",
    )
    added, numbers = min(round(ldexp(penalty, unit)), bound), scales.residuals.encode(own, "residuals")
    if state.weighting.known is None:
        x = np.concatenate([scales.squares.encode(own * own, "residuals"), 2 * numbers])
        return unit, call, Inputs(x=x[:, np.newaxis], added=np.array([[added]]))
    known = np.repeat(state.weighting.known[part], outputs)
    weighted = scales.weighted.encode(own * known, "residuals")
    y = np.concatenate([scales.weights.encode(known, "weights"), weighted])
    return unit, call, Inputs(y=y[:, np.newaxis], added=np.array([[added + int(weighted @ numbers)]]))


class HiddenScales(NamedTuple):
    """Scales for residuals, their squares, weights and weighted residuals."""

    residuals: FixedPoint
    squares: FixedPoint
    weights: FixedPoint
    weighted: FixedPoint


def hidden_scales(numbers: int, heaviest: int) -> HiddenScales:
    """Steps as small as a sum of so many numbers allows."""
    bits, largest, weight = min((48 - numbers.bit_length()) // 2, _HIDDEN_BITS), RESIDUALS.largest, 2.0**heaviest
    if bits < _LEAST_HIDDEN_BITS:
        raise InputError(f"{numbers} rows times outputs are too many for a loss by weights")
    return HiddenScales(
        residuals=FixedPoint(bits, largest),
        squares=FixedPoint(bits - 5, largest**2),
        weights=FixedPoint(bits + 5 - heaviest, weight),
        weighted=FixedPoint(bits - heaviest, largest * weight),
    )


# Secret weights and several passive parties: the sum of w (a + s)² is Σ w a² + Σ u (2a + s), where a are the active
# party's residuals, s is the sum of the others', and of u = ws each party has a share.


def _weighted_residuals(states: Sequence[FitState]) -> dict[str, Ring]:
    """By the names of such models this party's shares of u."""
    states = [state for state in states if state.shares_columns]
    if not states:
        return {}
    asked = [[_residuals_asked(state, owner) for owner in state.team.passive] for state in states]
    found = shares_of(states[0].team, asked)
    return {state.name: sum(shares[1:], shares[0]).reshape(-1) for state, shares in zip(states, found, strict=True)}


def _residuals_asked(state: FitState, owner: str) -> tuple[Call, Inputs]:
    """One passive party's residuals times the weights, row by row."""
    part, outputs, known = state.judged, outputs_of(state.parameters), state.weighting.known
    rows = part.stop - part.start
    residuals, weights = shared_scales(rows * outputs, len(state.team.owners), state.weighting.heaviest)
    left = RowByRow(outputs, residuals.bound)
    call = Call(((owner, state.team.active),), owner, rows, left, 1, weights.bound)
    if state.party == owner:
        return call, Inputs(x=residuals.encode(RESIDUALS.decode(own_residuals(state, part)), "residuals"))
    return call, Inputs(y=None if known is None else weights.encode(known[part], "weights")[:, np.newaxis])


def _shared_loss(state: FitState, weighted: Ring) -> tuple[int, Call, Inputs]:
    team, part, known = state.team, state.judged, state.weighting.known
    scale, weights = shared_scales(len(weighted), len(team.owners), state.weighting.heaviest)
    numbers = scale.encode(RESIDUALS.decode(own_residuals(state, part)).reshape(-1), "residuals")
    unit, bound = 2 * scale.fraction_bits + weights.fraction_bits, len(numbers) * weights.bound * scale.bound**2
    added, other = min(round(ldexp(_penalty(state), unit)), bound), numbers
    if known is not None:
        own = np.repeat(weights.encode(known[part], "weights"), outputs_of(state.parameters))
        added, other = added + int((own * numbers) @ numbers), 2 * numbers
    call = Call(
        terms=tuple(permutations(team.owners, 2)),
        receiver=team.active,
        rows=len(numbers),
        left=Dense(1, RING),
        columns=1,
        bound=2 * scale.bound,
        added=tuple((owner, RING) for owner in team.owners),
        digest=f"{team.digest} loss",
        most=bound * (len(team.owners) ** 2 + len(team.owners)),
    )
    shares, right = weighted[:, np.newaxis], other[:, np.newaxis]
    total = mod64.product(shares, right.view(np.uint64)).view(np.int64) + added
    return unit, call, Inputs(x=shares.view(np.int64), y=right, added=total)


def shared_scales(numbers: int, owners: int, heaviest: int) -> tuple[FixedPoint, FixedPoint]:
    """Scales for residuals and weights, in steps as small as the sum of so many numbers allows."""
    room = (LARGEST // (numbers * (owners**2 + owners) * round(RESIDUALS.largest) ** 2)).bit_length() - 1
    weight_bits = max(min(room - 2 * (room // 3), _HIDDEN_BITS), heaviest)
    bits = min((room - weight_bits) // 2, _LOSS_BITS)
    if bits < _LEAST_LOSS_BITS:
        raise InputError(f"{numbers} rows times outputs are too many for a loss by weights")
    return FixedPoint(bits, RESIDUALS.largest), FixedPoint(weight_bits - heaviest, 2.0**heaviest)
