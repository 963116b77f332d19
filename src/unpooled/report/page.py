"""Draw a run as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from rich.filesize import decimal

from unpooled import atomic
from unpooled.errors import UnpooledError
from unpooled.jobs.kinds import kind_of_job
from unpooled.report import picture
from unpooled.report.align import align_section
from unpooled.report.check import check_section
from unpooled.report.gather import Story, gather
from unpooled.report.lookalike import lookalike_section
from unpooled.report.measures import figure
from unpooled.report.predict import predict_section
from unpooled.report.train import train_section
from unpooled.report.words import times
from unpooled.run.folder import REPORT
from unpooled.version import __version__
from unpooled.wire import WIRE_VERSION

DIFFERENCES_SHOWN = 20

SECTIONS: Mapping[str, Callable[[Story], Any]] = {
    "align": align_section,
    "check": check_section,
    "lookalike": lookalike_section,
    "predict": predict_section,
    "train": train_section,
}
"""What a kind of job shows of its own: the values for `KIND.html` among the templates, where it is called `section`.

If it has a `headline`, that stands at the head of the page.
"""


def write_report(run: Path) -> Path:
    """Write `report.html` into the folder of one party, or of a whole run, from the files there.

    In a whole run every party gets its own page first, from its own files, and the run's page has links to these.
    """
    page, story = run / REPORT, gather(run)
    parties = () if story.teller else story.parties.values()
    pages = [party.name for party in parties if party.status and _written(party.folder)]
    # A party's own page names its columns, and the seeker's some ids.
    atomic.write_text(page, draw(story, pages))
    return page


def _written(folder: Path) -> bool:
    """Whether a party's page could be written; what is wrong with its files must not keep the others from theirs."""
    try:
        write_report(folder)
    except UnpooledError:
        return False
    return True


def draw(story: Story, pages: Sequence[str] = ()) -> str:
    """The page, with links to those of these parties; everything that came from a file is escaped."""
    kind = story.plan.kind
    section = SECTIONS[kind](story) if kind in SECTIONS else None
    return _page().render(
        story=story,
        summary=kind_of_job(story.plan).summary,
        picture=picture.picture_of(list(story.plan.parties), story.flows),
        box=(picture.BOX_WIDTH, picture.BOX_HEIGHT),
        section=section,
        pages=pages,
        headline=getattr(section, "headline", ""),
        differences_shown=DIFFERENCES_SHOWN,
        version=__version__,
        wire_version=WIRE_VERSION,
    )


@cache
def _page() -> Template:
    """The template of the page, which is compiled once."""
    environment = Environment(
        loader=PackageLoader("unpooled.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "figure": figure, "percent": _percent}
    environment.filters |= {"times": times, "size": decimal, "moment": _moment, "duration": _duration}
    return environment.get_template("page.html")


def _number(value: float) -> str:
    return f"{value:,}"


def _percent(share: float) -> str:
    """A share in words; one that is not nothing is not shown as nothing.

    >>> _percent(0.123), _percent(0.00001), _percent(0.0)
    ('12.3 %', '< 0.1 %', '0 %')
    """
    if not share:
        return "0 %"
    return f"{share:.1%}".replace("%", " %") if share >= 0.0005 else "< 0.1 %"


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
