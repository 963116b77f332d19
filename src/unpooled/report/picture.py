"""The layout of the picture of a run: parties as boxes on a ring, with a line for every connection."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from rich.filesize import decimal

from unpooled.drawing.html import render
from unpooled.jobs.plan import Plan

_TEMPLATE = Path(__file__).parent / "templates" / "picture.html"
BOX_WIDTH, BOX_HEIGHT = 170, 72
_WIDTH, _HEIGHT = 640, 380
_MOST_WITH_NUMBERS = 4
_MOST_IN_WIDTH = 7
_FROM_SENDER = 0.25
_ARROWS = "→↘↓↙←↖↑↗"


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True)
class Label:
    """How much went one way along a line, written near the party that sent it."""

    at: Point
    text: str


@dataclass(frozen=True)
class Connector:
    start: Point
    end: Point
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class Picture:
    """`boxes` are the centres of the parties' boxes; with many parties the lines carry no numbers."""

    width: float
    height: float
    boxes: dict[str, Point]
    connectors: tuple[Connector, ...]
    numbered: bool


def draw_picture(plan: Plan, owner: str | None, flows: Mapping[tuple[str, str], int | None]) -> str:
    """The picture as HTML; the owner's box stands out."""
    picture = picture_of(list(plan.parties), flows)
    return render(_TEMPLATE, plan=plan, owner=owner, picture=picture, box=(BOX_WIDTH, BOX_HEIGHT))


def picture_of(parties: Sequence[str], flows: Mapping[tuple[str, str], int | None]) -> Picture:
    """Lay out the parties; `flows` are bytes from one to another, None where it is not known how many.

    Two of which nothing is known get no line.
    """
    growth = max(1.0, len(parties) / _MOST_IN_WIDTH)
    width, height = _WIDTH * growth, (_HEIGHT if len(parties) > 2 else BOX_HEIGHT + 2) * growth
    boxes = dict(zip(parties, _ring(len(parties), width, height), strict=True))
    numbered = len(parties) <= _MOST_WITH_NUMBERS
    connectors = []
    for first, second in combinations(parties, 2):
        ways = [way for way in ((first, second), (second, first)) if way in flows]
        if not ways:
            continue
        start, end = _edge(boxes[first], boxes[second]), _edge(boxes[second], boxes[first])
        ends = {first: (start, end), second: (end, start)}
        sizes = {sender: flows[sender, receiver] for sender, receiver in ways if numbered}
        labels = [_label(*ends[sender], size) for sender, size in sizes.items() if size is not None]
        connectors.append(Connector(start, end, tuple(labels)))
    return Picture(width, height, boxes, tuple(connectors), numbered)


def _ring(count: int, width: float, height: float) -> list[Point]:
    """Box centres around a ring stretched to fill the canvas; an even number has two of them at the top."""
    first = -math.pi / 2 - (math.pi / count if count % 2 == 0 else 0)
    angles = [first + 2 * math.pi * number / count for number in range(count)]
    across = _stretched([math.cos(angle) for angle in angles], BOX_WIDTH / 2 + 1, width - BOX_WIDTH / 2 - 1)
    down = _stretched([math.sin(angle) for angle in angles], BOX_HEIGHT / 2 + 1, height - BOX_HEIGHT / 2 - 1)
    return [Point(x, y) for x, y in zip(across, down, strict=True)]


def _stretched(values: list[float], low: float, high: float) -> list[float]:
    least, most = min(values), max(values)
    if math.isclose(least, most, abs_tol=1e-9):
        return [(low + high) / 2] * len(values)
    return [round(low + (value - least) / (most - least) * (high - low), 1) for value in values]


def _edge(box: Point, towards: Point) -> Point:
    """Where the line from a box's centre to another's leaves the box."""
    x, y = towards.x - box.x, towards.y - box.y
    fraction = min(BOX_WIDTH / 2 / abs(x) if x else math.inf, BOX_HEIGHT / 2 / abs(y) if y else math.inf)
    return Point(round(box.x + fraction * x, 1), round(box.y + fraction * y, 1))


def _label(sender: Point, receiver: Point, size: int) -> Label:
    x, y = receiver.x - sender.x, receiver.y - sender.y
    arrow = _ARROWS[round(math.atan2(y, x) / (math.pi / 4)) % len(_ARROWS)]
    at = Point(round(sender.x + _FROM_SENDER * x, 1), round(sender.y + _FROM_SENDER * y, 1))
    return Label(at, f"{arrow} {decimal(size)}")
