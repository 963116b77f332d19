"""What turns the outputs of models into cells of a column: the value, how sure it is, and draws.

It is made from known cells that were predicted by models which had not seen them, and is saved with the models: so new
rows are completed as the first ones were. It holds values of the column, and stays with the column's owner.

Numbers also have intervals, by conformal prediction (Vovk and others, 2005): the expected error times what held enough
of the known cells.

Draws are as likely as the predictions say. A class is drawn by its probability. A number is that of a known cell whose
prediction was near (predictive mean matching: Little, 1988), so draws have the values, gaps and spread of the column.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat, model_validator

from unpooled.arrays import Bools, Floats
from unpooled.complete.variables import Variable
from unpooled.data.coding import Column, seen

COVERED = 0.9
DONORS = 20
MOST_DONORS = 10_000
_LEAST = 0.01
_APART = 1e-6

Numbers = tuple[FiniteFloat, ...]


class Steps(BaseModel):
    """An increasing function: from each place on it has the value that stands there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    places: Numbers
    values: Numbers

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.places) != len(self.values) or list(self.places) != sorted(self.places):
            raise ValueError("places and values do not fit together")
        return self

    def at(self, x: Floats) -> Floats:
        """Its value at each x; before the first place the first one."""
        found: Floats = np.array(self.values)[np.maximum(np.searchsorted(self.places, x, side="right") - 1, 0)]
        return found


