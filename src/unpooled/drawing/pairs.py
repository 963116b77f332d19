"""Two distributions of one column in one chart: columns for the one, a line for the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from unpooled.drawing.chart import LETTER, Chart, Column, Tick, axis_of, framed, labels_of
from unpooled.drawing.words import percent

_HEIGHT = 290
_FIRST_DAY = date(1970, 1, 1)
_DAYS_APART = 6


def pair_chart(edges: Sequence[float], first: Sequence[float], second: Sequence[float], *, dates: bool) -> Chart:
    """Which fraction of the cells lies between every two edges; with `dates` these are days since 1970-01-01."""
    up, ends = axis_of(0.0, max(*first, *second, 0.01)), (edges[0], edges[-1])
    values = list(edges[:: max(len(edges) // _DAYS_APART, 1)]) if dates else axis_of(*ends)
    texts = [month_of(value) for value in values] if dates else labels_of(values)
    beside = [percent(value).replace(".0 ", " ") for value in up]
    chart, x, y = framed(ends, up, "", "of the cells", (texts[0], texts[-1]), beside, _HEIGHT)
    ticks = [Tick(text, x(value)) for text, value in zip(texts, values, strict=True) if ends[0] <= value <= ends[1]]
    every = math.ceil(len(ticks) * max(map(len, texts)) * LETTER / (chart.right - chart.left))
    columns = tuple(
        Column(
            left=x(low),
            top=y(value),
            width=round(max(x(high) - x(low) - 1, 0.5), 1),
            height=round(chart.bottom - y(value), 1),
        )
        for low, high, value in zip(edges[:-1], edges[1:], first, strict=True)
    )
    steps = "".join(f"V{y(value)}H{x(high)}" for high, value in zip(edges[1:], second, strict=True))
    return replace(
        chart,
        x_ticks=tuple(ticks[::every]),
        columns=columns,
        curve=f"M{x(edges[0])} {chart.bottom}{steps}V{chart.bottom}",
    )


def month_of(days: float) -> str:
    """The month of a day.

    >>> month_of(0.0), month_of(19_000.5)
    ('1970-01', '2022-01')
    """
    return f"{_FIRST_DAY + timedelta(days=int(days)):%Y-%m}"
