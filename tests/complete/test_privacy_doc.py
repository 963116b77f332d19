"""`docs/privacy.md` says of completing a table what its messages say: each role's table is what it receives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from unpooled.align.rows import Places
from unpooled.complete.outline import completing_outline
from unpooled.secure.engine import Rules
from unpooled.secure.outline import Setup
from unpooled.vertical.trees.parameters import GbdtParameters

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
ROLES = {"clinic": "active", "registry": "passive", "insurer": "passive", "coordinator": "coordinator"}
TITLES = {
    "active": "Completing: what the active party receives",
    "passive": "Completing: what a passive party receives",
    "coordinator": "Completing: what the coordinator receives",
}
CASES: dict[str, dict[str, Any]] = {
    "": {},
    "with `mean` or `max`": {"measure": "mean"},
    "with `cramer`": {"measure": "cramer"},
    "with several passive parties": {"passive": ("registry", "insurer")},
    "with an audit": {"audit": True},
    "only with `hide_bags = false`": {"hide_bags": False},
}
"""Conditions of rows, and what they mean; the first case has the default settings, and no association is asked for."""

Row = tuple[str, str, str]


def received(
    role: str, passive: tuple[str, ...] = ("registry",), measure: Any = None, *, audit: bool = False, **model: Any
) -> set[Row]:
    """Message, sender's role and disclosure of what a role receives."""
    setup = Setup(("clinic", *passive), "clinic", "coordinator", Rules("shares"), audit)
    places = Places("clinic", passive, None, "coordinator")
    exchanges = completing_outline(places, "ecdh", setup, GbdtParameters(**model), measure, waiting=("coordinator",))
    return {
        (one.message.__name__, ROLES[one.sender], one.disclosure.what)
        for one in exchanges
        if ROLES[one.receiver] == role
    }


def rows(role: str) -> dict[Row, str]:
    """A role's table: message, sender's role and disclosure, with the condition of the row."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {TITLES[role]}\n")[1].split("\n##")[0]
    found = {}
    for line in section.splitlines():
        if row := re.fullmatch(r"\| `(\w+)`(?: \((.*?)\))? \| ([\w, ]+) \| (.*) \|", line):
            name, condition, senders, what = row.groups()
            found |= {(name, sender, what): condition or "" for sender in senders.split(", ")}
    return found


@pytest.mark.parametrize("role", TITLES)
def test_a_roles_table_is_what_it_receives(role: str) -> None:
    table, always = rows(role), received(role)
    known = set(CASES) - {""}
    assert {row for row, condition in table.items() if not condition_of(condition) & known} == always
    for condition, settings in CASES.items():
        if condition:
            assert {row for row, of_row in table.items() if condition in condition_of(of_row)} == (
                received(role, **settings) - always
            ), condition


def condition_of(text: str) -> set[str]:
    """The conditions of a row, of which one is enough."""
    return set(text.split("; "))
