"""Where things stand in the picture of an alignment: every party's rows as bars that run together and grow fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BAR_HEIGHT = 14
_WIDTH = 640
_STAGE_WIDTH = 118
_LEAST_COLUMN = 118
_BETWEEN_COLUMNS = 18
_FIRST, _STEP = 66, 78
_ROOM, _ROOM_FOR_WORDS = 2, 32
_THINNEST = 2.0
_ABOVE, _BELOW = 15, 17
_LETTER = 14.5  # the width of a bold one where it is written largest, on a telephone

READ, CLEANED, COMMON, LABELS, LISTED = range(5)
STAGES = ("rows read", "cleaned", "in common", "labels", "listed")


@dataclass(frozen=True)
class Tally:
    """How many rows a party read and kept."""

    read: int
    cleaned: int


@dataclass(frozen=True)
class Bar:
    """So many rows, as wide as they are many; `sort` says whose they are, `word` stands below."""

    left: float
    top: float
    width: float
    count: int
    sort: str
    word: str = ""
    height: float = BAR_HEIGHT

    @property
    def middle(self) -> float:
        return round(self.left + self.width / 2, 1)

    @property
    def number_at(self) -> float:
        return self.top - _ABOVE

    @property
    def word_at(self) -> float:
        return self.top + self.height + _BELOW


@dataclass(frozen=True)
class Band:
    """Rows on their way from one bar to another, as the path of a shape."""

    path: str
    sort: str


@dataclass(frozen=True)
class Column:
    """A party's name, and where it stands."""

    name: str
    at: float
    width: float

    @property
    def letters(self) -> int:
        """How many of the name have room."""
        return int(self.width / _LETTER)


@dataclass(frozen=True)
class Funnel:
    """The whole picture; `stages` are the words at its left, each with its height."""

    width: float
    height: float
    columns: tuple[Column, ...]
    stages: tuple[tuple[str, float], ...]
    bars: tuple[Bar, ...]
    bands: tuple[Band, ...]


def funnel_of(
    owners: Mapping[str, Tally],
    seeker: Mapping[str, Tally | None],
    common: int | None,
    positives: int | None,
    listed: int | None = None,
) -> Funnel | None:
    """Lay out what is known: owners' rows run into those in common, and these with the seeker's into labels.

    Of the unlabelled rows some may be `listed` as look-alikes in the end.
    `seeker` holds one name at most, with None if its rows are not known here. Nothing at all gives no picture.
    """
    known = {name: tally for name, tally in {**owners, **seeker}.items() if tally}
    most = max((tally.read for tally in known.values()), default=0)
    if not most:
        return None
    columns = _columns([*owners, *seeker])
    centres = {column.name: column.at for column in columns}
    scale = (columns[0].width - _BETWEEN_COLUMNS) / most
    bars: list[Bar] = []
    bands: list[Band] = []

    def bar(stage: int, centre: float, count: int, sort: str, word: str = "") -> Bar:
        width = round(max(_THINNEST, count * scale), 1)
        bars.append(Bar(round(centre - width / 2, 1), _top(stage), width, count, sort, word))
        return bars[-1]

    cleaned: dict[str, Bar] = {}
    for name, tally in known.items():
        sort = "positive" if name in seeker else "owned"
        read = bar(READ, centres[name], tally.read, sort)
        cleaned[name] = bar(CLEANED, centres[name], tally.cleaned, sort)
        bands.append(_band(read, cleaned[name], sort))
    last = CLEANED
    if common is not None:
        last = COMMON
        shared = bar(COMMON, sum(centres[name] for name in owners) / len(owners), common, "owned")
        bands += [_band(cleaned[name], shared, "owned") for name in owners]
        if positives is not None:
            last = LABELS
            remaining = max(common - positives, 0)
            left = bar(LABELS, shared.left + remaining * scale / 2, remaining, "unlabelled", "unlabelled")
            right = bar(LABELS, columns[-1].at, positives, "positive", "positive")
            bands.append(_band(_part(shared, 0, left.width), left, "unlabelled"))
            bands.append(_band(_part(shared, shared.width - right.width, right.width), right, "positive"))
            bands += [_band(cleaned[name], right, "positive") for name in seeker if name in cleaned]
            if listed is not None:
                last = LISTED
                found = bar(LISTED, left.middle, listed, "listed", "look-alikes")
                bands.append(_band(_part(left, found.left - left.left, found.width), found, "listed"))
    return Funnel(
        width=round(_STAGE_WIDTH + sum(column.width for column in columns), 1),
        height=_top(last) + BAR_HEIGHT + (_ROOM_FOR_WORDS if last >= LABELS else _ROOM),
        columns=columns,
        stages=tuple((STAGES[stage], _top(stage) - _ABOVE) for stage in range(last + 1)),
        bars=tuple(bars),
        bands=tuple(bands),
    )


def _top(stage: int) -> float:
    return _FIRST + stage * _STEP


def _columns(names: Sequence[str]) -> tuple[Column, ...]:
    width = round(max(_LEAST_COLUMN, (_WIDTH - _STAGE_WIDTH) / len(names)), 1)
    return tuple(
        Column(name, round(_STAGE_WIDTH + (number + 0.5) * width, 1), width) for number, name in enumerate(names)
    )


def _part(bar: Bar, start: float, width: float) -> Bar:
    """Some of a bar, to begin a band with."""
    return Bar(bar.left + start, bar.top, width, 0, bar.sort)


def _band(upper: Bar, lower: Bar, sort: str) -> Band:
    """From a bar's foot to another's head, bent so that it leaves and arrives upright."""
    head, foot = upper.top + upper.height, lower.top
    bend = (head + foot) / 2
    a, b = round(upper.left, 1), round(upper.left + upper.width, 1)
    c, d = round(lower.left, 1), round(lower.left + lower.width, 1)
    path = f"M{a} {head}C{a} {bend} {c} {bend} {c} {foot}H{d}C{d} {bend} {b} {bend} {b} {head}Z"
    return Band(path, sort)
