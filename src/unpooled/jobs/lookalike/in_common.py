"""What look-alikes have in common, from the columns of the active party that it has agreed to describe.

Listed people are compared with the others whom the seeker does not know. Nothing is said of a group with fewer people
than the party's `policy.minimum_rows`, and figures are rounded: a mean or median is nobody's own value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import AfterValidator

from unpooled.arrays import Ints
from unpooled.data.columns import as_text, fault, unfit_ids
from unpooled.data.table import Table
from unpooled.errors import ProtocolError
from unpooled.wire import message

MEAN, MEDIAN, MONTH, LEVEL = "mean", "median", "median month", "level"
_LEVELS, _DIGITS = 5, 3
_EPOCH = np.datetime64("1970-01")


@message(
    discloses="for the active party's columns that it agreed to describe: means, medians or the most frequent levels "
    "of the look-alikes beside those of the others, never of fewer people than its policy says",
    to="the seeker",
)
class InCommon:
    """Line by line: the column, the measure, for a level which, and its figure among look-alikes and among others.

    The figure of a level is the fraction of people who have it, that of a month the number of months since 1970.
    """

    columns: tuple[str, ...]
    measures: tuple[str, ...]
    levels: tuple[str, ...]
    listed: tuple[float, ...]
    others: tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """What one column says of the look-alikes and of the others."""

    column: str
    measure: str
    level: str
    listed: float
    others: float

    @property
    def words(self) -> tuple[str, str]:
        """Both figures as a page has them."""
        return self._word(self.listed), self._word(self.others)

    def _word(self, value: float) -> str:
        if self.measure == LEVEL:
            return f"{value:.0%}".replace("%", " %")
        if self.measure == MONTH:
            return str(_EPOCH + np.timedelta64(round(value), "M"))
        return f"{value:,.6g}"


def check_described(names: Sequence[str], columns: Collection[str], party: str, origin: str) -> None:
    """Refuse to describe a column that is not there."""
    for name in names:
        if name not in columns:
            reason = "consent.describe names it, but it is not among the columns that are read"
            raise fault(party, origin, reason, name)


def described(table: Table, columns: Sequence[str], listed: Ints, others: Ints, fewest: int) -> list[Line]:
    """What these columns say of listed rows and of others, each column's largest difference first."""
    check_described(columns, table.kinds, table.party, table.origin)
    return [line for name in columns for line in _lines(table, name, listed, others, fewest)]


def _lines(table: Table, name: str, listed: Ints, others: Ints, fewest: int) -> Iterator[Line]:
    ours, theirs = (table.frame[name][rows].drop_nulls() for rows in (listed, others))
    if min(len(ours), len(theirs)) < fewest:
        return
    if table.kinds[name] == "number":
        values = ours.to_numpy(), theirs.to_numpy()
        for measure, of in ((MEAN, np.mean), (MEDIAN, np.median)):
            yield Line(name, measure, "", *(_rounded(float(of(each))) for each in values))
    elif table.kinds[name] == "date":
        months = (each.cast(pl.Date).to_numpy().astype("datetime64[M]").astype(np.int64) for each in (ours, theirs))
        yield Line(name, MONTH, "", *(float(round(float(np.median(each)))) for each in months))
    else:
        yield from _levels(name, as_text(ours), as_text(theirs), fewest)


def _levels(name: str, ours: pl.Series, theirs: pl.Series, fewest: int) -> Iterator[Line]:
    """The levels that are most frequent among listed people, compared with the others; rare ones are left out."""
    counts, beside = (dict(each.value_counts().iter_rows()) for each in (ours, theirs))
    found = [
        Line(name, LEVEL, level, _rounded(count / len(ours)), _rounded(beside[level] / len(theirs)))
        for level, count in counts.items()
        if min(count, beside.get(level, 0)) >= fewest
    ]
    more = [line for line in found if line.listed > line.others]
    yield from sorted(more, key=lambda line: (line.others / line.listed, line.level))[:_LEVELS]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def message_of(lines: Sequence[Line]) -> InCommon:
    """Lines as they are sent."""
    texts = (tuple(getattr(line, key) for line in lines) for key in ("column", "measure", "level"))
    figures = (tuple(getattr(line, key) for line in lines) for key in ("listed", "others"))
    return InCommon(*texts, *figures)


def _possible(line: Line) -> Line:
    """A line that can be shown; ValueError if it cannot."""
    if line.measure not in (MEAN, MEDIAN, MONTH, LEVEL) or unfit_ids(pl.Series([line.column, line.level])):
        raise ValueError("a column or a level cannot be shown, or a measure is unknown")
    most = {LEVEL: 1.0, MONTH: 1e5}.get(line.measure, 1e150)
    if not all(math.isfinite(value) and abs(value) <= most for value in (line.listed, line.others)):
        raise ValueError("a figure is not what its measure can have")
    return line


KeptLine = Annotated[Line, AfterValidator(_possible)]
"""A line as `result.json` has it."""


def checked_lines(said: InCommon, sender: str) -> list[Line]:
    """Lines as they arrived; ProtocolError if they cannot be."""
    try:
        told = zip(said.columns, said.measures, said.levels, said.listed, said.others, strict=True)
        return [_possible(Line(*line)) for line in told]
    except ValueError as error:
        raise ProtocolError(f"invalid InCommon from {sender}: {error}") from None
