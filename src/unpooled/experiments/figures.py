"""Figures as SVG and PNG, readable in print and without colour: lines differ by marker and dash, all in black."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

from unpooled import atomic
from unpooled.errors import InputError

MARKERS = ("o", "s", "^", "D", "v", "x", "P", "*")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
GREYS = ("0.0", "0.3", "0.5")
_WIDTH, _LEGEND_WIDTH, _NAME_WIDTH = 3.1, 3.2, 0.3
"""Of a panel, of an entry of the legend, and of a place that has a name, in inches."""
_ASIDE = 0.18
"""How far apart points of different lines stand at such a place, of which each is 1 wide."""

_STYLE: Any = {
    "svg.hashsalt": "unpooled",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Line:
    """One method: where it was measured, the mean there, and the spread, drawn as bars; 0 or NaN: none."""

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    spread: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Picture:
    """Panels side by side that share the names of their axes and of their lines; `x_ticks` stand equally far apart.

    With `x_names` the ticks are called so, have no order, and the points of a line are not joined.
    """

    title: str
    x: str
    y: str
    x_ticks: Sequence[float]
    panels: Sequence[Panel]
    percent: bool = False
    x_names: Sequence[str] = ()


def style(place: int) -> dict[str, Any]:
    """How the line at this place is drawn: no two of the first eight share a marker or a dash."""
    return {
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": DASHES[place % len(DASHES)],
        "color": GREYS[place % len(GREYS)],
    }


def check() -> None:
    """Refuse if figures cannot be drawn here."""
    if find_spec("matplotlib") is None:
        raise InputError("figures need: pip install 'unpooled[plots]'")


def save(picture: Picture, path: Path) -> list[Path]:
    """Write the picture as `path` with the endings .svg and .png."""
    check()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line.name for panel in picture.panels for line in panel.lines))
    if len(names) > len(MARKERS):
        raise InputError(f"figure {path.name}: {len(names)} lines cannot be told apart; {len(MARKERS)} can")
    with rc_context(_STYLE):
        width = max(_WIDTH, _NAME_WIDTH * len(picture.x_names)) * len(picture.panels) + 0.6
        beside = max(int(width // _LEGEND_WIDTH), 1)
        figure = Figure(figsize=(width, 3.1 + 0.2 * ceil(len(names) / beside)), layout="constrained")
        figure.suptitle(picture.title)
        every = [figure.add_subplot(1, len(picture.panels), place + 1) for place in range(len(picture.panels))]
        for axes, panel in zip(every, picture.panels, strict=True):
            _draw(axes, panel, picture, names)
        every[0].set_ylabel(picture.y)
        handles: dict[str, Any] = {}
        for axes in every:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        shown = [name for name in names if name in handles]
        lines = [handles[name] for name in shown]
        figure.legend(lines, shown, loc="outside lower center", ncols=beside, frameon=False, handlelength=3.5)
        written = []
        for ending, metadata in ((".svg", {"Date": None}), (".png", {})):
            written.append(path.with_suffix(ending))
            with atomic.replacing(written[-1]) as temporary:
                figure.savefig(temporary, format=ending[1:], dpi=150, metadata=metadata)
    return written


def _draw(axes: Any, panel: Panel, picture: Picture, names: Sequence[str]) -> None:
    places = {tick: place for place, tick in enumerate(picture.x_ticks)}
    for number, line in enumerate(panel.lines):
        aside = _ASIDE * (number - (len(panel.lines) - 1) / 2) if picture.x_names else 0.0
        axes.errorbar(
            [places[x] + aside for x in line.x],
            line.mean,
            yerr=[spread if spread > 0 else 0.0 for spread in line.spread],
            label=line.name,
            markersize=4,
            linewidth=1.1,
            elinewidth=0.7,
            capsize=2,
            **style(names.index(line.name)) | ({"linestyle": "none"} if picture.x_names else {}),
        )
    axes.set_title(panel.title, fontsize=9)
    shown = [f"{tick * 100:g} %" if picture.percent else f"{tick:g}" for tick in picture.x_ticks]
    axes.set_xticks(range(len(places)), picture.x_names or shown, rotation=60 if picture.x_names else 0)
    if picture.x_names:
        axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_xlabel(picture.x)
    axes.grid(axis="y", linewidth=0.4, color="0.85")
