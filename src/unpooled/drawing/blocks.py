"""The picture of a table that is completed: a bar for each column, over all people, in blocks of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, LABELS = 640, 172
"""Of pictures with a line for each column, and of the names before these lines."""
LONGEST_LABEL = 14
_TOP, _STEP, _BAR = 58, 30, 21
_LEAST = 118
"""The width of a block, so that its heading has room."""
_BETWEEN = 4


@dataclass(frozen=True)
class Piece:
    """A part of a bar; `sort` says what is there."""

    sort: str
    left: float
    width: float


@dataclass(frozen=True)
class Line:
    """One bar, with its name as far as there is room for it."""

    name: str
    label: str
    top: float
    middle: float
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Heading:
    """What stands above a block: how many people, and who they are."""

    count: int
    words: str
    at: float


@dataclass(frozen=True)
class Blocks:
    """`to_scale` says whether widths are as numbers of people are: a small block is drawn wider."""

    height: float
    headings: tuple[Heading, ...]
    lines: tuple[Line, ...]
    to_scale: bool
    width: float = WIDTH
    bar: float = _BAR
    labels: float = LABELS


def shortened(name: str) -> str:
    """A name as long as there is room for.

    >>> shortened("creatinine"), shortened("creatinine_clearance")
    ('creatinine', 'creatinine_cl…')
    """
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"


def blocks_of(
    lines: Sequence[tuple[str, Sequence[Mapping[str, int]]]], people: Sequence[int], words: Sequence[str]
) -> Blocks:
    """Lay out bars; each says of every block of people how many are of which sort. Empty blocks are left out."""
    there = [place for place, count in enumerate(people) if count]
    widths, to_scale = _widths([people[place] for place in there])
    lefts = dict(zip(there, (LABELS + sum(widths[:number]) for number in range(len(there))), strict=True))
    drawn = []
    for number, (name, parts) in enumerate(lines):
        pieces: list[Piece] = []
        for place, width in zip(there, widths, strict=True):
            left = lefts[place]
            for sort, count in parts[place].items():
                part = count / people[place] * (width - _BETWEEN)
                if count:
                    pieces.append(Piece(sort, round(left, 1), round(part, 1)))
                left += part
        top = _TOP + number * _STEP
        drawn.append(Line(name, shortened(name), top, top + _BAR / 2, tuple(pieces)))
    headings = [
        Heading(people[place], words[place], round(lefts[place] + (width - _BETWEEN) / 2, 1))
        for place, width in zip(there, widths, strict=True)
    ]
    return Blocks(_TOP + len(drawn) * _STEP, tuple(headings), tuple(drawn), to_scale)


def _widths(people: Sequence[int]) -> tuple[list[float], bool]:
    """The widths of blocks, none too narrow, and whether they are to scale."""
    room = WIDTH - LABELS
    exact = [room * count / sum(people) for count in people]
    small = [width < _LEAST for width in exact]
    if not any(small):
        return exact, True
    left = room - _LEAST * sum(small)
    large = sum(width for width, is_small in zip(exact, small, strict=True) if not is_small)
    return [_LEAST if is_small else left * width / large for width, is_small in zip(exact, small, strict=True)], False
