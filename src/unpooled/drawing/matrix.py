"""Pictures with a line for each column of a table: heat maps, strengths, and figures with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unpooled.drawing.blocks import LABELS, WIDTH, shortened

COLUMNS_SHOWN = 60

_TOP, _STEP, _BAR = 44, 30, 18
_CELL, _STRENGTHS, _BESIDE = 30, 130, 22
_FIGURE, _ARROW = 116, 24
_FOOT = 52
_SHADES = 20
_SQUARE, _SQUARE_LABELS, _LARGEST, _NUMBER = 460, 150, 28, 24


@dataclass(frozen=True)
class Cell:
    """One association: how dark it is, whether it is negative, and whether it is beyond the line."""

    left: float
    top: float
    shade: float
    negative: bool
    beyond: bool
    title: str


@dataclass(frozen=True)
class Strength:
    """A bar for the strength of a column; one that does not reach the line is drawn hollow."""

    top: float
    width: float
    passes: bool


@dataclass(frozen=True)
class Label:
    name: str
    text: str
    middle: float


@dataclass(frozen=True)
class Matrix:
    """A heat map, empty if there are no associations, and strengths beside it, with the line that decides.

    `line` is where the threshold is among the strengths, `mark` where the line of the cells is on the scale of shades.
    """

    height: float
    labels: tuple[Label, ...]
    cells: tuple[Cell, ...]
    cell: float
    strengths: tuple[Strength, ...]
    strengths_left: float
    strengths_right: float
    line: float | None
    scale: tuple[Cell, ...]
    mark: float | None
    left_out: int
    bottom: float
    bar: float = _BAR
    width: float = WIDTH
    labels_right: float = LABELS
    top: float = _TOP


def matrix_of(
    names: Sequence[str],
    values: Sequence[Sequence[float]],
    beyond: float | None,
    strengths: Sequence[float | None],
    passes: Sequence[bool],
    threshold: float | None,
) -> Matrix:
    """Columns × others' columns, those with the strongest associations first; cells above `beyond` are outlined.

    Without `values` there are strengths alone, and without strengths cells alone.
    """
    others = len(values[0]) if values and values[0] else 0
    order = sorted(range(others), key=lambda place: -max(abs(row[place]) for row in values))[:COLUMNS_SHOWN]
    with_strengths = any(value is not None for value in strengths)
    room = WIDTH - LABELS - (_STRENGTHS + _BESIDE if with_strengths else 0)
    size = round(min(_CELL, room / max(len(order), 1)), 2)
    cells = [
        _cell(LABELS + place * size, _TOP + line * _STEP, values[line][other], beyond, f"{name}, column {place + 1}")
        for line, name in enumerate(names)
        for place, other in enumerate(order)
    ]
    left = LABELS + (len(order) * size + _BESIDE if order else 0)
    right = min(left + _STRENGTHS, WIDTH) if order else WIDTH
    bars = [
        Strength(_TOP + line * _STEP + (_STEP - _BAR) / 2, round((value or 0.0) * (right - left), 1), passing)
        for line, (value, passing) in enumerate(zip(strengths, passes, strict=True))
    ]
    bottom = _TOP + len(names) * _STEP
    step = min(max(len(order) * size, _STRENGTHS) - _BESIDE, room) / _SHADES
    scale = [
        Cell(round(LABELS + place * step, 1), bottom + 14, (place + 0.5) / _SHADES, False, False, "")
        for place in range(_SHADES)
    ]
    return Matrix(
        height=bottom + (_FOOT if order else _FOOT // 2),
        labels=tuple(Label(name, shortened(name), _TOP + line * _STEP + _STEP / 2) for line, name in enumerate(names)),
        cells=tuple(cells),
        cell=size,
        strengths=tuple(bars) if with_strengths else (),
        strengths_left=left,
        strengths_right=right,
        line=None if threshold is None or not with_strengths else round(left + threshold * (right - left), 1),
        scale=tuple(scale) if order else (),
        mark=None if beyond is None else round(LABELS + beyond * _SHADES * step, 1),
        left_out=others - len(order),
        bottom=bottom,
    )


@dataclass(frozen=True)
class Square:
    """A heat map of columns with each other; columns are numbered, and a number stands above some of them."""

    size: float
    labels: tuple[Label, ...]
    numbers: tuple[tuple[int, float], ...]
    cells: tuple[Cell, ...]
    cell: float
    letters: float
    width: float = _SQUARE
    labels_right: float = _SQUARE_LABELS
    top: float = _NUMBER


def square_of(names: Sequence[str], values: Sequence[Sequence[float]], strongest: float = 1.0) -> Square:
    """Columns × the same columns, whose colour is full at a value of `strongest`; the diagonal is left out."""
    size = round(min(_LARGEST, (_SQUARE - _SQUARE_LABELS) / max(len(names), 1)), 2)
    cells = []
    for line, one in enumerate(names):
        for place, other in enumerate(names):
            value = values[line][place]
            left, top = round(_SQUARE_LABELS + place * size, 2), round(_NUMBER + line * size, 2)
            shade = round(min(abs(value) / strongest, 1.0), 3)
            if place != line:
                cells.append(Cell(left, top, shade, value < 0, False, f"{one}, {other}: {value:.2f}"))
    every = -(-_NUMBER // max(int(size), 1))
    return Square(
        size=round(_NUMBER + len(names) * size + 4, 1),
        labels=tuple(
            Label(name, f"{shortened(name)} {line + 1}", round(_NUMBER + (line + 0.5) * size, 1))
            for line, name in enumerate(names)
        ),
        numbers=tuple(
            (place + 1, round(_SQUARE_LABELS + (place + 0.5) * size, 1)) for place in range(0, len(names), every)
        ),
        cells=tuple(cells),
        cell=size,
        letters=round(min(15.0, 0.95 * size), 1),
    )


def _cell(left: float, top: float, value: float, beyond: float | None, where: str) -> Cell:
    past = beyond is not None and abs(value) > beyond
    return Cell(round(left, 2), top, round(min(abs(value), 1.0), 3), value < 0, past, f"{where}: {value:.2f}")


@dataclass(frozen=True)
class Estimate:
    """A figure between 0 and 1 with its interval, and what guessing would have; in words beside it."""

    name: str
    value: float
    low: float
    high: float
    guess: float
    words: str


@dataclass(frozen=True)
class Whisker:
    """One line of the chart; `low` and `high` are cut off where the scale ends."""

    label: Label
    at: float
    low: float
    high: float
    guess: float
    below: bool
    words: str


@dataclass(frozen=True)
class Intervals:
    height: float
    whiskers: tuple[Whisker, ...]
    ticks: tuple[tuple[str, float], ...]
    bottom: float
    right: float
    width: float = WIDTH
    labels_right: float = LABELS
    top: float = _TOP


def intervals_of(estimates: Sequence[Estimate]) -> Intervals:
    """A line for each: a dot at the figure, the interval, and a mark where guessing is; what is below 0 is at 0."""
    right = WIDTH - _FIGURE

    def x(value: float) -> float:
        return round(LABELS + _ARROW + min(max(value, 0.0), 1.0) * (right - LABELS - _ARROW), 1)

    whiskers = [
        Whisker(
            Label(one.name, shortened(one.name), _TOP + place * _STEP + _STEP / 2),
            x(one.value),
            x(one.low),
            x(one.high),
            x(one.guess),
            one.value < 0,
            one.words,
        )
        for place, one in enumerate(estimates)
    ]
    bottom = _TOP + len(estimates) * _STEP
    ticks = tuple((text, x(value)) for text, value in (("0", 0.0), ("0.5", 0.5), ("1", 1.0)))
    return Intervals(bottom + 34, tuple(whiskers), ticks, bottom, right)
