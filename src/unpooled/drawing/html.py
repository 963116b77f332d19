"""Templates as HTML, with everything escaped that comes from a file."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.filesize import decimal

from unpooled.drawing.measures import figure
from unpooled.drawing.words import percent, times

_SHARED = Path(__file__).parent / "templates"


def render(template: Path, **values: Any) -> str:
    """A template with its values; it may include those beside it and those of this package."""
    return _environment(template.parent).get_template(template.name).render(values)


@cache
def _environment(folder: Path) -> Environment:
    """How the templates of a folder are read; each is compiled once."""
    environment = Environment(
        loader=FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "figure": figure, "percent": percent}
    environment.filters |= {"times": times, "size": decimal, "moment": _moment, "duration": duration}
    return environment


def _number(value: float) -> str:
    return f"{value:,}"


def _moment(value: datetime) -> str:
    return f"{value.day} {value:%B %Y, %H:%M:%S %Z}"


def duration(start: datetime, end: datetime) -> str:
    """How long in words; statuses count whole seconds.

    >>> duration(datetime(2026, 1, 1, 9, 0), datetime(2026, 1, 1, 10, 2, 3))
    '1 h 2 min 3 s'
    """
    minutes, seconds = divmod(int((end - start).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min"), (seconds, "s")) if count]
    return " ".join(parts) or "less than a second"
