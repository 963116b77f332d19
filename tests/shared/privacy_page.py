"""The tables of `docs/privacy.md` that say what a role receives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from unpooled import control
from unpooled.secure.outline import Exchange

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"

Row = tuple[str, str, str]
"""Message, sender's role and disclosure."""


def rows_of(title: str) -> dict[Row, str]:
    """The rows of the section with this title, each with its condition."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {title}\n")[1].split("\n##")[0]
    found = {}
    for line in section.splitlines():
        if row := re.fullmatch(r"\| `(\w+)`(?: \((.*?)\))? \| ([\w, ]+) \| (.*) \|", line):
            name, condition, senders, what = row.groups()
            found |= {(name, sender, what): condition or "" for sender in senders.split(", ")}
    return found


def received(role: str, exchanges: Iterable[Exchange], roles: Mapping[str, str]) -> set[Row]:
    """What a role receives by an outline, besides what begins and ends every job."""
    return {
        (e.message.__name__, roles[e.sender], e.disclosure.what)
        for e in exchanges
        if roles[e.receiver] == role and e.kind not in control.KINDS
    }
