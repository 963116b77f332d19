"""One party's side of a descent: its columns, how rows count, and where its weights are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.codec import Floats, Ints
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.vertical.linear_parameters import LinearParameters
from unpooled.vertical.linear_weighted import Weighing
from unpooled.vertical.residuals import COLUMNS, partial_residuals, scores
from unpooled.vertical.team import Team


@dataclass(frozen=True, eq=False)
class State:
    """Weights, columns × outputs, and what the optimiser remembers; the active party's last row is the intercept."""

    weights: Floats
    velocity: Floats
    squares: Floats
    steps: int = 0


def begin_at(weights: Floats) -> State:
    return State(weights, np.zeros(weights.shape), np.zeros(weights.shape))


@dataclass(eq=False)
class Side:
    """One party's side: its columns as whole numbers, in the order of the batches, and where its descent is.

    `multiplied` are the columns times the rows' weights, where this party knows them. Names of matrices begin with that
    of the model, so that no mask serves two models. `fell` is the step after which the loss last fell.
    """

    team: Team
    parameters: LinearParameters
    party: str
    name: str
    columns: Ints
    multiplied: Ints
    weighing: Weighing
    widths: dict[str, int]
    state: State
    constant: Floats | None = None
    fell: int = 0

    @property
    def active(self) -> bool:
        return self.party == self.team.active

    @property
    def penalised(self) -> slice:
        """The weights without the intercept."""
        return slice(len(self.state.weights) - self.active)

    def scale_of(self, owner: str) -> FixedPoint:
        """Of the columns that an owner multiplies, among them the active party's column of ones."""
        knows = self.weighing.shown or (self.weighing.weighted and owner == self.team.active)
        scale = self.weighing.columns if knows else COLUMNS
        return FixedPoint(scale.fraction_bits, scale.largest / COLUMNS.largest * max(self.parameters.limit, 1.0))


def own_residuals(side: Side, part: slice) -> Ints:
    """What this party adds to the residuals of some rows, as whole numbers."""
    own = scores(side.columns[part], side.state.weights, side.party)
    constant = None if side.constant is None else side.constant[part]
    return partial_residuals(side.parameters, own, constant, side.party)
