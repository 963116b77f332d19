"""What owners of columns say of a model in `result.json`: how far it goes by which of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt

from unpooled.drawing.html import render
from unpooled.jobs.learning.tuned import TuningResult
from unpooled.jobs.run_files import Number, RunFiles, learnt

COLUMNS_SHOWN = 15

_TEMPLATE = Path(__file__).with_name("columns.html")

Positive = Annotated[Number, Field(ge=0)]


@dataclass(frozen=True)
class Splits:
    """How many nodes a column split, and how many rows these had in all."""

    name: str
    splits: NonNegativeInt
    rows: NonNegativeInt

    @property
    def size(self) -> tuple[float, float]:
        return self.rows, self.splits


@dataclass(frozen=True)
class Weight:
    """How far one step of a column moves the scores of a linear model."""

    name: str
    weight: Positive

    @property
    def size(self) -> tuple[float, float]:
        return self.weight, 0.0


@dataclass(frozen=True, kw_only=True)
class OwnerResult:
    """What a job that learns leaves at every owner of columns; a model without thresholds has weights."""

    common: NonNegativeInt
    columns: NonNegativeInt
    importance: tuple[Splits, ...] | tuple[Weight, ...]
    thresholds: NonNegativeInt | None = None
    questions: NonNegativeInt = 0
    all_thresholds: NonNegativeInt = 0
    bits: NonNegativeInt = 0
    most_bits: NonNegativeInt | None = None
    table_bits: NonNegativeInt = 0
    tuning: TuningResult | None = None

    def __post_init__(self) -> None:
        if any(isinstance(one, Weight if self.thresholds is not None else Splits) for one in self.importance):
            raise ValueError("importance: a model with thresholds has splits, one without has weights")
        if self.all_thresholds < (self.thresholds or 0) and self.table_bits:
            raise ValueError("thresholds: more were revealed than there are")

    def for_each_row(self, bits: int) -> float:
        return bits / (self.common or 1)


@dataclass(frozen=True)
class Gain:
    """The share in all loss that was saved: of each party, and of the active party's own columns."""

    by_party: Mapping[str, float]
    own: Mapping[str, float]


@dataclass(frozen=True)
class Ranked:
    """A party's columns that the model uses, the most important first.

    `most` is what their bars are compared with. `more` are used too, `unused` are not.
    """

    shown: Sequence[Splits | Weight]
    most: float
    more: int
    unused: int


def ranked(result: OwnerResult) -> Ranked:
    """Columns by how many rows they divide, or by weight; where nodes are hidden from their owner, by splits alone."""
    used = [one for one in result.importance if isinstance(one, Weight) or one.splits]
    order = sorted(used, key=lambda one: one.size, reverse=True)
    most = max((one.size[0] or one.size[1] for one in used), default=0.0) or 1.0
    return Ranked(order[:COLUMNS_SHOWN], most, max(len(used) - COLUMNS_SHOWN, 0), len(result.importance) - len(used))


def columns_html(run: RunFiles, results: Mapping[str, OwnerResult], gain: Gain | None = None) -> str:
    """How far the model goes by which columns of whom, and what the active party learnt from the passive ones.

    `gain` is what the active party knows of how much loss columns saved.
    """
    active, passive = run.plan.active, run.plan.with_role("passive")
    return render(
        _TEMPLATE,
        run=run,
        gain=gain,
        lent={name: result for name, result in results.items() if name != active},
        usage={name: ranked(result) for name, result in results.items() if result.thresholds is not None},
        weights={name: ranked(result) for name, result in results.items() if result.thresholds is None},
        told=learnt(run, active, passive),
    )
