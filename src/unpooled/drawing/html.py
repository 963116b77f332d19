"""Templates as HTML, with everything escaped that comes from a file."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.filesize import decimal

from unpooled.drawing.measures import figure
from unpooled.drawing.words import times

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
    environment.filters |= {"number": _number, "figure": figure, "percent": _percent}
    environment.filters |= {"times": times, "size": decimal, "moment": _moment, "duration": _duration}
    return environment


def _number(value: float) -> str:
    return f"{value:,}"


def _percent(share: float) -> str:
    """A fraction as a percentage; only 0 is shown as 0.

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
