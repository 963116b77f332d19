"""The service's log: a line of JSON for each event, without personal data.

No line has a person's name, a path with values in it, a query, a header or a body. Of an error it has the class and
where it was raised, since an error's text may quote data.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

LOGGER = logging.getLogger("unpooled.serve")


class JsonLines(logging.Formatter):
    """Writes records made by `event` and, of those of libraries, who wrote them and how serious they are."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        line |= getattr(record, "fields", {"event": "message", "from": record.name})
        if record.exc_info and record.exc_info[1]:
            line |= where(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


def event(name: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Note an event; the fields must not tell who somebody is."""
    LOGGER.log(level, name, exc_info=error, extra={"fields": {"event": name, **fields}})


def where(error: BaseException) -> dict[str, Any]:
    """The class of an error and the calls that led to it, without its text."""
    calls = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__name__,
        "calls": [f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls],
    }


def write_to(stream: TextIO) -> None:
    """Write the log to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
