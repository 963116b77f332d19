"""A page about one table: its columns with a picture of each, and what looks wrong."""

from __future__ import annotations

from pathlib import Path

from unpooled import atomic
from unpooled.data.quality import Quality
from unpooled.drawing.chart import histogram_chart
from unpooled.drawing.html import render
from unpooled.version import __version__

_TEMPLATE = Path(__file__).parent / "templates" / "quality.html"


def write_quality(quality: Quality, page: Path) -> Path:
    """Write the page, for its owner alone: it shows values."""
    atomic.write_text(page, draw_quality(quality))
    return page


def draw_quality(quality: Quality) -> str:
    """The page; everything from the table is escaped."""
    charts = {
        column.name: histogram_chart(column.edges, column.counts, column.name)
        for column in quality.columns
        if column.edges
    }
    notes = {
        name: [note for note in quality.notes if note.column == name] for name in {n.column for n in quality.notes}
    }
    return render(_TEMPLATE, quality=quality, charts=charts, notes=notes, version=__version__)
