"""What a dry run says that a party answers at the most: never less than what it then allows."""

from __future__ import annotations

from typing import Any

import pytest

from unpooled.jobs.checks import checked
from unpooled.jobs.learning.query_bounds import Answers
from unpooled.jobs.private import Private
from unpooled.jobs.train.kind import TRAIN

TWO = ("telco", "bank", "coordinator")


def telcos(learning: Any, **policy: Any) -> Private:
    path = learning.root / "telco.csv"
    learning.frames["telco"].write_csv(path)
    return Private.model_validate({"table": {"path": str(path), "id": "id"}, "policy": policy})


@pytest.mark.parametrize("model", [{}, {"hide_nodes": True}, {"hide_bags": False}, {"learner": "lgb"}])
def test_a_run_allows_no_more_bits_than_were_foretold(learning: Any, model: dict[str, Any]) -> None:
    plan = learning.plan(parties=TWO, model=model)
    foretold = TRAIN.answers(checked(plan, "telco", telcos(learning)))
    assert foretold is not None
    found = learning.run(plan).results["telco"]
    assert found["common"] <= foretold.rows
    assert found["bits"] <= found["most_bits"] <= foretold.bits
    less = TRAIN.answers(checked(plan, "telco", telcos(learning, maximum_bits_per_row=2.0)))
    assert less is not None
    assert less.bits == 2 * foretold.rows


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (
            900,
            "bank could learn at most 900 bits about these 100 rows if it deviated, 9 for each; in bins the table has",
        ),
        (7_000, "if it deviated, bank could learn all of these 100 rows as they are in bins, 20 bits for each; policy"),
    ],
)
def test_nobody_can_learn_more_than_there_is(bits: int, said: str) -> None:
    assert str(Answers("bank", 100, bits, 2_000)).startswith(said)


def test_others_have_nothing_to_answer(learning: Any) -> None:
    plan = learning.plan(parties=TWO)
    bank = telcos(learning).model_copy(update={"target": "buys"})
    assert TRAIN.answers(checked(plan, "bank", bank)) is None
    linear = learning.plan(parties=TWO, model={"learner": "linear"})
    assert TRAIN.answers(checked(linear, "telco", telcos(learning))) is None
    assert TRAIN.answers(checked(plan, "coordinator", Private())) is None
