"""The loss that all rows together have, shown to the active party alone: it says when a descent has come to its end.

It is the objective over its curvature (`residuals`): the mean over the rows of the squared residuals, and where it is
that of the training rows what l2 adds. Sums are of whole numbers; the more rows, the coarser, since errors level out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ldexp

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError
from unpooled.secure.calls import Call, Dense, Inputs
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import product
from unpooled.vertical.linear.parameters import outputs_of
from unpooled.vertical.linear.residuals import RESIDUALS, curvature
from unpooled.vertical.linear.row_weights import MOST_POWERS
from unpooled.vertical.linear.state import Side, about, own_residuals
from unpooled.vertical.numbers import exact_sum

LOSS = "loss"
_LOSS_BITS, _LEAST_LOSS_BITS = 10, 4
_HIDDEN_BITS, _LEAST_HIDDEN_BITS = 16, MOST_POWERS + 1


def losses(sides: Sequence[Side]) -> list[float]:
    """At the active party each model's loss, at the others none."""
    team, asked = sides[0].team, [loss_of(side) for side in sides]
    if team.passive:
        each = zip(sides, asked, strict=True)
        batch = [one for side, (_, call, held) in each for one in about(side, LOSS, 0, [(call, held)])]
        totals = product(team.products, batch)
    else:
        totals = [inputs.added for _, _, inputs in asked]
    return [
        ldexp(float(total[0, 0]), -unit) / (side.judged.stop - side.judged.start)
        for side, (unit, *_), total in zip(sides, asked, totals, strict=True)
        if total is not None
    ]


def loss_of(side: Side) -> tuple[int, Call, Inputs]:
    """The sum's fraction bits, the product, and what this party holds of it."""
    part, team = side.judged, side.team
    own = RESIDUALS.decode(own_residuals(side, part))
    penalty = 0.0 if side.parameters.validation_share else _penalty(side) * len(own)
    if side.weighing.hidden:
        return _hidden_loss(side, own.reshape(-1), part, penalty)
    if side.weighing.known is not None:
        own = own * np.sqrt(side.weighing.known[part, np.newaxis])
    scale = _loss_scale(own.size, len(team.owners), side.weighing.heaviest)
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


def _penalty(side: Side) -> float:
    weights = side.state.weights[side.penalised]
    return side.parameters.l2 / (2 * curvature(side.parameters)) * exact_sum(weights * weights)


def _loss_scale(numbers: int, owners: int, heaviest: int) -> FixedPoint:
    """Steps as small as the sum allows; the more numbers, the coarser, since their errors level out."""
    largest = RESIDUALS.largest * 2.0 ** -(-heaviest // 2)
    room = 62 - 2 * round(largest).bit_length() - (numbers * (owners + 1) ** 2).bit_length()
    if room // 2 < _LEAST_LOSS_BITS:
        raise InputError(f"{numbers} rows times outputs are too many for a loss")
    return FixedPoint(min(room // 2, _LOSS_BITS), largest)


def _hidden_loss(side: Side, own: Floats, part: slice, penalty: float) -> tuple[int, Call, Inputs]:
    """By weights that the one passive party does not know."""
    (passive,), active, outputs = side.team.passive, side.team.active, outputs_of(side.parameters)
    scales = HiddenScales(len(own), side.weighing.heaviest)
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
        digest=f"{side.team.digest} loss",
    )
    extra = min(round(ldexp(penalty, scales.unit)), bound)
    if side.weighing.known is None:
        return scales.unit, call, Inputs(x=scales.of_passive(own), added=np.array([[extra]]))
    y, squares = scales.of_active(own, np.repeat(side.weighing.known[part], outputs))
    return scales.unit, call, Inputs(y=y, added=np.array([[squares + extra]]))


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
