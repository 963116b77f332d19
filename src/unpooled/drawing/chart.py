"""The layout of charts with two axes: curves, calibration and histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

WIDTH, HEIGHT = 460, 400
LETTER = 11.5
"""The width of a figure beside an axis."""
_TOP, _BOTTOM = 42, HEIGHT - 64
_LEAST_LEFT, _LEAST_RIGHT, _BESIDE = 58, 14, 12
_INTERVALS = 4
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_NEARLY, _NOTHING = 1e-9, 1e-150
_LARGE, _SMALL = 1e7, 1e-4
_BETWEEN_COLUMNS, _THINNEST = 1.5, 0.5

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Tick:
    """A number at an axis, and its position."""

    text: str
    at: float


@dataclass(frozen=True)
class Dot:
    x: float
    y: float


@dataclass(frozen=True)
class Column:
    """One of a histogram."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Chart:
    """A chart: its plot area, ticks and titles, and what is drawn; empty parts are not drawn.

    `reference` is what to compare with, such as guessing, `second` the curve of something else.
    """

    left: float
    right: float
    x_title: str
    y_title: str
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    curve: str = ""
    area: str = ""
    reference: str = ""
    second: str = ""
    dots: tuple[Dot, ...] = ()
    columns: tuple[Column, ...] = ()
    top: float = _TOP
    bottom: float = _BOTTOM
    width: float = WIDTH
    height: float = HEIGHT


def roc_chart(false_alarms: Sequence[float], hits: Sequence[float]) -> Chart:
    """True positive rate against false positive rate, with the diagonal of guessing."""
    axis = axis_of(0.0, 1.0)
    chart, x, y = framed(axis, axis, "false alarms", "hits")
    curve = _joined(false_alarms, hits, x, y)
    area = _closed(curve, x(false_alarms[0]), chart.bottom)
    return replace(chart, curve=curve, area=area, reference=_joined((0.0, 1.0), (0.0, 1.0), x, y))


def precision_recall_chart(
    recall: Sequence[float],
    precision: Sequence[float],
    second: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Chart:
    """Precision against recall, in steps, with the precision of taking every row, where the curve ends.

    `second` is the same of another ranking of the same rows.
    """
    axis = axis_of(0.0, 1.0)
    chart, x, y = framed(axis, axis, "recall", "precision")

    def stepped(across: Sequence[float], up: Sequence[float]) -> str:
        steps = (f"V{y(height)}H{x(end)}" for end, height in zip(across, up, strict=True))
        return f"M{x(0.0)} {y(up[0])}" + "".join(steps)

    curve = stepped(recall, precision)
    return replace(
        chart,
        curve=curve,
        area=_closed(curve, x(0.0), chart.bottom),
        reference=f"M{x(0.0)} {y(precision[-1])}H{x(1.0)}",
        second=stepped(*second) if second else "",
    )


def expected_chart(
    lengths: Sequence[float],
    expected: Sequence[float],
    band: tuple[Sequence[float], Sequence[float]],
    suggested: float,
    here: tuple[float, float],
) -> Chart:
    """Expected precision by the length of a list, with its band, a suggested length, and the list that is here."""
    chart, x, y = framed(axis_of(0.0, max(*lengths, _INTERVALS)), axis_of(0.0, 1.0), "first rows", "precision")
    lower, upper = (_joined(lengths, values, x, y) for values in band)
    back = "L".join(reversed(upper.removeprefix("M").split("L")))
    return replace(
        chart,
        curve=_joined(lengths, expected, x, y),
        area=f"{lower}L{back}Z",
        reference=f"M{x(suggested)} {chart.bottom}V{chart.top}",
        dots=(Dot(x(here[0]), y(here[1])),),
    )


def calibration_chart(predicted: Sequence[float], observed: Sequence[float], *, shares: bool) -> Chart:
    """Observed against predicted means of groups of rows, on one scale, with the diagonal."""
    both = (*predicted, *observed)
    axis = axis_of(0.0, 1.0) if shares else axis_of(min(both), max(both))
    ends = axis[0], axis[-1]
    chart, x, y = framed(axis, axis, "predicted", "observed")
    dots = tuple(Dot(x(across), y(up)) for across, up in zip(predicted, observed, strict=True))
    return replace(chart, curve=_joined(predicted, observed, x, y), dots=dots, reference=_joined(ends, ends, x, y))


def loss_chart(losses: Sequence[float]) -> Chart:
    """The loss after each epoch."""
    across, up = axis_of(0.0, max(len(losses), _INTERVALS)), axis_of(min(losses), max(losses))
    chart, x, y = framed(across, up, "epoch", "loss")
    epochs = [float(number) for number in range(1, len(losses) + 1)]
    dots = tuple(Dot(x(across), y(up)) for across, up in zip(epochs, losses, strict=True)) if len(losses) == 1 else ()
    return replace(chart, curve=_joined(epochs, losses, x, y), dots=dots)


def histogram_chart(edges: Sequence[float], counts: Sequence[int], x_title: str) -> Chart:
    """How many rows there are between every two edges."""
    across, up = axis_of(edges[0], edges[-1]), axis_of(0.0, max(*counts, _INTERVALS))
    chart, x, y = framed(across, up, x_title, "rows")
    columns = tuple(
        Column(
            left=x(low),
            top=y(count),
            width=round(max(x(high) - x(low) - _BETWEEN_COLUMNS, _THINNEST), 1),
            height=round(chart.bottom - y(count), 1),
        )
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    )
    return replace(chart, columns=columns)


def axis_of(low: float, high: float) -> list[float]:
    """Round numbers, evenly apart, the first at most `low` and the last at least `high`.

    >>> axis_of(0.0, 1.0), axis_of(-3.0, 104.0)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [-50.0, 0.0, 50.0, 100.0, 150.0])
    """
    size = max(abs(low), abs(high))
    if size < _NOTHING or high - low <= _NEARLY * size:
        margin = size / 2 if size >= _NOTHING else 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / _INTERVALS
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in _STEPS if power * factor >= rough * (1 - _NEARLY))
    first, last = math.floor(low / step + _NEARLY), math.ceil(high / step - _NEARLY)
    return [number * step for number in range(first, last + 1)]


