"""What completing a table says: it is foretold, agreed to, and kept to what policies allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from outlines import check_outline
from typer.testing import CliRunner

from unpooled import control
from unpooled.cli import app
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.checks import check_fits, check_policy
from unpooled.jobs.kinds import kind_named, outline_of, parameters_of
from unpooled.jobs.private import Policy, Private
from unpooled.jobs.work import CheckedJob

FOUR = ("clinic", "registry", "insurer", "coordinator")
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
ONE = {"columns": ["lab"]}
FEW = ("id", "lab", "smoker")
"""Columns of so few classes that counts are shown of 130 rows."""

CASES = [
    pytest.param({}, {}, id="gain"),
    pytest.param({"measure": "mean", "threshold": 0.3}, {}, id="mean"),
    pytest.param({"measure": "max", "parties": FOUR}, {}, id="max, two passive parties"),
    pytest.param({"measure": "cramer", "threshold": 0.5}, {}, id="cramer"),
    pytest.param({"measure": "gain", "associations": True, "parties": FOUR, "engine": "plain"}, {}, id="gain, plain"),
    pytest.param(ONE, {}, id="columns"),
    pytest.param(ONE | {"associations": True}, {"hide_nodes": True}, id="columns, hidden nodes"),
    pytest.param(ONE, {"learner": "rf", "hide_bags": False}, id="columns, forest, open bags"),
    pytest.param(ONE | {"parties": FOUR}, {"learner": "linear"}, id="columns, linear, two passive parties"),
    pytest.param(ONE | {"psi": "blind-rsa", "key_bits": 1024, "insecure": True}, {}, id="columns, blind-rsa"),
    pytest.param(ONE | {"psi": "aided", "parties": FOUR}, {"learner": "linear"}, id="columns, tags under a shared key"),
    pytest.param({"measure": "max", "threshold": 0.2} | PAILLIER, {}, id="max, paillier"),
    pytest.param({"measure": "cramer", "threshold": 0.2, "parties": FOUR} | PAILLIER, {}, id="cramer, paillier"),
]


@pytest.mark.parametrize(("settings", "model"), CASES)
def test_the_outline_is_what_is_said(completing: Any, settings: dict[str, Any], model: dict[str, Any]) -> None:
    plan = completing.plan(model=model, **settings)
    frames = {} if "columns" in settings else {"clinic": completing.frames["clinic"].select(FEW)}
    check_outline(outline_of(plan), completing.run(plan, frames=frames).ledgers)


def test_everything_is_said_in_a_scope_of_its_step(completing: Any) -> None:
    plan = completing.plan(columns=["lab"], associations=True)
    ledgers = completing.run(plan).ledgers
    scopes = {e.scope for record in ledgers.values() for e in record.entries if e.kind not in control.KINDS}
    assert {scope.split("/")[0] for scope in scopes} == {"align", "screen", "predict"}
    asked = {e.scope.split("/")[0] for e in ledgers["registry"].entries if e.kind == "AssociationsNeeded"}
    assert asked == {"screen"}


def test_no_evidence_is_kept_even_if_the_plan_asks_for_it(completing: Any) -> None:
    """Which learner a fit had follows from the clinic's columns, which are not opened."""
    plan = completing.plan(columns=["lab"], audit=True)
    ledgers = completing.run(plan).ledgers
    assert "Commitment" not in {e.kind for e in outline_of(plan)}
    assert "Commitment" not in {e.kind for record in ledgers.values() for e in record.entries}
    assert not list(completing.root.rglob("audit*"))


# What parties agree to


@pytest.mark.parametrize(("party", "key"), [("clinic", "rows"), ("registry", "values"), ("insurer", "values")])
def test_without_consent_nothing_starts(completing: Any, party: str, key: str) -> None:
    other = {"rows": "values", "values": "rows"}[key]
    with pytest.raises(PlanError, match=rf"^{party}: consent\.{key}: .*{party}") as refused:
        completing.run(completing.plan(FOUR), **{party: {"consent": {other: True}}})
    if key == "values":
        assert "clinic gets values about people" in str(refused.value)
        assert "how many there are" in str(refused.value)
    else:
        assert "it is shown to registry, insurer which of their rows clinic has too" in str(refused.value)
    assert not list(completing.root.rglob("ledger.jsonl"))


def test_a_coordinator_has_nothing_to_agree_to(completing: Any) -> None:
    check_fits(completing.plan(), "coordinator", Private())


# Policies


@pytest.mark.parametrize(
    ("party", "kind", "settings", "refused"),
    [
        ("registry", "OtherRows", {}, True),
        ("registry", "SplitSides", {}, True),
        ("registry", "SplitSides", {"model": {"hide_nodes": True}}, False),
        ("registry", "RankNorms", {}, False),
        ("registry", "RankNorms", {"measure": "max"}, True),
        ("registry", "RankNorms", {"columns": ["lab"], "associations": True}, True),
        ("registry", "BinCounts", {"measure": "cramer"}, True),
        ("clinic", "Bags", {}, False),
        ("clinic", "Bags", {"model": {"hide_bags": False}}, True),
        ("clinic", "AssociationsNeeded", {"measure": "list"}, False),
    ],
)
def test_policies_go_by_what_the_plan_needs(
    completing: Any, party: str, kind: str, settings: dict[str, Any], refused: bool
) -> None:
    plan, policy = completing.plan(**settings), Policy(never_send=(kind,))
    if refused:
        with pytest.raises(RefusedError, match=f"{party} .*{kind}"):
            check_policy(plan, party, policy)
    else:
        check_policy(plan, party, policy)


