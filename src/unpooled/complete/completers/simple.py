"""Completers that look at each column by itself: median or mode, draws from the column's values, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal

import numpy as np
from pydantic import Field

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import Completer, CompleterSettings
from unpooled.data.coding import Column


class MedianSettings(CompleterSettings):
    """The median of numbers and dates, the most frequent value of everything else."""

    completer: Literal["median"] = Field("median", description="the median, or the most frequent value")

    @property
    def random(self) -> bool:
        """It has one answer."""
        return False


@dataclass(frozen=True, eq=False)
class Middle:
    """One value for each column."""

    values: Floats


def _fit_median(_: MedianSettings, columns: Sequence[Column], values: Floats, __: np.random.Generator) -> Middle:
    cells = [column[~np.isnan(column)] for column in values.T]
    return Middle(np.array(list(map(_middle, columns, cells))))


def _middle(column: Column, cells: Floats) -> float:
    """Of equally frequent values the first."""
    if column.is_number:
        return float(np.median(cells))
    distinct, counts = np.unique(cells, return_counts=True)
    return float(distinct[counts.argmax()])


def _draw_median(
    _: MedianSettings, __: Sequence[Column], state: Middle, values: Floats, wanted: Bools, ___: np.random.Generator
) -> Iterator[Floats]:
    return repeat(np.where(wanted, state.values, values))


class MarginalSettings(CompleterSettings):
    """Each cell is drawn from the values of its column, without regard to the others."""

    completer: Literal["marginal"] = Field("marginal", description="draws from the column's values")


@dataclass(frozen=True, eq=False)
class Marginals:
    """The sorted values of each column, NaN after the last: which values were in one row is not kept."""

    values: Floats


def sorted_columns(values: Floats) -> Floats:
    """Each column sorted by itself, NaN last, as many rows as the longest needs."""
    known = int((~np.isnan(values)).sum(axis=0).max(initial=0))
    ordered: Floats = np.sort(values, axis=0)[:known]
    return ordered


def _fit_marginal(_: MarginalSettings, __: Sequence[Column], values: Floats, ___: np.random.Generator) -> Marginals:
    return Marginals(sorted_columns(values))


def _draw_marginal(
    _: MarginalSettings,
    __: Sequence[Column],
    state: Marginals,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    counts = (~np.isnan(state.values)).sum(axis=0)
    while True:
        filled = values.copy()
        for place in np.flatnonzero(wanted.any(axis=0)):
            cells = wanted[:, place]
            filled[cells, place] = state.values[rng.integers(counts[place], size=int(cells.sum())), place]
        yield filled


class MissingSettings(CompleterSettings):
    """Cells stay missing, for learners that can use that."""

    completer: Literal["missing"] = Field("missing", description="cells stay missing")

    @property
    def random(self) -> bool:
        """There is nothing to draw."""
        return False


@dataclass(frozen=True)
class Nothing:
    """There is nothing to learn."""


def _fit_missing(*_: object) -> Nothing:
    return Nothing()


def _draw_missing(
    _: MissingSettings, __: Sequence[Column], ___: Nothing, values: Floats, *____: object
) -> Iterator[Floats]:
    return repeat(values)


MEDIAN = Completer(MedianSettings, Middle, _fit_median, _draw_median)
MARGINAL = Completer(MarginalSettings, Marginals, _fit_marginal, _draw_marginal)
LEFT_MISSING = Completer(MissingSettings, Nothing, _fit_missing, _draw_missing)