class ColumnModel(BaseModel):
    """A column and what was learned about predictions of it; `codes`, `pooled` and `counts` are those of its classes.

    `donors` are known values in the order of `predicted`, what models said of them. `trust` gives the confidence of a
    class by its probability, or the expected error of a number, relative to that of the median, by its expected rank;
    None: by the paper's formulas. `margin` times the expected error reaches as far as `COVERED` of all values lie.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: Column
    codes: tuple[int, ...] = ()
    pooled: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    predicted: Numbers = ()
    donors: Numbers = ()
    trust: Steps | None = None
    usual_error: FiniteFloat = 0.0
    margin: FiniteFloat = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.pooled) != len(self.counts) or len(self.predicted) != len(self.donors):
            raise ValueError("lists of different lengths")
        return self

    @property
    def classes(self) -> int:
        return len(self.codes)

    def values(self, outputs: Floats) -> Floats:
        """The likeliest class, or the number within what was observed."""
        if self.classes:
            likeliest: Floats = np.array(self.codes, float)[outputs.argmax(axis=1)]
            return likeliest
        return np.clip(outputs[:, 0], self.column.low, self.column.high)

    def confidence(self, outputs: Floats, errors: Floats | None) -> Floats:
        """How sure each value is, between 0 and 1; `errors` are the expected ranks of the errors of numbers."""
        if self.trust is None or (errors is None and not self.classes):
            return paper_confidence(outputs, self.classes)
        if self.classes:
            return self.trust.at(outputs.max(axis=1))
        found: Floats = np.clip(1 - self.trust.at(errors if errors is not None else outputs[:, 0]), 0.0, 1.0)
        return found

    def interval(self, outputs: Floats, errors: Floats) -> tuple[Floats, Floats]:
        """For each number the lowest and the highest value that it has with a chance of `COVERED`."""
        reach = self.margin * self._expected(errors)
        low, high = (
            np.clip(end, self.column.low, self.column.high) for end in (outputs[:, 0] - reach, outputs[:, 0] + reach)
        )
        return low, high

    def _expected(self, errors: Floats) -> Floats:
        """The expected absolute error; never quite 0, since intervals are multiples of it."""
        relative = self.trust.at(errors) if self.trust else np.ones(len(errors))
        return np.maximum(relative, _LEAST) * self.usual_error

    def drawn(self, outputs: Floats, rng: np.random.Generator) -> Floats:
        """One draw of each cell."""
        if self.classes:
            bounds = np.cumsum(outputs, axis=1)
            chance = rng.random(len(outputs))[:, np.newaxis] * bounds[:, -1:]
            places = np.minimum((bounds <= chance).sum(axis=1), self.classes - 1)
            values: Floats = np.array(self.codes, float)[places]
            if self.pooled:
                other, chances = places == self.classes - 1, np.array(self.counts) / sum(self.counts)
                values[other] = rng.choice(self.pooled, int(other.sum()), p=chances)
            return values
        near = np.searchsorted(self.predicted, outputs[:, 0])
        first = np.clip(near - DONORS // 2, 0, max(len(self.donors) - DONORS, 0))
        chosen: Floats = np.array(self.donors)[first + rng.integers(min(DONORS, len(self.donors)), size=len(first))]
        return chosen


def column_model(variable: Variable, held_out: Floats, judged: Bools, errors: Floats | None) -> ColumnModel:
    """Learn from the `judged` rows, which are known and have predictions that were made without them."""
    truth, outputs = variable.labels[judged], held_out[judged]
    if variable.classes:
        right = (outputs.argmax(axis=1) == truth).astype(float)
        return ColumnModel(
            column=variable.column,
            codes=variable.codes,
            pooled=variable.pooled,
            counts=variable.counts,
            trust=reliability(outputs.max(axis=1), right) if len(truth) else None,
        )
    order = np.argsort(outputs[:, 0], kind="stable")
    order = order[np.unique(np.linspace(0, max(len(order) - 1, 0), MOST_DONORS).astype(np.int64))[: len(order)]]
    usual = float(np.abs(truth - np.median(truth)).mean()) if len(truth) else 0.0
    wrong = np.abs(outputs[:, 0] - truth) / usual if usual > 0 else np.zeros(len(truth))
    found = ColumnModel(
        column=seen(variable.column, variable.values),
        predicted=tuple(outputs[order, 0].tolist()),
        donors=tuple(truth[order].tolist()),
        trust=None if errors is None or not len(truth) else increasing(errors[judged], wrong),
        usual_error=usual,
    )
    if found.trust is None or errors is None or not usual:
        return found
    multiples = np.abs(outputs[:, 0] - truth) / found._expected(errors[judged])
    rank = min(int(np.ceil(COVERED * (len(truth) + 1))), len(truth)) - 1  # split conformal prediction
    return found.model_copy(update={"margin": float(np.sort(multiples)[rank])})


def paper_confidence(outputs: Floats, classes: int) -> Floats:
    """The FedPSG-PUM paper's: the largest probability; for numbers 1 - |ŷ - μ| / σ of these predictions.

    For numbers that favours predictions near the mean, however uncertain they are.
    """
    if classes:
        largest: Floats = outputs.max(axis=1)
        return largest
    predicted = outputs[:, 0]
    spread = float(predicted.std()) if predicted.size else 0.0
    if spread == 0:
        return np.ones(len(predicted))
    near: Floats = np.clip(1 - np.abs(predicted - predicted.mean()) / spread, 0.0, 1.0)
    return near


def reliability(x: Floats, right: Floats) -> Steps:
    """How often classes of this probability are right, by known cells; few of these make nothing certain.

    Two cells are added that speak against them: the most probable class of all wrong, the least probable one right. So
    six cells that are all right give 7 / 8. Blocks that are equal then stay apart by a little, in the order that the
    known cells have by themselves.

    >>> reliability(np.arange(6.0), np.ones(6)).at(np.array([3.0])).round(3).tolist()
    [0.875]
    """
    alone = increasing(x, right)
    against = increasing(np.append(x, [x.min(), x.max()]), np.append(right, [1.0, 0.0]))
    values = (1 - _APART) * against.at(np.array(alone.places)) + _APART * np.array(alone.values)
    return Steps(places=alone.places, values=tuple(values.tolist()))


def increasing(x: Floats, y: Floats) -> Steps:
    """The increasing function of x that is nearest to y, by pooling adjacent violators.

    >>> increasing(np.array([1.0, 2, 3, 4]), np.array([0.0, 2, 1, 5])).at(np.array([2.5, 9])).tolist()
    [1.5, 5.0]
    """
    order = np.argsort(x, kind="stable")
    pools: list[tuple[float, float, int]] = []  # where it begins, the mean, how many
    for place, mean in zip(x[order].tolist(), y[order].tolist(), strict=True):
        pool = (place, mean, 1)
        while pools and (pools[-1][1] >= pool[1] or pools[-1][0] == pool[0]):
            start, before, count = pools.pop()
            total = count + pool[2]
            pool = (start, (before * count + pool[1] * pool[2]) / total, total)
        pools.append(pool)
    return Steps(places=tuple(pool[0] for pool in pools), values=tuple(pool[1] for pool in pools))
