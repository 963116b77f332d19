"""What completing a table leaves in `result.json`, checked when it is read for a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt

from unpooled.jobs.complete.figures import ENOUGH_CELLS, ORIGINS, Why
from unpooled.jobs.run_files import Number
from unpooled.jobs.train.columns import Splits, Weight

Fraction = Annotated[float, Field(ge=0, le=1)]
Way = Literal["predicted", "generated", "not filled"]


def _every_origin(cells: Mapping[str, int]) -> Mapping[str, int]:
    if set(cells) != set(ORIGINS):
        raise ValueError(f"there must be a count for each of {', '.join(ORIGINS)}")
    return cells


Cells = Annotated[Mapping[str, NonNegativeInt], AfterValidator(_every_origin)]
"""How many cells are from where."""


@dataclass(frozen=True)
class Error:
    """An expected error with its interval, and what guessing would have."""

    measure: Literal["r2", "mae", "accuracy"]
    value: Number
    low: Number
    high: Number
    cells: NonNegativeInt
    guess: Number


@dataclass(frozen=True)
class Distribution:
    """Fractions of real and of filled cells, between edges or by level, and how far apart they are."""

    real: tuple[Fraction, ...]
    filled: tuple[Fraction, ...]
    apart: Fraction
    edges: tuple[Number, ...] = ()
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = len(self.levels) if self.levels else len(self.edges) - 1
        if not len(self.real) == len(self.filled) == parts or not parts:
            raise ValueError("there must be a fraction for every level, or between every two edges")
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must rise")


@dataclass(frozen=True, kw_only=True)
class CompletedColumn:
    """One column: which way it went and why, its cells, and how right they probably are."""

    name: str
    type: str
    way: Way
    why: Why
    completer: str = ""
    strength: Fraction | None = None
    significant: bool | None = None
    cells: Cells
    in_common: Cells
    unsure: NonNegativeInt = 0
    confidence: Fraction | None = None
    errors: tuple[Error, ...] = ()
    distribution: Distribution | None = None

    @property
    def first_error(self) -> Error | None:
        """R² or accuracy."""
        return next((one for one in self.errors if one.measure != "mae"), None)

    @property
    def absolute_error(self) -> Error | None:
        """The mean absolute error of numbers and dates."""
        return next((one for one in self.errors if one.measure == "mae"), None)

    @property
    def filled(self) -> int:
        return self.cells["predicted"] + self.cells["generated"]

    @property
    def by_few(self) -> bool:
        """Whether few real cells stand behind the filled ones."""
        return self.cells["real"] < ENOUGH_CELLS and self.filled > 0

    @property
    def no_better(self) -> bool:
        """Whether one value everywhere may be as right."""
        return self.first_error is not None and self.first_error.low <= self.first_error.guess


@dataclass(frozen=True)
class Associations:
    """Own columns × others', which have no names; what is beyond the `line` counts, `by` says why."""

    what: str
    columns: tuple[str, ...]
    values: tuple[tuple[Number, ...], ...]
    line: Fraction | None = None
    by: Literal["", "threshold", "chance"] = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.columns) or len({len(row) for row in self.values}) > 1:
            raise ValueError("associations must be a matrix with a row for each column")


@dataclass(frozen=True)
class SentActivations:
    """How many numbers each passive party sent for each of so many rows, and how much they may tell."""

    epsilon: Annotated[float, Field(gt=0)]
    delta: Fraction
    units: NonNegativeInt
    rows: NonNegativeInt


@dataclass(frozen=True)
class UnsureRows:
    """In how many rows some predicted cells are unsure, and in how many all are."""

    some: NonNegativeInt = 0
    all: NonNegativeInt = 0


@dataclass(frozen=True, kw_only=True)
class CompletedResult:
    """What is at the active party."""

    rows: NonNegativeInt
    common: NonNegativeInt
    others: NonNegativeInt
    measure: Literal["", "mean", "max", "cramer", "gain", "list"]
    threshold: Fraction | None = None
    alpha: Fraction
    least_confidence: Fraction = 0.0
    cells: Cells
    completed: tuple[CompletedColumn, ...]
    unsure_rows: UnsureRows = UnsureRows()
    weight: str = ""
    draws: NonNegativeInt = 0
    warning: str = ""
    associations: Associations | None = None
    activations: SentActivations | None = None
    file: str
    files: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.associations and set(self.associations.columns) != {one.name for one in self.completed}:
            raise ValueError("associations: they must be those of the completed columns")


@dataclass(frozen=True)
class OwnLimits:
    """What the party's own policy allows at the most, where it says so."""

    questions: NonNegativeInt | None = None
    bits_per_row: Annotated[float, Field(ge=0)] | None = None
    splits: NonNegativeInt | None = None


@dataclass(frozen=True, kw_only=True)
class LentResult:
    """What is at a passive party."""

    rows: NonNegativeInt
    common: NonNegativeInt
    others: NonNegativeInt
    columns: NonNegativeInt
    importance: tuple[Splits, ...] | tuple[Weight, ...] = ()
    limits: OwnLimits = OwnLimits()
    activations: SentActivations | None = None
    file: str
    questions: NonNegativeInt = 0
    bits: NonNegativeInt = 0
    splits: NonNegativeInt = 0
    thresholds: NonNegativeInt = 0
    all_thresholds: NonNegativeInt = 0
    table_bits: NonNegativeInt = 0
    most_bits: NonNegativeInt | None = None
