"""`docs/privacy.md` says of linear models what their messages say: each role's table is what it receives."""

from __future__ import annotations

from typing import Any

import privacy_page
import pytest
from privacy_page import Row, rows_of

from unpooled.jobs.kinds import outline_of
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan

ROLES = {"bank": "active", "telco": "passive", "railway": "passive", "coordinator": "coordinator", "shop": "seeker"}
TITLES = {
    "active": "Linear models: what the active party receives",
    "passive": "Linear models: what a passive party receives",
    "coordinator": "Linear models: what the coordinator receives",
}
GRADIENTS = {"reveal": "gradients"}
CASES: dict[str, dict[str, Any]] = {
    "with several passive parties": {"parties": ("bank", "telco", "railway", "coordinator")},
    'with `reveal = "gradients"`': {"model": GRADIENTS},
    'with `engine = "paillier"`': {"model": GRADIENTS, "engine": "paillier"},
    "only with `hide_bags = false`": {"model": {"hide_bags": False}},
    "only with `show_weights = true`": {"model": {"show_weights": True}},
}
"""Conditions of rows, and the plan that each means; without a condition is what the default settings send."""


def learning(
    kind: str = "train", parties: tuple[str, ...] = ("bank", "telco", "coordinator"), **settings: Any
) -> list[Exchange]:
    """What is sent after the alignment."""
    engine = settings.pop("engine", "shares")
    parameters = {"model": {"learner": "linear"} | settings.pop("model", {})} | settings
    roles = {party: {"role": ROLES[party]} for party in parties}
    plan = Plan.model_validate({"kind": kind, "parties": roles, "parameters": parameters, "engine": engine})
    return [e for e in outline_of(plan) if not e.message.__module__.startswith("unpooled.align.")]


def received(role: str, **settings: Any) -> set[Row]:
    return privacy_page.received(role, learning(**settings), ROLES)


@pytest.mark.parametrize("role", TITLES)
def test_a_roles_table_is_what_it_receives(role: str) -> None:
    table = {row: set(condition.split("; ")) for row, condition in rows_of(TITLES[role]).items()}
    always = {row for row, conditions in table.items() if not conditions & set(CASES)}
    gone = {row for row, conditions in table.items() if "by default" in conditions}
    assert always == received(role)
    for condition, settings in CASES.items():
        assert {row for row, conditions in table.items() if condition in conditions} == received(
            role, **settings
        ) - always
    assert gone == always - received(role, model=GRADIENTS)


@pytest.mark.parametrize("role", TITLES)
@pytest.mark.parametrize(
    ("kind", "parties"),
    [("lookalike", ("shop", "bank", "telco", "coordinator")), ("complete", ("bank", "telco", "coordinator"))],
)
def test_other_jobs_say_no_more_of_linear_models(role: str, kind: str, parties: tuple[str, ...]) -> None:
    """What they send on top is their own, and in their own tables."""
    for model in ({}, GRADIENTS):
        exchanges = [e for e in learning(kind, parties, model=model) if ".vertical.linear" in e.message.__module__]
        of_kind = privacy_page.received(role, exchanges, ROLES)
        assert of_kind <= received(role, model=model)
        assert role == "coordinator" or of_kind