def test_too_few_in_common_end_the_job(completing: Any) -> None:
    plan = completing.plan(columns=["lab"], engine="plain")
    with pytest.raises(RefusedError, match=r"registry.*minimum_overlap|minimum_overlap.*registry|131"):
        completing.run(plan, registry={"policy": {"minimum_overlap": 131}})
    assert not list(completing.root.rglob("completed.*"))


def test_a_party_stops_at_what_it_answers(completing: Any) -> None:
    plan = completing.plan(columns=["lab", "seen"], engine="plain")
    found = completing.run(plan).results["registry"]
    rows, limits = 160, {"questions": "maximum_questions", "bits": "maximum_bits_per_row", "splits": "maximum_splits"}
    for number, (counted, limit) in enumerate(limits.items()):
        most = found[counted] / rows if counted == "bits" else found[counted]
        completing.run(plan, f"enough-{number}", registry={"policy": {limit: most}})
        less = most - 1 / rows if counted == "bits" else most - 1
        with pytest.raises(RefusedError, match=r"registry .*(columns|bits|splits)"):
            completing.run(plan, f"refused-{number}", registry={"policy": {limit: less}})
        assert not list((completing.root / f"refused-{number}").rglob("completed.*"))


def test_associations_count_against_limits_of_their_own(completing: Any) -> None:
    """Six columns are asked about, whatever the models ask later."""
    plan = completing.plan(columns=["lab"], associations=True, engine="plain")
    with pytest.raises(RefusedError, match=r"registry answers at most 5 columns"):
        completing.run(plan, registry={"policy": {"maximum_questions": 5}})
    with pytest.raises(RefusedError, match=r"registry answers at most 130 bits about the same 130 rows"):
        completing.run(plan, "bits", registry={"policy": {"maximum_bits_per_row": 1}})
    found = completing.run(plan, "all").results["registry"]
    assert found["bits"] <= found["most_bits"]


def test_a_party_reveals_as_few_thresholds_as_it_likes(completing: Any) -> None:
    plan = completing.plan(columns=["lab"], model={"trees": 6, "depth": 2}, engine="plain")
    policies: list[dict[str, Any]] = [{}, {"registry": {"policy": {"maximum_thresholds": 3}}}]
    many, few = (completing.run(plan, str(number), **policy) for number, policy in enumerate(policies))
    assert few.results["registry"]["bits"] < many.results["registry"]["bits"]
    lab = [outcome.tables["clinic"]["completed"]["lab"] for outcome in (many, few)]
    assert not lab[0].equals(lab[1])


# Before the start


def test_what_a_party_could_tell_is_known_before(completing: Any) -> None:
    """Associations, the screening and the prediction are counted apart, and so is what a policy allows."""
    table = completing.tables(completing.plan())["registry"]

    def most(policy: dict[str, Any], **settings: Any) -> int:
        plan = completing.plan(**settings)
        private = Private.model_validate({"policy": policy})
        answers = kind_named("complete").answers(CheckedJob(plan, parameters_of(plan), "registry", private, table))
        assert answers is not None
        assert (answers.active, answers.rows) == ("clinic", 160)
        return answers.bits

    low = {"maximum_bits_per_row": 1}
    assert most(low, columns=["lab"]) == 160
    assert most(low) == 2 * 160, "a screening by gain too"
    assert most(low, associations=True) == 3 * 160
    some = {"most_columns": 6, "columns": ["lab"]}
    plan = completing.plan(**some, associations=True)
    assert completing.run(plan).results["registry"]["bits"] <= most({}, **some, associations=True)
    assert most({}, **some) < most({}, **some, associations=True)


def test_a_coordinator_and_the_clinic_tell_nothing_of_rows(completing: Any) -> None:
    plan = completing.plan()
    for party in ("clinic", "coordinator"):
        table = completing.tables(plan).get(party)
        assert kind_named("complete").answers(CheckedJob(plan, parameters_of(plan), party, Private(), table)) is None


def test_the_dry_run_shows_what_will_be_disclosed(completing: Any, tmp_path: Path) -> None:
    for party in ("clinic", "registry"):
        completing.frames[party].write_csv(tmp_path / f"{party}.csv")
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    run = CliRunner()
    shown = run.invoke(app, ["run", str(job), "--dry-run", "--no-forecast"])
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert "in common: 130 rows" in text
    assert "clinic could learn all of these" in text
    found = json.loads(run.invoke(app, ["run", str(job), "--dry-run", "--json", "--no-forecast"]).stdout)
    (told,) = [one for one in found["exchanges"] if one["kind"] == "OtherRows"]
    assert (told["sender"], told["receiver"]) == ("registry", "clinic")
    assert set(found["answers"]) == {"registry"}
    for key, party in (("values", "registry"), ("rows", "clinic")):
        job.write_text(JOB.replace(f"consent.{key} = true", f"consent.{key} = false"))
        refused = run.invoke(app, ["run", str(job), "--dry-run", "--no-forecast"])
        assert refused.exit_code != 0
        assert f"{party}: consent.{key}" in " ".join((str(refused.exception) + refused.output).split())


JOB = """
kind = "complete"
[parties]
clinic = {role = "active"}
registry = {role = "passive"}
coordinator = {role = "coordinator"}
[parameters]
columns = ["lab"]
[private.clinic]
consent.rows = true
table = {path = "clinic.csv", id = "id"}
[private.registry]
consent.values = true
table = {path = "registry.csv", id = "id"}
[private.coordinator]
"""
