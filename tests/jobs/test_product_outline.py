"""What a plan says of products reaches the engines."""

from __future__ import annotations

from typing import Any

import pytest

from unpooled.jobs.learning.common import rules_of
from unpooled.jobs.plan import Plan
from unpooled.secure.engine import Rules

PARTIES = {"bank": {"role": "active"}, "telco": {"role": "passive"}, "coordinator": {"role": "coordinator"}}


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({}, Rules("shares", 2048, False, True)),
        ({"engine": "paillier", "key_bits": 3072}, Rules("paillier", 3072, False, True)),
        ({"engine": "paillier", "key_bits": 512, "insecure": True}, Rules("paillier", 512, True, True)),
        ({"count_rows": False}, Rules("shares", 2048, False, False)),
    ],
)
def test_rules_are_the_plans(settings: dict[str, Any], rules: Rules) -> None:
    assert rules_of(Plan.model_validate({"kind": "check", "parties": PARTIES} | settings)) == rules


def test_a_learner_says_how_often_it_asks() -> None:
    plan = Plan.model_validate({"kind": "check", "parties": PARTIES})
    assert rules_of(plan).questions is None
    assert rules_of(plan, questions=4000).questions == 4000
