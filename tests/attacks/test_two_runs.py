"""Two alignments tell owners whom a party has added, and a seeker or a coordinator nobody."""

from __future__ import annotations

import pytest

from unpooled.attacks.two_runs import ADDED, two_runs
from unpooled.jobs.plan import Party, Plan

PLAN = Plan(
    kind="lookalike",
    parties={
        "shop": Party(role="seeker"),
        "telco": Party(role="passive"),
        "bank": Party(role="active"),
        "helper": Party(role="coordinator"),
    },
)


@pytest.mark.parametrize(("holder", "names_all"), [("bank", {"telco"}), ("telco", {"bank"}), ("shop", {"bank"})])
def test_who_names_the_people_that_were_added(holder: str, names_all: set[str]) -> None:
    found = two_runs(PLAN, holder, "ecdh")
    assert found.added == ADDED
    assert set(found.named) == set(PLAN.parties) - {holder}
    assert {party for party, named in found.named.items() if named == ADDED} == names_all
    assert all(named in (0, ADDED) for named in found.named.values())
