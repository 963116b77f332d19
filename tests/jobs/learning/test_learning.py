"""What jobs with a learner refuse before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from unpooled.errors import PlanError
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.learning.common import check_prepared
from unpooled.jobs.private import Private
from unpooled.vertical.learners import learner_of
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.trees.parameters import GbdtParameters

KEEP = Private.model_validate({"prepare": {"missing": "keep"}})
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}


@pytest.mark.parametrize("kind", ["train", "lookalike"])
def test_weights_in_shares_need_the_engine_that_has_shares(kind: str, learning: Any, seeking: Any) -> None:
    model = {"learner": "linear"}
    made = learning.plan if kind == "train" else seeking.plan
    assert outline_of(made(model=model))
    with pytest.raises(PlanError, match=r"parameters\.model\.reveal: 'final', the default, needs engine = 'shares'"):
        outline_of(made(model=model, **PAILLIER))


def test_missing_values_are_refused_where_the_learner_cannot_use_them(learning: Any) -> None:
    plan = learning.plan()
    check_prepared(plan, GbdtParameters(), "telco", KEEP)
    check_prepared(plan, LinearParameters(), "telco", Private())
    check_prepared(plan, LinearParameters(), "coordinator", KEEP)
    with pytest.raises(PlanError, match=r"^telco: prepare\.missing: linear models cannot use missing values"):
        check_prepared(plan, LinearParameters(), "telco", KEEP)


def test_a_learner_is_found_by_its_parameters() -> None:
    assert [learner_of(each).name for each in (GbdtParameters(), LinearParameters())] == ["trees", "linear"]
