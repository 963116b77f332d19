"""`docs/privacy.md` says of completing a table what its messages say: each role's table is what it receives."""

from __future__ import annotations

from typing import Any

import privacy_page
import pytest
from privacy_page import PAGE, Row, rows_of

from unpooled import control
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.plan import Plan
from unpooled.wire import disclosure_of

ROLES = {"clinic": "active", "registry": "passive", "insurer": "passive", "coordinator": "coordinator"}
TITLES = {
    "active": "Completing: what the active party receives",
    "passive": "Completing: what a passive party receives",
    "coordinator": "Completing: what the coordinator receives",
}
CASES: dict[str, dict[str, Any]] = {
    "with `mean` or `max`": {"measure": "mean"},
    "with `cramer`": {"measure": "cramer"},
    "with `associations = true`": {"associations": True},
    "with several passive parties": {"parties": tuple(ROLES)},
    "with `activations`": {"activations": {}},
    "only with `hide_bags = false`": {"model": {"hide_bags": False}},
}
"""Conditions of rows, and the plan that each means; without a condition is what the default settings send."""


def plan_of(parties: tuple[str, ...] = ("clinic", "registry", "coordinator"), **parameters: Any) -> Plan:
    roles = {party: {"role": ROLES[party]} for party in parties}
    return Plan.model_validate({"kind": "complete", "parties": roles, "parameters": parameters})


def received(role: str, **settings: Any) -> set[Row]:
    return privacy_page.received(role, outline_of(plan_of(**settings)), ROLES)


@pytest.mark.parametrize("role", TITLES)
def test_a_roles_table_is_what_it_receives(role: str) -> None:
    table = {row: set(condition.split("; ")) for row, condition in rows_of(TITLES[role]).items()}  # one is enough
    always = received(role)
    assert {row for row, conditions in table.items() if not conditions & set(CASES)} == always
    for condition, settings in CASES.items():
        more = received(role, **settings) - always
        assert {row for row, conditions in table.items() if condition in conditions} == more, condition


@pytest.mark.parametrize("role", TITLES)
def test_columns_and_lists_say_no_more_than_the_default(role: str) -> None:
    for settings in ({"columns": ["lab"]}, {"measure": "list"}):
        assert received(role, **settings) <= received(role)


@pytest.mark.parametrize("role", TITLES)
def test_what_comes_only_sometimes_is_marked(role: str) -> None:
    aligning = [e for e in outline_of(plan_of()) if e.message.__module__.startswith("unpooled.align.") and e.only_if]
    only_if = {e.message.__name__: e.only_if for e in aligning}
    assert only_if
    for (name, _, _), condition in rows_of(TITLES[role]).items():
        assert name not in only_if or only_if[name] in condition.split("; ")


def test_a_screening_by_gain_is_resumed_by_itself() -> None:
    agreed = [e for e in outline_of(plan_of()) if e.message.__name__ in ("CheckpointAt", "ResumeFrom")]
    assert len(agreed) == 2 * 2
    assert len([e for e in outline_of(plan_of(measure="max")) if e.message.__name__ == "ResumeFrom"]) == 1
    page = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    assert "`CheckpointAt` and `ResumeFrom` are sent for each" in page


def test_the_page_has_every_consent() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### What each party agrees to\n")[1].split("\n###")[0]
    asked = {agreement.key for of_role in kind_named("complete").consents.values() for agreement in of_role}
    assert asked == {"activations", "aided", "rows", "values"}
    assert all(f"`consent.{key}`" in section for key in asked)


def test_what_begins_and_ends_every_job_is_named() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    exchanges = [e for e in outline_of(plan_of()) if e.kind in control.KINDS]
    assert {e.message.__name__ for e in exchanges} == {"PlanOffer", "Goodbye"}
    assert f"`PlanOffer`: {disclosure_of(exchanges[0].message).what}" in page
