"""What look-alikes have in common, from the columns that their owners have agreed to describe.

Listed people are compared with the others whom the seeker does not know. Nothing is said of a group with fewer people
than the party's `policy.minimum_rows`, and figures are rounded: a mean or median is nobody's own value. The active
party knows both groups; `list_counts` is how a passive party describes its columns without knowing them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import AfterValidator

from unpooled.arrays import Ints
from unpooled.data.columns import as_text, fault, unfit_ids
from unpooled.data.table import Table
from unpooled.errors import PlanError, ProtocolError
from unpooled.jobs.plan import Plan
from unpooled.wire import message

MEAN, MEDIAN, MONTH, LEVEL = "mean", "median", "median month", "level"
_LEVELS, _DIGITS, _MOST_LINES = 5, 3, 5_000
_EPOCH = np.datetime64("1970-01")


@message(
    discloses="means, medians or frequent levels of look-alikes and others in columns it agreed to describe, "
    "not of small groups",
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
    """What one column of a party says of the look-alikes and of the others."""

    party: str
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


def describing(plan: Plan, describe: bool | tuple[str, ...]) -> tuple[str, ...]:
    """The owners that describe columns: those whom the plan names, or all of them."""
    if isinstance(describe, bool):
        return plan.owners if describe else ()
    for name in describe:
        if name not in plan.owners:
            raise PlanError(f"describe: {name!r} has no columns to describe; it can name {', '.join(plan.owners)}")
    return tuple(owner for owner in plan.owners if owner in describe)


def check_described(names: Sequence[str], columns: Collection[str], party: str, origin: str) -> None:
    """Refuse to describe a column that is not there, or twice, and more columns than the seeker shows."""
    if len(names) > _MOST_LINES // _LEVELS:
        reason = f"consent.describe names {len(names):,} columns, at most {_MOST_LINES // _LEVELS:,} can be described"
        raise fault(party, origin, reason)
    for place, name in enumerate(names):
        if name in names[:place]:
            raise fault(party, origin, "consent.describe names it twice", name)
        if name not in columns:
            reason = "consent.describe names it, but it is not among the columns that are read"
            raise fault(party, origin, reason, name)


def described(table: Table, columns: Sequence[str], listed: Ints, others: Ints, fewest: int) -> list[Line]:
    """What these columns say of listed rows and of others, each column's largest difference first."""
    check_described(columns, table.kinds, table.party, table.origin)
    return [line for name in columns for line in _lines(table, name, listed, others, fewest)]


def _lines(table: Table, name: str, listed: Ints, others: Ints, fewest: int) -> Iterator[Line]:
    ours, theirs = (table.column(name)[rows].drop_nulls() for rows in (listed, others))
    if min(len(ours), len(theirs)) < fewest:
        return
    if table.kinds[name] == "number":
        values = ours.to_numpy(), theirs.to_numpy()
        for measure, of in ((MEAN, np.mean), (MEDIAN, np.median)):
            yield Line(table.party, name, measure, "", *(rounded(float(of(each))) for each in values))
    elif table.kinds[name] == "date":
        medians = (float(round(float(np.median(months_of(each))))) for each in (ours, theirs))
        yield Line(table.party, name, MONTH, "", *medians)
    else:
        counts, beside = (dict(as_text(each).value_counts().iter_rows()) for each in (ours, theirs))
        yield from level_lines(table.party, name, counts, beside, (len(ours), len(theirs)), fewest)


def months_of(dates: pl.Series) -> Ints:
    """The number of months since 1970."""
    months: Ints = dates.cast(pl.Date).to_numpy().astype("datetime64[M]").astype(np.int64)
    return months


def level_lines(
    party: str, name: str, counts: Mapping[str, int], beside: Mapping[str, int], people: tuple[int, int], fewest: int
) -> Iterator[Line]:
    """The levels that are most frequent among listed people, compared with the others; rare ones are left out.

    How many listed people have each level, how many others, and how many there are of both.
    """
    found = [
        Line(party, name, LEVEL, level, rounded(count / people[0]), rounded(beside[level] / people[1]))
        for level, count in counts.items()
        if min(count, beside.get(level, 0)) >= fewest
    ]
    more = [line for line in found if line.listed > line.others]
    yield from sorted(more, key=lambda line: (line.others / line.listed, line.level))[:_LEVELS]


def rounded(value: float) -> float:
    """A figure as it is told."""
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
    low, high = {LEVEL: (0.0, 1.0), MONTH: (-1e5, 1e5)}.get(line.measure, (-1e150, 1e150))
    if not all(low <= value <= high for value in (line.listed, line.others)):
        raise ValueError("a figure is not what its measure can have")
    return line


KeptLine = Annotated[Line, AfterValidator(_possible)]
"""A line as `result.json` has it."""


def checked_lines(said: InCommon, sender: str) -> list[Line]:
    """Lines as they arrived; ProtocolError if they cannot be."""
    try:
        told = zip(said.columns, said.measures, said.levels, said.listed, said.others, strict=True)
        if len(said.columns) > _MOST_LINES:
            raise ValueError(f"{len(said.columns):,} lines, at most {_MOST_LINES:,} are shown")
        lines = [_possible(Line(sender, *line)) for line in told]
        if len({(line.column, line.measure, line.level) for line in lines}) < len(lines):
            raise ValueError("a line occurs twice")
        return lines
    except ValueError as error:
        raise ProtocolError(f"invalid InCommon from {sender}: {error}") from None
