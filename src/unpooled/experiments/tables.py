"""Tables as Markdown, with the mean and the spread of figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Summary:
    """The mean of a figure over draws, its standard deviation (None for one draw), and how many draws there are."""

    mean: float
    spread: float | None
    count: int

    def text(self, digits: int = 3) -> str:
        """As tables have it.

        >>> summary_of([0.5, 0.6]).text(), summary_of([0.5]).text(), summary_of([-0.0001]).text()
        ('0.550 ± 0.071', '0.500', '0.000')
        """
        shown = f"{round(self.mean, digits) + 0.0:.{digits}f}"
        return shown if self.spread is None else f"{shown} ± {self.spread:.{digits}f}"


def summary_of(values: Sequence[float]) -> Summary | None:
    """Mean and spread; None if there is no value."""
    if not values:
        return None
    return Summary(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def summarised(frame: pl.DataFrame, figure: str, **where: object) -> Summary | None:
    """Mean and spread of a figure over the lines that have these values."""
    return summary_of(chosen(frame, **where)[figure].drop_nulls().to_list())


def chosen(frame: pl.DataFrame, **where: object) -> pl.DataFrame:
    """The lines that have these values."""
    for name, value in where.items():
        frame = frame.filter(pl.col(name) == value)
    return frame


def table(
    head: str,
    rows: Mapping[str, Mapping[str, object]],
    columns: Mapping[str, Mapping[str, object]],
    cell: Callable[..., str],
) -> str:
    """A table whose cells are made from the row's and the column's values; rows without any cell are left out."""
    lines = [f"| {' | '.join([head, *columns])} |", f"|{'---|' * (len(columns) + 1)}"]
    for name, row in rows.items():
        texts = [cell(**row, **column) for column in columns.values()]
        if any(texts):
            lines.append(f"| {' | '.join([name, *texts])} |")
    return "\n".join(lines)
