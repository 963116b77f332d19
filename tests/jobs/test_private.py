"""Private settings: what they refuse, that they stay private, and what fits a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from unpooled import control
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.checks import check_fits, check_policy
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Policy, Private
from unpooled.settings import faults

PLAN = Plan.model_validate(
    {
        "kind": "check",
        "parties": {"bank": {"role": "active"}, "telco": {"role": "passive"}, "helper": {"role": "coordinator"}},
    }
)
TABLE = {"path": "people.csv", "id": "id"}
SECRET = "hunter2"


def refusal(content: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Private.model_validate(content)
    return "\n".join(faults(caught.value))


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"sede": 1}, "sede"),
        ({"seed": "1"}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": -1}, "seed"),
        ({"certificates": 1}, "certificates"),
        ({"listen": "here"}, "listen"),
        ({"table": "people.csv"}, "table"),
        ({"table": {"path": "people.csv"}}, "table.id"),
        ({"table": {"id": "id"}}, "table"),
        ({"table": TABLE | {"separators": ";"}}, "table.separators"),
        ({"table": TABLE | {"columns": "age"}}, "table.columns"),
        ({"table": TABLE | {"columns": ["age", 3]}}, "table.columns.1"),
        (
            {"table": TABLE | {"types": {"age": "integer"}}},
            "table.types.age",
        ),
        ({"prepare": {"missing": "ignore"}}, "prepare.missing"),
        ({"prepare": {"scale": True}}, "prepare.scale"),
        (
            {"prepare": {"limits": {"age": [120, 0]}}},
            "prepare.limits.age",
        ),
        ({"policy": {"never_send": "RowCount"}}, "policy.never_send"),
        ({"policy": {"minimum_rows": 0}}, "policy.minimum_rows"),
        ({"policy": {"maximum_sent_megabytes": 0}}, "policy.maximum_sent_megabytes"),
        ({"policy": {"minimum_row": 5}}, "policy.minimum_row"),
        ({"policy": {"maximum_bits_per_row": -1}}, "policy.maximum_bits_per_row"),
        ({"policy": {"maximum_splits": -1}}, "policy.maximum_splits"),
        ({"policy": {"maximum_questions": -1}}, "policy.maximum_questions"),
        ({"policy": {"maximum_thresholds": 1.5}}, "policy.maximum_thresholds"),
        ({"target": 3}, "target"),
        ({"weight": ["w"]}, "weight"),
        ({"model": 3}, "model"),
    ],
)
def test_unknown_keys_and_wrong_types_are_refused_by_name(content: dict[str, Any], key: str) -> None:
    assert refusal(content).startswith(f"{key}: ")


def test_every_fault_has_its_line() -> None:
    said = refusal({"policy": 1, "seed": -1, "listen": "x"})
    assert [line.split(":")[0] for line in said.splitlines()] == ["listen", "seed", "policy"]


@pytest.mark.parametrize(
    "content",
    [
        {"seed": SECRET},
        {"listen": SECRET},
        {"table": SECRET},
        {"table": {"path": SECRET, "id": "id"}},
        {"table": TABLE | {"types": {"age": SECRET}}},
        {"table": TABLE | {"postgres": f"host=db password={SECRET}"}},
        {"table": {"postgres": f"postgresql://bank:{SECRET}@db/people", "table": "people", "id": "id"}},
        {"prepare": {"rare": SECRET}},
        {"policy": {"never_send": SECRET}},
        {"policy": {"minimum_rows": SECRET}},
        {"pasword": SECRET},
    ],
)
def test_a_value_in_a_wrong_place_is_never_repeated(content: dict[str, Any]) -> None:
    assert SECRET not in refusal(content)
    with pytest.raises(ValidationError) as caught:
        Private.model_validate(content)
    assert SECRET not in str(caught.value)


def test_relative_paths_are_taken_from_a_folder() -> None:
    content = {"certificates": "certs/bank", "model": "runs/train/bank", "table": TABLE}
    private = Private.model_validate(content).at(Path("/jobs"))
    assert private.certificates == Path("/jobs/certs/bank")
    assert private.model == Path("/jobs/runs/train/bank")
    assert private.table is not None
    assert private.table.path == Path("/jobs/people.csv")


def test_absolute_paths_and_absent_ones_stay() -> None:
    content = {"certificates": "/certs", "model": "/model", "table": TABLE | {"path": "/people.csv"}}
    private = Private.model_validate(content)
    assert private.at(Path("/jobs")) == private
    database = Private.model_validate({"table": {"postgres": "host=db", "table": "people", "id": "id"}})
    assert database.at(Path("/jobs")) == database
    assert Private().at(Path("/jobs")) == Private()


def test_what_does_not_fit_the_plan_is_refused() -> None:
    with_table = Private.model_validate({"table": TABLE})
    check_fits(PLAN, "bank", with_table)
    check_fits(PLAN, "bank", Private(), table_given=True)
    check_fits(PLAN, "helper", Private())
    with pytest.raises(PlanError, match=r"shop .*bank, telco, helper"):
        check_fits(PLAN, "shop", with_table)
    with pytest.raises(PlanError, match=r"helper .*coordinator"):
        check_fits(PLAN, "helper", with_table)
    with pytest.raises(PlanError, match=r"helper .*coordinator"):
        check_fits(PLAN, "helper", Private(), table_given=True)
    with pytest.raises(PlanError, match=r"telco .*table"):
        check_fits(PLAN, "telco", Private())


def test_what_is_to_be_learned_is_the_active_partys_business() -> None:
    bank, telco = (Private.model_validate({"table": TABLE} | more) for more in ({"target": "y"}, {}))
    train, predict = (PLAN.model_copy(update={"kind": kind}) for kind in ("train", "predict"))
    check_fits(train, "bank", bank)
    check_fits(train, "telco", telco)
    check_fits(train, "helper", Private())
    with pytest.raises(PlanError, match="bank: target: "):
        check_fits(train, "bank", telco)
    for more in ({"target": "y"}, {"weight": "w"}):
        for plan in (PLAN, train, predict):
            with pytest.raises(PlanError, match=rf"telco: {next(iter(more))}: "):
                check_fits(plan, "telco", Private.model_validate({"table": TABLE} | more))
    with pytest.raises(PlanError, match="bank: target and weight"):
        check_fits(train, "bank", Private.model_validate({"table": TABLE, "target": "y", "weight": "y"}))


def test_who_predicts_has_a_part_of_a_model() -> None:
    predict = PLAN.model_copy(update={"kind": "predict"})
    check_fits(predict, "helper", Private())
    for party in ("bank", "telco"):
        check_fits(predict, party, Private.model_validate({"table": TABLE, "model": "run"}))
        with pytest.raises(PlanError, match=f"{party}: model: "):
            check_fits(predict, party, Private.model_validate({"table": TABLE}))


OWN = [exchange for exchange in outline_of(PLAN) if exchange.kind not in control.KINDS]


@pytest.mark.parametrize("exchange", OWN, ids=lambda e: f"{e.sender}-{e.receiver}-{e.message.__name__}")
def test_a_policy_can_refuse_everything_that_a_job_says(exchange: Any) -> None:
    policy = Policy(never_send=(exchange.kind,))
    with pytest.raises(RefusedError, match=rf"{exchange.sender} .*{exchange.kind} .*policy\.never_send"):
        check_policy(PLAN, exchange.sender, policy)


@pytest.mark.parametrize("kind", ["RowCuont", "rowcount", "", "Goodbye", "Abort"])
def test_a_policy_about_no_kind_that_could_be_left_out_is_refused(kind: str) -> None:
    with pytest.raises(PlanError, match=rf"bank: policy\.never_send: '{kind}' "):
        check_policy(PLAN, "bank", Policy(never_send=(kind,)))


def test_a_policy_is_about_what_this_party_sends_itself() -> None:
    receives_only = Policy(never_send=("RowCount",))
    check_policy(PLAN, "bank", receives_only)
    check_policy(PLAN, "helper", receives_only)
    with pytest.raises(RefusedError, match=r"telco .*RowCount"):
        check_policy(PLAN, "telco", receives_only)
