"""A new table from the fields of a form: where it is, and the limits that are asked about first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from unpooled.data.sources import TableSettings
from unpooled.errors import InputError
from unpooled.jobs.private import Policy
from unpooled.serve.tables import TableEntry
from unpooled.settings import faults

SOURCES = {"file": ("path",), "table": ("postgres", "table"), "query": ("postgres", "query")}
"""Where a table may be, and the keys that say where exactly."""
_LISTS = ("id", "columns")
_OTHERS = ("id", "columns", "book")
_LIMITS = (
    "minimum_rows",
    "minimum_overlap",
    "minimum_peer_rows",
    "maximum_alignments",
    "minimum_change",
    "maximum_bits_per_row",
    "maximum_total_bits_per_row",
    "maximum_total_epsilon",
)


@dataclass(frozen=True)
class Limit:
    """A limit as a form shows it; an empty field stands for the default."""

    key: str
    name: str
    meaning: str
    usual: str


def limits() -> list[Limit]:
    """The limits of a policy that the form has; all others are in the text of all settings."""
    found = []
    for key in _LIMITS:
        field = Policy.model_fields[key]
        usual = "no limit" if field.default is None else f"{field.default:g}"
        found.append(Limit(key, key.replace("_", " ").capitalize(), field.description or "", usual))
    return found


def meaning_of(key: str) -> str:
    """What a key of [table] means."""
    return TableSettings.model_fields[key].description or ""


def entry_of(source: str, given: Mapping[str, str]) -> TableEntry:
    """A table's settings from what was typed in; InputError says what is wrong."""
    if source not in SOURCES:
        raise InputError("choose where the table is")
    typed = {key: text.strip() for key, text in given.items() if text.strip()}
    table: dict[str, Any] = {key: typed[key] for key in (*SOURCES[source], *_OTHERS) if key in typed}
    for key in _LISTS:
        if key in table:
            table[key] = tuple(name.strip() for name in table[key].split(",") if name.strip())
    policy = {key: _number(typed[key]) for key in _LIMITS if key in typed}
    try:
        return TableEntry.model_validate({"table": table, "policy": policy})
    except ValidationError as error:
        raise InputError("; ".join(faults(error))) from None


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text  # the settings say what is wrong with it
