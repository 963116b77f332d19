"""The loss that all rows together have, shown to the active party alone: it says when a descent has come to its end.

It is the objective over its curvature (`residuals`): the mean over the rows of the squared residuals, and where it is
that of the training rows what l2 adds. Sums are of whole numbers; the more rows, the coarser, since errors level out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from math import ldexp

import numpy as np

from unpooled.arrays import Floats, Ints, Ring
from unpooled.errors import InputError
from unpooled.secure import mod64
from unpooled.secure.calls import LARGEST, RING, Call, Dense, Inputs, RowByRow
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import product, product_shares
from unpooled.vertical.linear.parameters import outputs_of
from unpooled.vertical.linear.residuals import RESIDUALS, curvature
from unpooled.vertical.linear.row_weights import MOST_POWERS
from unpooled.vertical.linear.state import FitState, about, in_one_go, own_residuals
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
    if state.weighing.hidden:
        return _hidden_loss(state, own.reshape(-1), part, penalty)
    if state.weighing.known is not None:
        own = own * np.sqrt(state.weighing.known[part, np.newaxis])
    scale = _loss_scale(own.size, len(team.owners), state.weighing.heaviest)
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
    if state.parameters.validation_share:
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
    """By weights that the one passive party does not know."""
    (passive,), active, outputs = state.team.passive, state.team.active, outputs_of(state.parameters)
    scales = HiddenScales(len(own), state.weighing.heaviest)
    left, right = scales.bounds
    bound = len(own) * scales.weighted.bound * scales.residuals.bound
    call = Call(
        terms=((passive, active),),
        receiver=active,
        rows=2 * len(own),
        left=Dense(1, left),
        columns=1,
        bound=right,
        added=((active, 2 * bound), (passive, bound)),
        digest=f"{state.team.digest} loss",
    )
    extra = min(round(ldexp(penalty, scales.unit)), bound)
    if state.weighing.known is None:
        return scales.unit, call, Inputs(x=scales.of_passive(own), added=np.array([[extra]]))
    y, squares = scales.of_active(own, np.repeat(state.weighing.known[part], outputs))
    return scales.unit, call, Inputs(y=y, added=np.array([[squares + extra]]))


def _weighted_residuals(states: Sequence[FitState]) -> dict[str, Ring]:
    """By model this party's shares of the passive parties' residuals times the weights, summed over these parties.

    Only of models whose weights no passive party may know, where there are several.
    """
    states = [state for state in states if state.shares_columns]
    if not states:
        return {}
    asked = [[_residuals_asked(state, owner) for owner in state.team.passive] for state in states]
    found = in_one_go(partial(product_shares, states[0].team.products), asked)
    return {state.name: sum(shares[1:], shares[0]).reshape(-1) for state, shares in zip(states, found, strict=True)}


def _residuals_asked(state: FitState, owner: str) -> tuple[Call, Inputs]:
    part, outputs, active = state.judged, outputs_of(state.parameters), state.team.active
    rows = part.stop - part.start
    residuals, weights = _shared_scales(rows * outputs, len(state.team.owners), state.weighing.heaviest)
    call = Call(((owner, active),), owner, rows, RowByRow(outputs, residuals.bound), 1, weights.bound)
    if state.party == owner:
        return call, Inputs(x=residuals.encode(RESIDUALS.decode(own_residuals(state, part)), "residuals"))
    known = state.weighing.known
    return call, Inputs(y=None if known is None else weights.encode(known[part], "weights")[:, np.newaxis])


def _shared_loss(state: FitState, weighted: Ring) -> tuple[int, Call, Inputs]:
    """The sum of w (a + s)² as Σ w a² + Σ u (2a + s): a are the active party's residuals, s the sum of the others'.

    Of u = ws each party has a share (`weighted`).
    """
    team, part, outputs = state.team, state.judged, outputs_of(state.parameters)
    scale, weights = _shared_scales(len(weighted), len(team.owners), state.weighing.heaviest)
    numbers = scale.encode(RESIDUALS.decode(own_residuals(state, part)).reshape(-1), "residuals")
    unit, bound = 2 * scale.fraction_bits + weights.fraction_bits, len(numbers) * weights.bound * scale.bound**2
    added = min(round(ldexp(_penalty(state), unit)), bound)
    other = numbers
    if state.weighing.known is not None:
        own = np.repeat(weights.encode(state.weighing.known[part], "weights"), outputs)
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


def _shared_scales(numbers: int, owners: int, heaviest: int) -> tuple[FixedPoint, FixedPoint]:
    """Scales for residuals and weights, in steps as small as the sum of so many numbers allows."""
    largest = round(RESIDUALS.largest)
    room = (LARGEST // (numbers * (owners**2 + owners) * largest**2)).bit_length() - 1
    weight_bits = max(min(room - 2 * (room // 3), _HIDDEN_BITS), heaviest)
    bits = min((room - weight_bits) // 2, _LOSS_BITS)
    if bits < _LEAST_LOSS_BITS:
        raise InputError(f"{numbers} rows times outputs are too many for a loss by weights")
    return FixedPoint(bits, RESIDUALS.largest), FixedPoint(weight_bits - heaviest, 2.0**heaviest)


@dataclass(frozen=True)
class HiddenScales:
    """Scales for the sum of w (a + b)² over so many numbers, as Σ w a² + Σ (w b² + 2 w a b).

    a are the active party's residuals, b those of the passive one, which does not know the weights w.
    """

    numbers: int
    heaviest: int

    @property
    def _bits(self) -> int:
        bits = min((48 - self.numbers.bit_length()) // 2, _HIDDEN_BITS)
        if bits < _LEAST_HIDDEN_BITS:
            raise InputError(f"{self.numbers} rows times outputs are too many for a loss by weights")
        return bits

    @property
    def residuals(self) -> FixedPoint:
        return FixedPoint(self._bits, RESIDUALS.largest)

    @property
    def squares(self) -> FixedPoint:
        return FixedPoint(self._bits - 5, RESIDUALS.largest**2)

    @property
    def weights(self) -> FixedPoint:
        return FixedPoint(self._bits + 5 - self.heaviest, 2.0**self.heaviest)

    @property
    def weighted(self) -> FixedPoint:
        return FixedPoint(self._bits - self.heaviest, RESIDUALS.largest * 2.0**self.heaviest)

    @property
    def bounds(self) -> tuple[int, int]:
        return max(self.squares.bound, 2 * self.residuals.bound), max(self.weights.bound, self.weighted.bound)

    @property
    def unit(self) -> int:
        """The products' fraction bits."""
        return self.residuals.fraction_bits + self.weighted.fraction_bits

    def of_passive(self, residuals: Floats) -> Ints:
        squares = self.squares.encode(residuals * residuals, "residuals")
        return np.concatenate([squares, 2 * self.residuals.encode(residuals, "residuals")])[:, np.newaxis]

    def of_active(self, residuals: Floats, weights: Floats) -> tuple[Ints, int]:
        """What is multiplied, and the sum of the active party's own weighted squares."""
        weighted = self.weighted.encode(residuals * weights, "residuals")
        squares = int(weighted @ self.residuals.encode(residuals, "residuals"))
        return np.concatenate([self.weights.encode(weights, "weights"), weighted])[:, np.newaxis], squares
