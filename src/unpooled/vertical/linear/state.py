"""One party's state while it fits a model: its columns, how rows count, and where the descent is.

Several models are fitted in step: what all of them need at a time is asked in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from unpooled.arrays import Floats, Ints, Ring
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.evidence import OWN
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import product_shares
from unpooled.vertical.linear.parameters import LinearParameters, epochs_of
from unpooled.vertical.linear.residuals import COLUMNS, partial_residuals, scores
from unpooled.vertical.linear.row_weights import RowWeighting
from unpooled.vertical.team import Team

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Iterate:
    """Weights, columns × outputs, and what the optimiser remembers; the active party's last row is the intercept."""

    weights: Floats
    velocity: Floats
    squares: Floats
    steps: int = 0


def begin_at(weights: Floats) -> Iterate:
    """Weights before the first step."""
    return Iterate(weights, np.zeros(weights.shape), np.zeros(weights.shape))


@dataclass(eq=False)
class FitState:
    """One party's state of one model: its columns as whole numbers, in the order of the batches, and its descent.

    `multiplied` are the columns times the row weights, where this party knows them. `shared` has, by owner and batch,
    this party's shares of columns times secret row weights (`shared_columns`). `cut` are the batches, `judged` the rows
    that the loss is of. `rows` names all rows, as all fits of a job have them, and is empty where some are left out.
    `about` is what all parties know of the model, for evidence. `best` is where the loss was lowest, and `fell` the
    step after which it last fell.
    """

    team: Team
    parameters: LinearParameters
    party: str
    name: str
    columns: Ints
    multiplied: Ints
    weighting: RowWeighting
    widths: dict[str, int]
    cut: Sequence[slice]
    judged: slice
    iterate: Iterate
    constant: Floats | None = None
    rows: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    shared: dict[tuple[str, int], Ring] = field(default_factory=dict)
    best: Iterate | None = None
    losses: list[float] = field(default_factory=list)
    fell: int = 0

    @property
    def active(self) -> bool:
        return self.party == self.team.active

    @property
    def penalised(self) -> slice:
        return slice(len(self.iterate.weights) - self.active)

    @property
    def shares_columns(self) -> bool:
        """Whether passive parties' columns times the secret row weights are kept in shares.

        With one passive party and gradients that are shown, products of both parties' numbers are enough.
        """
        return self.weighting.hidden and (len(self.team.passive) > 1 or self.parameters.reveal == "final")

    def is_shared(self, owner: str) -> bool:
        """Whether an owner's columns are multiplied with weights in shares."""
        return self.shares_columns and owner != self.team.active

    def holders(self, owner: str) -> tuple[str, ...]:
        """Who multiplies an owner's columns, or shares of them, with residuals."""
        return (owner, self.team.active) if self.is_shared(owner) else (owner,)

    def terms(self, owner: str) -> tuple[tuple[str, str], ...]:
        """Each holder of an owner's columns, with everybody else's residuals."""
        return tuple((holder, other) for holder in self.holders(owner) for other in self.team.owners if other != holder)

    def multiplies(self, owner: str, number: int) -> Ints | None:
        """What this party multiplies with residuals for the gradient of an owner's columns, if anything."""
        if self.is_shared(owner):
            share = self.shared.get((owner, number))
            return None if share is None else share.view(np.int64)
        return self.multiplied[self.cut[number]] if owner == self.party else None

    def knows_weights(self, owner: str) -> bool:
        """Whether an owner multiplies its columns by weights that it knows."""
        return self.weighting.weighted and (self.weighting.shown or owner == self.team.active)

    def columns_name(self, owner: str, number: int, *, weighted: bool = True) -> str:
        """What an owner's columns of a batch are called: the same in all fits of a job, wherever they are the same.

        Under one name there is one matrix: nobody's columns can be others from step to step or from model to model.
        Where rows are left out, or columns are multiplied by weights, each model has its own.
        """
        shared = weighted and self.is_shared(owner)
        own = not self.rows or shared or (weighted and self.knows_weights(owner))
        of_whom = f" of {owner}" if shared else ""
        return f"{self.name if own else self.rows} batch {number} of {len(self.cut)}{of_whom}"

    def own_names(self) -> list[str]:
        """The names of columns that no other model uses, and that can be forgotten with this one."""
        names = [f"{self.name} batch {number} of {len(self.cut)}" for number in range(len(self.cut))]
        return names + [f"{name} of {owner}" for name in names for owner in self.team.passive if self.shares_columns]

    def scale_of(self, owner: str) -> FixedPoint:
        """Of the columns that an owner multiplies, among them the active party's column of ones."""
        scale = self.weighting.columns if self.knows_weights(owner) else COLUMNS
        return FixedPoint(scale.fraction_bits, scale.largest / COLUMNS.largest * max(self.parameters.limit, 1.0))


def epochs_for(states: Sequence[FitState]) -> int:
    """How many passes over all rows are made with models in step; with gradients at the most."""
    return epochs_of(states[0].parameters, max(len(state.cut) for state in states))


def about(state: FitState, what: str, batch: int, batch_of: Sequence[tuple[Call, Inputs]]) -> list[tuple[Call, Inputs]]:
    """The same products with what they are about, where evidence is kept; each party keeps its own weights."""
    if not (state.team.engine and state.team.engine.evidence):
        return list(batch_of)
    told = {**state.about, "what": what, "batch": batch, OWN: {"weights": state.iterate.weights.tolist()}}
    return [
        (call, held if call.most else replace(held, about=told | {"place": place}))  # shares follow from nothing
        for place, (call, held) in enumerate(batch_of)
    ]


def own_residuals(state: FitState, part: slice) -> Ints:
    """What this party adds to the residuals of some rows, as whole numbers."""
    own = scores(state.columns[part], state.iterate.weights, state.party)
    constant = None if state.constant is None else state.constant[part]
    return partial_residuals(state.parameters, own, constant, state.party)


def shares_of(team: Team, asked: Sequence[Sequence[tuple[Call, Inputs]]]) -> list[list[Ring]]:
    """This party's shares of the products that several descents ask for."""
    return in_one_go(partial(product_shares, team.products), asked)


def in_one_go(
    ask: Callable[[list[tuple[Call, Inputs]]], list[R]], asked: Sequence[Sequence[tuple[Call, Inputs]]]
) -> list[list[R]]:
    """What several descents ask, asked at once; the answers of each."""
    answers = iter(ask([one for each in asked for one in each]))
    return [list(islice(answers, len(each))) for each in asked]
