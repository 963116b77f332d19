"""Columns times row weights, where the owner may not know the weights nor the active party the columns.

Before the first step each passive party's columns of a batch are multiplied row by row with the secret weights, once.
The products stay in two random shares mod 2^64, one at the owner and one at the active party, so that nobody sees them.
Gradients are then sums of products of both shares with everybody's residuals, for any number of passive parties.

What is seen: the owner is shown its gradient, as it would be by weights that it knows, and the active party the loss.
The coordinator sees shapes. The owner of columns and the coordinator could together work out the weights, as they could
work out any matrix that products hide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from unpooled.arrays import Ring
from unpooled.errors import InputError
from unpooled.secure.calls import LARGEST, Call, Inputs, RowByRow
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.vertical.linear.residuals import COLUMNS, RESIDUALS
from unpooled.vertical.linear.state import FitState, shares_of

_WEIGHT_BITS, _LEAST_BITS = 16, 6


def share_columns(
    states: Sequence[FitState],
    scales: Callable[[FitState], tuple[FixedPoint, FixedPoint]],
    shorten: Callable[[list[dict[str, Ring]]], list[dict[str, Ring]]] = lambda found: found,
) -> None:
    """Leave the holders shares of all passive parties' columns times the weights, each encoded by its scale.

    Batch after batch; `shorten` takes off bits that are not needed.
    """
    states = [state for state in states if state.shares_columns]
    for number in range(max((len(state.cut) for state in states), default=0)):
        moving, team = [state for state in states if number < len(state.cut)], states[0].team
        owners = [owner for owner in team.passive if states[0].widths[owner]]
        asked = [[_asked(state, owner, number, *scales(state)) for owner in owners] for state in moving]
        found = []
        for shares in shares_of(team, asked):
            by_owner = zip(owners, shares, strict=True)
            mine = {owner: share for owner, share in by_owner if states[0].party in (owner, team.active)}
            found.append({owner: share[:, :, 0] for owner, share in mine.items()})
        for state, kept in zip(moving, shorten(found), strict=True):
            state.shared |= {(owner, number): share for owner, share in kept.items()}


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
