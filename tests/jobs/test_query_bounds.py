"""What a dry run says that a party answers at the most: never less than what it then allows."""

from __future__ import annotations

from typing import Any

import pytest

from unpooled.jobs.private import Private
from unpooled.jobs.query_bounds import answers_of

TWO = ("telco", "bank", "coordinator")


def telcos(learning: Any, **policy: Any) -> Private:
    path = learning.root / "telco.csv"
    learning.frames["telco"].write_csv(path)
    return Private.model_validate({"table": {"path": str(path), "id": "id"}, "policy": policy})


@pytest.mark.parametrize("model", [{}, {"hide_nodes": True}, {"hide_bags": False}, {"learner": "lgb"}])
def test_a_run_allows_no_more_bits_than_were_foretold(learning: Any, model: dict[str, Any]) -> None:
    plan = learning.plan(parties=TWO, model=model)
    foretold = answers_of(plan, "telco", telcos(learning))
    assert foretold is not None
    found = learning.run(plan).results["telco"]
    assert found["common"] <= foretold.rows
    assert found["bits"] <= found["most_bits"] <= foretold.bits
    assert str(foretold).startswith(
        f"bank could learn at most {foretold.bits:,} bits about these {foretold.rows:,} rows"
    )
    less = answers_of(plan, "telco", telcos(learning, maximum_bits_per_row=2.0))
    assert less is not None
    assert less.bits == 2 * foretold.rows


def test_others_have_nothing_to_answer(learning: Any) -> None:
    plan = learning.plan(parties=TWO)
    assert answers_of(plan, "bank", Private(target="buys")) is None
    linear = learning.plan(parties=TWO, model={"learner": "linear"})
    assert answers_of(linear, "telco", telcos(learning)) is None
    assert answers_of(plan, "coordinator", Private()) is None
