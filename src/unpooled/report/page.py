"""Draw a run as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.filesize import decimal

from unpooled import atomic
from unpooled.jobs.kinds import kind_of_job
from unpooled.report import picture
from unpooled.report.align import align_section
from unpooled.report.check import check_section
from unpooled.report.gather import Story, gather
from unpooled.run.folder import REPORT
from unpooled.version import __version__
from unpooled.wire import WIRE_VERSION

DIFFERENCES_SHOWN = 20

SECTIONS: Mapping[str, Callable[[Story], Any]] = {"align": align_section, "check": check_section}
"""What a kind of job shows of its own: the values for `KIND.html` among the templates, where it is called `section`."""


def write_report(run: Path) -> Path:
    """Write `report.html` into the folder of a run, or of one party in it, from the files there."""
    page = run / REPORT
    atomic.write_text(page, draw(gather(run)))
    return page


def draw(story: Story) -> str:
    """The page; everything that came from a file is escaped."""
    environment = Environment(
        loader=PackageLoader("unpooled.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "size": decimal, "moment": _moment, "duration": _duration}
    kind = story.plan.kind
    return environment.get_template("page.html").render(
        story=story,
        summary=kind_of_job(story.plan).summary,
        picture=picture.picture_of(list(story.plan.parties), story.flows),
        box=(picture.BOX_WIDTH, picture.BOX_HEIGHT),
        section=SECTIONS[kind](story) if kind in SECTIONS else None,
        differences_shown=DIFFERENCES_SHOWN,
        version=__version__,
        wire_version=WIRE_VERSION,
    )


def _number(value: float) -> str:
    return f"{value:,}"


def _moment(value: datetime) -> str:
    return f"{value.day} {value:%B %Y, %H:%M:%S %Z}"


def _duration(start: datetime, end: datetime) -> str:
    """How long in words; statuses count whole seconds.

    >>> _duration(datetime(2026, 1, 1, 9, 0), datetime(2026, 1, 1, 10, 2, 3))
    '1 h 2 min 3 s'
    """
    minutes, seconds = divmod(int((end - start).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min"), (seconds, "s")) if count]
    return " ".join(parts) or "less than a second"
