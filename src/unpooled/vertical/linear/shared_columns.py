"""Columns times row weights, where the owner may not know the weights nor the active party the columns.

Before the first step each passive party's columns of a batch are multiplied row by row with the secret weights, once.
The products stay in two random shares mod 2^64, one at the owner and one at the active party, so that nobody sees them.
Gradients are then sums of products of both shares with everybody's residuals, for any number of passive parties.

What is seen: the owner is shown its gradient, as it would be by weights that it knows, and the active party the loss.
The coordinator sees shapes. The owner of columns and the coordinator could together work out the weights, as they could
work out any matrix that products hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil

from unpooled.arrays import Ring
from unpooled.errors import InputError
from unpooled.secure.calls import LARGEST, Call, Inputs, RowByRow
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import product_shares
from unpooled.vertical.linear.residuals import COLUMNS, RESIDUALS
from unpooled.vertical.linear.state import FitState, in_one_go

_WEIGHT_BITS, _LEAST_BITS = 16, 6


def share_columns(states: Sequence[FitState]) -> None:
    """Leave the holders shares of all passive parties' columns times the weights, batch after batch."""
    states = [state for state in states if state.shares_columns]
    for number in range(max((len(state.cut) for state in states), default=0)):
        moving = [state for state in states if number < len(state.cut)]
        scales = [scales_of(state) for state in moving]
        for state, shares in zip(moving, weighted_shares(moving, number, scales), strict=True):
            state.shared |= {(owner, number): share for owner, share in shares.items()}


def weighted_shares(
    states: Sequence[FitState], number: int, scales: Sequence[tuple[FixedPoint, FixedPoint]]
) -> list[dict[str, Ring]]:
    """For each model, by owner, this party's shares of a batch of columns times weights; each encoded by its scale."""
    team, me = states[0].team, states[0].party
    owners = [owner for owner in team.passive if states[0].widths[owner]]
    asked = [
        [_asked(state, owner, number, *scale) for owner in owners] for state, scale in zip(states, scales, strict=True)
    ]
    found = in_one_go(partial(product_shares, team.products), asked)
    return [
        {owner: share[:, :, 0] for owner, share in zip(owners, shares, strict=True) if me in (owner, team.active)}
        for shares in found
    ]


def _asked(state: FitState, owner: str, number: int, columns: FixedPoint, weights: FixedPoint) -> tuple[Call, Inputs]:
    part, active = state.cut[number], state.team.active
    common = f"{state.columns_name(owner, number, weighted=False)} to {columns.fraction_bits} bits"
    name = common if state.rows else ""  # without a name what is kept of a matrix that serves once is dropped
    left, rows = RowByRow(state.widths[owner], columns.bound), part.stop - part.start
    call = Call(((owner, active),), owner, rows, left, 1, weights.bound, x=name)
    if state.party == owner:
        return call, Inputs(x=columns.encode(COLUMNS.decode(state.columns[part]), "columns"))
    if state.weighting.known is None:
        return call, Inputs()
    return call, Inputs(y=weights.encode(state.weighting.known[part], "weights")[:, None])


def scales_of(state: FitState) -> tuple[FixedPoint, FixedPoint]:
    """Scales for columns and weights: as many bits as gradients have room for."""
    rows, limit = max(part.stop - part.start for part in state.cut), max(state.parameters.limit, 1.0)
    room = (LARGEST // (rows * len(state.team.owners) * RESIDUALS.bound * ceil(limit))).bit_length() - 1
    column_bits = min(COLUMNS.fraction_bits, room // 2)
    weight_bits = min(room - column_bits, _WEIGHT_BITS)
    heaviest = state.weighting.heaviest
    if column_bits < _LEAST_BITS or weight_bits < max(heaviest, _LEAST_BITS):
        raise InputError(f"batch_rows: {rows} rows in a batch are too many for secret row weights; take fewer")
    return FixedPoint(column_bits, limit), FixedPoint(weight_bits - heaviest, 2.0**heaviest)


def shared_bound(state: FitState, rows: int) -> int:
    """How large a gradient can become."""
    columns, weights = scales_of(state)
    return rows * len(state.team.owners) * columns.bound * weights.bound * RESIDUALS.bound


def shared_unit(state: FitState) -> int:
    """The fraction bits of a gradient."""
    columns, weights = scales_of(state)
    return columns.fraction_bits + weights.fraction_bits + RESIDUALS.fraction_bits
