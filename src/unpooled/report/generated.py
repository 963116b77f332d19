"""A page about generated rows: beside the real ones, column by column, pair by pair, and row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unpooled import atomic
from unpooled.drawing.chart import Chart
from unpooled.drawing.html import render
from unpooled.drawing.matrix import Square, square_of
from unpooled.drawing.pairs import pair_chart
from unpooled.drawing.words import many, percent
from unpooled.evaluate.generated import MOST_COLUMNS, Associations, GeneratedColumn, GeneratedRows
from unpooled.version import __version__

COLUMNS_DRAWN = 60
NOT_ANONYMOUS = "Generated rows are not anonymous by themselves"
_TEMPLATE = Path(__file__).parent / "templates" / "generated.html"
_FULL_DIFFERENCE = 0.25
_SURELY = 0.05
"""A fraction of rows nearer to rows learned from that is so far above a half is no chance, or chance alone."""

_MEASURES = {
    "ks": ("KS", "of numbers and dates: the greatest difference of the distribution functions"),
    "total_variation": ("Total variation", "of all other types: half the sum of differences in frequency"),
    "wasserstein": ("Wasserstein", "of numbers and dates: how far values must be moved, in standard deviations"),
    "association": ("Association", "of pairs of columns: the difference of their association"),
}


@dataclass(frozen=True)
class Generation:
    """What is told of how rows came about: from which table, by which model, what was left out, what to know."""

    origin: str
    model: str
    settings: Mapping[str, str]
    file: str
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Mean:
    """A distance, the mean over columns: of generated rows, of held-out ones, and the first in multiples of these."""

    name: str
    meaning: str
    generated: float
    held_out: float | None

    @property
    def multiple(self) -> str:
        """How many times the held-out rows' own it is."""
        return f"{self.generated / self.held_out:.1f} ×" if self.held_out else ""


def write_generated(found: GeneratedRows, about: Generation, page: Path) -> Path:
    """Write the page, for the table's owner alone: it shows values."""
    with atomic.naming(page):
        atomic.write_text(page, draw_generated(found, about))
    return page


def draw_generated(found: GeneratedRows, about: Generation) -> str:
    """The page; everything from the table is escaped."""
    shown = [one for one in found.columns if one.distribution][:COLUMNS_DRAWN]
    return render(
        _TEMPLATE,
        found=found,
        about=about,
        means=[Mean(*_MEASURES[name], *values) for name, values in found.means.items()],
        memorised=memorised(found),
        nearest=nearest_words(found),
        warning=NOT_ANONYMOUS,
        numbers=[one for one in shown if one.distribution and one.distribution.edges],
        classes=[one for one in shown if one.distribution and not one.distribution.edges],
        left_undrawn=len([one for one in found.columns if one.distribution]) - len(shown),
        pairs=_pairs(shown),
        squares=_squares(found.associations),
        unpaired=max(len(found.columns) - MOST_COLUMNS, 0),
        full=_FULL_DIFFERENCE,
        version=__version__,
    )


def memorised(found: GeneratedRows) -> bool:
    """Whether more rows than chance would bring are nearer to rows that were learned from, or equal to them."""
    if found.nearest is None:
        return False
    limit = max(_SURELY, 1.0 / found.nearest.rows**0.5)
    expected = found.held_out_copies / found.held_out
    copied = found.copies / found.rows
    return found.nearest.nearer_to_training > 0.5 + limit or copied > max(2.0 * expected, expected + 0.01)


def nearest_words(found: GeneratedRows) -> list[str]:
    """What the nearest records say, in sentences."""
    copies = f"{found.copies:,} of {many(found.rows, 'generated row')} equal a row that was learned from"
    if found.nearest is None:
        return [f"{copies}; no rows were held out, so nothing more can be said about memorised ones."]
    near = found.nearest
    return [
        f"{percent(near.nearer_to_training)} of {many(near.rows, 'generated row')} are nearer to a row that was "
        f"learned from than to any of as many held-out rows; it would be about 50 % if nothing was memorised.",
        f"{copies}; of {many(found.held_out, 'held-out row')}, which are real, {found.held_out_copies:,} do.",
    ]


def _pairs(columns: Sequence[GeneratedColumn]) -> dict[str, Chart]:
    found = {one.name: (one.distribution, one.kind) for one in columns}
    return {
        name: pair_chart(shown.edges, shown.first, shown.second, dates=kind == "date")
        for name, (shown, kind) in found.items()
        if shown and shown.edges
    }


def _squares(found: Associations) -> dict[str, Square]:
    if len(found.columns) < 2:
        return {}
    return {
        "Real": square_of(found.columns, found.real),
        "Generated": square_of(found.columns, found.generated),
        "Difference": square_of(found.columns, found.difference, _FULL_DIFFERENCE),
    }