def labels_of(axis: Sequence[float]) -> list[str]:
    """The numbers of an axis in as few figures as tell them apart.

    >>> labels_of([0.0, 0.25, 0.5]), labels_of([-20_000.0, 0.0, 20_000.0]), labels_of([0.0, 2.5e7, 5e7])
    (['0', '0.25', '0.5'], ['-20,000', '0', '20,000'], ['0', '2.5e+07', '5e+07'])
    """
    largest, step = max(map(abs, axis)), axis[1] - axis[0]
    if not _SMALL <= largest < _LARGE:
        digits = math.floor(math.log10(largest)) - math.floor(math.log10(step)) + 2
        return [f"{value:.{digits}g}" for value in axis]
    decimals = max(0, 1 - math.floor(math.log10(step)))
    labels = [f"{value:,.{decimals}f}" for value in axis]
    return [label.rstrip("0").rstrip(".") if decimals else label for label in labels]


def framed(
    across: Sequence[float],
    up: Sequence[float],
    x_title: str,
    y_title: str,
    below: Sequence[str] | None = None,
    beside: Sequence[str] | None = None,
    height: float = HEIGHT,
) -> tuple[Chart, Scale, Scale]:
    """An empty chart, and the scales of its axes, whose numbers are written as `below` and `beside` say, if given."""
    below, beside = below or labels_of(across), beside or labels_of(up)
    bottom = height - (HEIGHT - _BOTTOM)
    widest = max(map(len, below)) * LETTER
    left = math.ceil(max(_LEAST_LEFT, max(map(len, beside)) * LETTER + _BESIDE, widest / 2))
    right = math.floor(WIDTH - max(_LEAST_RIGHT, len(below[-1]) * LETTER / 2))
    x, y = _scale(across, left, right), _scale(up, bottom, _TOP)
    every = math.ceil(len(below) * widest / (right - left))
    x_ticks = [Tick(label, x(value)) for label, value in zip(below, across, strict=True)][::every]
    y_ticks = [Tick(label, y(value)) for label, value in zip(beside, up, strict=True)]
    chart = Chart(left, right, x_title, y_title, tuple(x_ticks), tuple(y_ticks), bottom=bottom, height=height)
    return chart, x, y


def _scale(axis: Sequence[float], start: float, end: float) -> Scale:
    low, high = axis[0], axis[-1]
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def _joined(xs: Sequence[float], ys: Sequence[float], x: Scale, y: Scale) -> str:
    """The path from point to point."""
    return "M" + "L".join(f"{x(across)} {y(up)}" for across, up in zip(xs, ys, strict=True))


def _closed(curve: str, left: float, bottom: float) -> str:
    """The path of the area between a curve and the axis below it."""
    return f"{curve}V{bottom}H{left}Z"
