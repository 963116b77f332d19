"""What owners of columns say of a model in `result.json`: how far it goes by which of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt

from unpooled.drawing.html import render
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


@dataclass(frozen=True)
class Weight:
    """How far one step of a column moves the scores of a linear model."""

    name: str
    weight: Positive


@dataclass(frozen=True, kw_only=True)
class OwnerResult:
    """What a job that learns leaves at every owner of columns; a model without thresholds has weights."""

    common: NonNegativeInt
    columns: NonNegativeInt
    importance: tuple[Splits, ...] | tuple[Weight, ...]
    thresholds: NonNegativeInt | None = None
    questions: NonNegativeInt = 0

    def __post_init__(self) -> None:
        if any(isinstance(one, Weight if self.thresholds is not None else Splits) for one in self.importance):
            raise ValueError("importance: a model with thresholds has splits, one without has weights")


@dataclass(frozen=True)
class Gain:
    """The share in all loss that was saved: of each party, and of the active party's own columns."""

    by_party: Mapping[str, float]
    own: Mapping[str, float]


@dataclass(frozen=True)
class Used:
    """A column, how much it was used, and its share in what all gain, None at a party that cannot know it.

    The bars compare it with the one of the same party that has most.
    """

    name: str
    splits: int
    rows: int
    bar: float
    gained: float | None
    gained_bar: float


@dataclass(frozen=True)
class Usage:
    """A party's columns, those used most first; `more` were used too, `unused` were not.

    `by_rows` is false where nodes were hidden from the party, so that it can count its splits alone.
    """

    shown: tuple[Used, ...]
    by_rows: bool
    more: int
    unused: int


@dataclass(frozen=True)
class Weighed:
    """A column of a linear model; the bars compare it with the heaviest one of the same party."""

    name: str
    weight: float
    bar: float


@dataclass(frozen=True)
class Weights:
    """A party's columns, the heaviest first; `more` weigh less."""

    shown: tuple[Weighed, ...]
    more: int


def usage_of(result: OwnerResult, gained: Mapping[str, float]) -> Usage:
    """Columns that were used; `gained` has the shares of a party that knows them."""
    used = [one for one in result.importance if isinstance(one, Splits) and one.splits]
    by_rows = any(one.rows for one in used)
    ranked = sorted(used, key=lambda one: (-one.rows, -one.splits))
    most = max(((one.rows if by_rows else one.splits) for one in used), default=1)
    most_gained = max(gained.values(), default=0.0) or 1.0
    shown = []
    for one in ranked[:COLUMNS_SHOWN]:
        gain = gained.get(one.name, 0.0) if gained else None
        bar = (one.rows if by_rows else one.splits) / most
        shown.append(Used(one.name, one.splits, one.rows, bar, gain, (gain or 0.0) / most_gained))
    return Usage(tuple(shown), by_rows, len(used) - len(shown), len(result.importance) - len(used))


def weights_of(result: OwnerResult) -> Weights:
    """Columns by what they weigh."""
    ranked = sorted((one for one in result.importance if isinstance(one, Weight)), key=lambda one: -one.weight)
    most = max((one.weight for one in ranked), default=0.0) or 1.0
    shown = tuple(Weighed(one.name, one.weight, one.weight / most) for one in ranked[:COLUMNS_SHOWN])
    return Weights(shown, len(ranked) - len(shown))


def columns_html(run: RunFiles, results: Mapping[str, OwnerResult], gain: Gain | None = None) -> str:
    """How far the model goes by which columns of whom, and what the active party learnt from the passive ones.

    `gain` is what the active party knows of how much loss columns saved.
    """
    active, passive = run.plan.active, run.plan.with_role("passive")
    split = {name: result for name, result in results.items() if result.thresholds is not None}
    return render(
        _TEMPLATE,
        run=run,
        knows_gain=gain is not None,
        gained=gain.by_party if gain else {},
        lent={name: result for name, result in results.items() if name != active},
        usage={name: usage_of(one, gain.own if gain and name == active else {}) for name, one in split.items()},
        weights={name: weights_of(result) for name, result in results.items() if name not in split},
        told=learnt(run, active, passive),
    )
