"""One party's side of a descent: its columns, how rows count, and where its weights are.

Several descents go in step: what all of them need at a time is asked in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import numpy as np

from unpooled.codec import Floats, Ints
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.vertical.linear_parameters import LinearParameters
from unpooled.vertical.linear_weighted import Weighing
from unpooled.vertical.residuals import COLUMNS, partial_residuals, scores
from unpooled.vertical.team import Team

R = TypeVar("R")


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
    """One party's side of one model: its columns as whole numbers, in the order of the batches, and its descent.

    `multiplied` are the columns times the rows' weights, where this party knows them. `cut` are the batches, `judged`
    the rows that the loss is of. Names of matrices begin with that of the model, so that no mask serves two models.
    `best` is where the loss was lowest, and `fell` the step after which it last fell.
    """

    team: Team
    parameters: LinearParameters
    party: str
    name: str
    columns: Ints
    multiplied: Ints
    weighing: Weighing
    widths: dict[str, int]
    cut: Sequence[slice]
    judged: slice
    state: State
    constant: Floats | None = None
    best: State | None = None
    losses: list[float] = field(default_factory=list)
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


def in_one_go(
    ask: Callable[[list[tuple[Call, Inputs]]], list[R]], asked: Sequence[Sequence[tuple[Call, Inputs]]]
) -> list[list[R]]:
    """What several descents ask, asked at once; the answers of each."""
    answers = iter(ask([one for each in asked for one in each]))
    return [list(islice(answers, len(each))) for each in asked]
