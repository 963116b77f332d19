"""What turns the outputs of models into cells of a column: the value, how sure it is, and draws.

It is made from known cells that were predicted by models which had not seen them, and is saved with the models: so new
rows are completed as the first ones were. It holds values of the column, and stays with the column's owner.

Draws are as likely as the predictions say. A class is drawn by its probability. A number is that of a known cell whose
prediction was near (predictive mean matching: Little, 1988), so draws have the values, gaps and spread of the column.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, FiniteFloat, model_validator

from unpooled.arrays import Bools, Floats
from unpooled.complete.variables import Variable
from unpooled.data.columns import Kind

DONORS = 20
MOST_DONORS = 10_000

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
    """A column and what was learned about predictions of it.

    `lowest`, `highest` and `whole` describe numbers, `levels` and the rest classes. `donors` are known values in the
    order of `predicted`, what models said of them. `trust` gives the confidence of a class by its probability, or the
    expected error of a number by its expected rank, relative to that of the median; None: by the paper's formulas.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()
    pooled_counts: tuple[int, ...] = ()
    lowest: FiniteFloat = 0.0
    highest: FiniteFloat = 0.0
    whole: bool = False
    predicted: Numbers = ()
    donors: Numbers = ()
    trust: Steps | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.pooled) != len(self.pooled_counts) or len(self.predicted) != len(self.donors):
            raise ValueError("lists of different lengths")
        return self

    @property
    def classes(self) -> int:
        return len(self.levels)

    def values(self, outputs: Floats) -> Floats:
        """The likeliest class, or the number within what was observed."""
        if self.classes:
            likeliest: Floats = outputs.argmax(axis=1).astype(float)
            return likeliest
        values = np.clip(outputs[:, 0], self.lowest, self.highest)
        found: Floats = np.rint(values) if self.whole else values
        return found

    def confidence(self, outputs: Floats, errors: Floats | None) -> Floats:
        """How sure each value is, between 0 and 1; `errors` are the expected ranks of the errors of numbers."""
        if self.trust is None or (errors is None and not self.classes):
            return paper_confidence(outputs, self.classes)
        if self.classes:
            return self.trust.at(outputs.max(axis=1))
        found: Floats = np.clip(1 - self.trust.at(errors if errors is not None else outputs[:, 0]), 0.0, 1.0)
        return found

    def drawn(self, outputs: Floats, rng: np.random.Generator) -> Floats:
        """One draw of each cell."""
        if self.classes:
            bounds = np.cumsum(outputs, axis=1)
            chance = rng.random(len(outputs))[:, np.newaxis] * bounds[:, -1:]
            found: Floats = np.minimum((bounds <= chance).sum(axis=1), outputs.shape[1] - 1).astype(float)
            return found
        near = np.searchsorted(self.predicted, outputs[:, 0])
        first = np.clip(near - DONORS // 2, 0, max(len(self.donors) - DONORS, 0))
        chosen: Floats = np.array(self.donors)[first + rng.integers(min(DONORS, len(self.donors)), size=len(first))]
        return chosen

    def cells(self, values: Floats, rng: np.random.Generator | None = None) -> pl.Series:
        """Values as cells of the column's own type.

        A pooled class becomes one of its levels: the most frequent, or with `rng` one drawn by how frequent they are.
        """
        if not self.classes:
            series = pl.Series(self.name, values).fill_nan(None)
            return series.cast(pl.Int32).cast(pl.Date) if self.kind == "date" else series
        levels = (*self.levels[: self.classes - bool(self.pooled)], *self.pooled)
        codes = np.nan_to_num(values, nan=-1).astype(np.int64)
        if self.pooled and rng is not None:
            other = codes == self.classes - 1
            chances = np.array(self.pooled_counts) / sum(self.pooled_counts)
            codes[other] += rng.choice(len(chances), int(other.sum()), p=chances)
        series = pl.Series(self.name, [None if code < 0 else levels[code] for code in codes.tolist()], pl.String)
        if self.kind == "boolean":
            return series.replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)
        return series.cast(pl.Enum(self.kind)) if isinstance(self.kind, tuple) else series


def column_model(variable: Variable, held_out: Floats, judged: Bools, errors: Floats | None) -> ColumnModel:
    """Learn from the `judged` rows, which are known and have predictions that were made without them."""
    truth, outputs = variable.values[judged], held_out[judged]
    if variable.classes:
        right = (outputs.argmax(axis=1) == truth).astype(float) if len(truth) else truth
        return ColumnModel(
            name=variable.name,
            kind=variable.kind,
            levels=variable.levels,
            pooled=variable.pooled,
            pooled_counts=variable.pooled_counts,
            trust=increasing(outputs.max(axis=1), right) if len(truth) else None,
        )
    present = variable.values[~np.isnan(variable.values)]
    order = np.argsort(outputs[:, 0], kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, MOST_DONORS).astype(np.int64))] if len(order) else order
    usual = float(np.abs(truth - np.median(truth)).mean()) if len(truth) else 0.0
    wrong = np.abs(outputs[:, 0] - truth) / usual if usual > 0 else np.zeros(len(truth))
    return ColumnModel(
        name=variable.name,
        kind=variable.kind,
        lowest=float(present.min()),
        highest=float(present.max()),
        whole=bool((present == np.rint(present)).all()),
        predicted=tuple(outputs[order, 0].tolist()),
        donors=tuple(truth[order].tolist()),
        trust=None if errors is None or not len(truth) else increasing(errors[judged], wrong),
    )


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
