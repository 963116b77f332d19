"""`docs/privacy.md` says of a search for look-alikes what its messages say: each role's table is what it receives."""

from __future__ import annotations

from typing import Any

import privacy_page
import pytest
from privacy_page import PAGE, Row

from unpooled import control
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.outline import Exchange

TITLES = {
    "seeker": "What the seeker receives",
    "passive": "What a passive party receives",
    "active": "What the active party receives",
    "coordinator": "What the coordinator receives",
}
OPEN_BAGS = "only with `hide_bags = false`"
NODES_SHOWN = "only with `hide_nodes = false`"
BOTH_SHOWN = "only with both `false`, or nodes shown and `explain`"
OPEN_OR_EXPLAINED = "only with `hide_bags = false` or `explain`"
TOLD: dict[str, tuple[Any, str]] = {
    "advice": (True, "only with `advice = true`"),
    "describe": (True, "only with `describe = true`"),
    "weights": ("telco", "only if `weights` names it"),
    "explain": (3, "only with `explain`"),
}


def outline(told: str | None = None, **model: Any) -> list[Exchange]:
    plan = example_job("lookalike").plan
    more = {told: TOLD[told][0]} if told else {}
    return outline_of(plan.model_copy(update={"parameters": {"model": model} | more}))


def received(role: str, exchanges: list[Exchange]) -> set[Row]:
    roles = {name: party.role for name, party in example_job("lookalike").plan.parties.items()}
    return privacy_page.received(role, exchanges, roles)


def rows(role: str) -> dict[Row, str]:
    return privacy_page.rows_of(TITLES[role])


@pytest.mark.parametrize("role", TITLES)
def test_a_roles_table_is_what_it_receives(role: str) -> None:
    sometimes = {OPEN_BAGS, OPEN_OR_EXPLAINED, NODES_SHOWN, BOTH_SHOWN, *(condition for _, condition in TOLD.values())}
    always = {row for row, condition in rows(role).items() if condition not in sometimes}
    either = {row for row, condition in rows(role).items() if condition == OPEN_OR_EXPLAINED}
    assert always == received(role, outline())
    told = {name: received(role, outline(name)) - always for name in TOLD}
    for name, (_, condition) in TOLD.items():
        also = either if name == "explain" else set()
        assert told[name] == {row for row, of_row in rows(role).items() if of_row == condition} | also
    bags = received(role, outline(hide_bags=False)) - always
    nodes = received(role, outline(hide_nodes=False)) - always
    both = received(role, outline(hide_bags=False, hide_nodes=False)) - always - bags - nodes
    assert both | nodes | told["explain"] >= received(role, outline("explain", hide_nodes=False)) - always
    for condition, shown in ((OPEN_BAGS, bags - either), (NODES_SHOWN, nodes), (BOTH_SHOWN, both)):
        assert shown == {row for row, of_row in rows(role).items() if of_row == condition}
    assert set(rows(role)) == always.union(bags, nodes, both, *told.values())


@pytest.mark.parametrize("role", TITLES)
def test_what_comes_only_sometimes_is_marked(role: str) -> None:
    aligning = [e for e in outline() if e.message.__module__.startswith("unpooled.align.")]
    only_if = {e.message.__name__: e.only_if for e in aligning if e.only_if}
    assert only_if
    for (name, _, _), condition in rows(role).items():
        if name in only_if:
            assert condition == only_if[name]


def test_bags_are_shown_to_passive_parties_only_if_the_plan_says_so() -> None:
    (bags,) = [condition for (name, _, _), condition in rows("passive").items() if name == "Bags"]
    assert bags == OPEN_BAGS


def test_what_begins_and_ends_every_job_is_named() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    for exchange in outline():
        if exchange.kind == "PlanOffer":
            assert f"`PlanOffer`: {exchange.disclosure.what}" in page
    assert {e.message.__name__ for e in outline() if e.kind in control.KINDS} == {"PlanOffer", "Goodbye"}
