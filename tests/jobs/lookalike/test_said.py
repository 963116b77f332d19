"""What a search for look-alikes says: it is foretold, agreed to, and nobody hears of the list but the seeker."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest
from outlines import check_outline
from typer.testing import CliRunner

from unpooled import control
from unpooled.cli import app
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.checks import check_fits, check_policy
from unpooled.jobs.complete.parameters import Parameters as CompleteParameters
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.learning.model_files import MODEL
from unpooled.jobs.lookalike.list_files import Lookalikes
from unpooled.jobs.lookalike.parameters import Parameters
from unpooled.jobs.private import Consent, Policy, Private
from unpooled.jobs.train.job import Parameters as TrainParameters
from unpooled.transport.memory import MemoryTransport
from unpooled.vertical import model_file
from unpooled.vertical.trees.model import Part
from unpooled.wire import Frame, disclosure_of, kind_of

PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
LINEAR = {"learner": "linear", "epochs": 2, "insecure_batch": True}
SMALL_KEY = {"psi": "blind-rsa", "key_bits": 1024, "insecure": True}
FINDS = {"estimate": False}
ONE_BAG = {"method": {"name": "bagging", "bags": 1}, "estimate": False, "top": 5}
DESCRIBED = {"describe": True}
FIVE = ("shop", "telco", "bank", "railway", "coordinator")


# What is said


CASES = [
    pytest.param({}, {}, id="shares"),
    pytest.param({"parties": FIVE} | FINDS, {}, id="shares, two that lend columns"),
    pytest.param({"parties": FIVE} | FINDS | DESCRIBED, {}, id="shares, all describe columns"),
    pytest.param(FINDS, {"hide_bags": False}, id="shares, open bags"),
    pytest.param(FINDS, {"hide_nodes": False}, id="shares, nodes shown"),
    pytest.param(FINDS, {"hide_bags": False, "hide_nodes": False}, id="shares, open bags, nodes shown"),
    pytest.param({"method": {"name": "two-step", "folds": 2}}, {"learner": "rf"}, id="shares, two steps, forest"),
    pytest.param(SMALL_KEY | FINDS, {}, id="shares, blind signatures"),
    pytest.param({"psi": "aided", "parties": FIVE} | FINDS, {}, id="shares, tags under a shared key"),
    pytest.param({"method": {"name": "naive", "folds": 2}}, LINEAR, id="shares, linear"),
    pytest.param({"parties": FIVE} | ONE_BAG, LINEAR, id="shares, linear, two that lend columns"),
    pytest.param({"parties": FIVE} | ONE_BAG, LINEAR | {"reveal": "final"}, id="shares, linear, weights in shares"),
    pytest.param({"parties": FIVE, "engine": "plain"} | ONE_BAG, LINEAR, id="plain, linear, two that lend columns"),
    pytest.param({"describe": ["telco"]} | ONE_BAG, LINEAR, id="shares, linear, one describes columns"),
    pytest.param(PAILLIER | ONE_BAG, {}, id="paillier"),
    pytest.param(PAILLIER | ONE_BAG | DESCRIBED, {}, id="paillier, all describe columns"),
    pytest.param({"engine": "plain"}, {}, id="plain"),
    pytest.param({"engine": "plain", "advice": True, "describe": True}, {}, id="plain, all that is told"),
]


@pytest.mark.parametrize(("settings", "model"), CASES)
def test_the_outline_is_what_is_said(seeking: Any, settings: dict[str, Any], model: dict[str, Any]) -> None:
    plan = seeking.plan(model=model, **settings)
    check_outline(outline_of(plan), seeking.run(plan).ledgers)


def test_everything_is_said_in_a_scope_of_its_step(seeking: Any) -> None:
    ledgers = seeking.run(seeking.plan()).ledgers
    scopes = {e.scope for record in ledgers.values() for e in record.entries if e.kind not in control.KINDS}
    assert {scope.split("/")[0] for scope in scopes} == {"align", "find", "deliver"}
    groups = {scope.split("/")[1] for scope in scopes if " bags" in scope}
    assert groups == {
        "estimates and iteration 1 of 2, trees of 7 bags",
        "iteration 2 of 2, trees of 2 bags",
    }
    sent = [
        (party, entry.peer, entry.scope)
        for party, record in ledgers.items()
        for entry in record.entries
        if entry.way == "sent" and entry.kind == kind_of(Lookalikes)
    ]
    assert sent == [("bank", "shop", "deliver")], "the list is one message to one party"


# Who hears of the list


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[bytes]]:
    """The frames that each party received."""
    heard: dict[str, list[bytes]] = {}
    send = MemoryTransport.send

    def noting(self: MemoryTransport, peer: str, frame: Frame, **how: Any) -> None:
        heard.setdefault(peer, []).append(frame.joined())
        send(self, peer, frame, **how)

    monkeypatch.setattr(MemoryTransport, "send", noting)
    return heard


@pytest.mark.parametrize("settings", [FINDS, SMALL_KEY | ONE_BAG, PAILLIER | ONE_BAG], ids=["ecdh", "rsa", "paillier"])
def test_nobody_but_the_seeker_hears_of_the_list(
    seeking: Any, heard: dict[str, list[bytes]], settings: dict[str, Any]
) -> None:
    seeking.run(seeking.plan(parties=FIVE, **settings))
    listed = [person.encode() for person in seeking.reliable()["id"]]
    assert all(any(person in frame for frame in heard["shop"]) for person in listed)
    for party in ("telco", "railway", "coordinator", "bank"):
        assert not any(b"person-" in frame or b"Lookalikes" in frame for frame in heard[party]), party
    for party in ("telco", "railway", "coordinator"):
        holding = {
            path.name
            for path in (seeking.root / "run" / party).rglob("*")
            if path.is_file() and b"person-" in path.read_bytes()
        }
        assert holding <= {"aligned.csv"}, "a party's own ids, all of those in common"


def test_what_others_receive_does_not_depend_on_how_long_the_list_is(seeking: Any) -> None:
    others, views = ("telco", "coordinator"), []
    for name, top in (("short", 1), ("long", 150)):
        ledgers = seeking.run(seeking.plan(**ONE_BAG | {"top": top}), name).ledgers
        received = {party: [e for e in ledgers[party].entries if e.way == "received"] for party in others}
        views.append({p: sorted((e.peer, e.kind, e.scope, e.bytes) for e in received[p]) for p in others})
        assert len(seeking.reliable(name)) == top
        assert not [p for p in others if "listed" in (seeking.root / name / p / "result.json").read_text()]
    assert views[0] == views[1]


# Nodes


@pytest.mark.parametrize("learner", [{}, *({"learner": name} for name in ("gbdt", "xgb", "lgb", "rf"))], ids=str)
def test_nodes_are_hidden_unless_the_plan_says_otherwise(learner: dict[str, Any]) -> None:
    assert Parameters.model_validate({"model": learner}).model.hide_nodes  # type: ignore[attr-defined]
    shown = Parameters.model_validate({"model": learner | {"hide_nodes": False}}).model
    assert not shown.hide_nodes  # type: ignore[attr-defined]
    assert type(shown).model_validate({}).depth == 6  # type: ignore[attr-defined]


def test_other_defaults_stay() -> None:
    small, linear = Parameters().model, Parameters.model_validate({"model": {"learner": "linear"}}).model
    assert (small.hide_nodes, small.depth) == (True, 3)  # type: ignore[attr-defined]
    assert linear == type(linear).model_validate({"l2": 0.01})
    assert not CompleteParameters().model.hide_nodes  # type: ignore[attr-defined]
    assert not TrainParameters().model.hide_nodes  # type: ignore[attr-defined]


def test_the_dry_run_says_what_shown_nodes_give_away(tmp_path: Path) -> None:
    run, job = CliRunner(), tmp_path / "job.toml"
    assert run.invoke(app, ["example", str(tmp_path), "--rows", "1000", "--kind", "lookalike", "-q"]).exit_code == 0
    words = ["run", str(job), "--dry-run", "--no-forecast"]
    plan = job.read_text()
    for model, said in (("", []), ("hide_nodes = false", ["Nodes are shown"]), ("depth = 7", ["Nodes are hidden"])):
        job.write_text(f"{plan}\n[parameters.model]\n{model}\n")
        choices = json.loads(run.invoke(app, [*words, "--json"]).stdout)["choices"]
        assert [line[: len(start)] for line, start in zip(choices, said, strict=True)] == said
        shown = run.invoke(app, words).output
        assert all(start in shown for start in said)


# What parties agree to


@pytest.mark.parametrize(("party", "key"), [("shop", "positives"), ("telco", "found"), ("bank", "found")])
def test_without_consent_nothing_starts(seeking: Any, party: str, key: str) -> None:
    other = {"positives": "found", "found": "positives"}[key]
    with pytest.raises(PlanError, match=rf"^{party}: consent\.{key}: "):
        seeking.run(seeking.plan(), **{party: {"consent": {other: True}}})
    assert not list(seeking.root.rglob("ledger.jsonl"))


def test_a_coordinator_has_nothing_to_agree_to(seeking: Any) -> None:
    check_fits(seeking.plan(), "coordinator", Private())
    check_fits(seeking.plan(), "shop", Private(consent=Consent(positives=True)), table_given=True)


def test_other_kinds_need_no_consent() -> None:
    plan = example_job("align").plan
    for party in ("shop", "telco", "bank"):
        check_fits(plan, party, Private(), table_given=True)


@pytest.mark.parametrize(
    ("party", "kind", "model", "refused"),
    [
        ("bank", "Lookalikes", {}, True),
        ("bank", "Bags", {}, False),
        ("bank", "Bags", {"hide_bags": False}, True),
        ("telco", "SplitSides", {}, False),
        ("telco", "SplitSides", {"learner": "rf"}, False),
        ("telco", "SplitSides", {"hide_nodes": False}, True),
        ("telco", "SplitSidesForAll", {}, True),
        ("telco", "CheckpointAt", {}, True),
        ("bank", "TakingPart", LINEAR, False),
        ("bank", "TakingPart", LINEAR | {"hide_bags": False}, True),
    ],
)
def test_policies_go_by_what_the_plan_needs(
    seeking: Any, party: str, kind: str, model: dict[str, Any], refused: bool
) -> None:
    plan, policy = seeking.plan(model=model), Policy(never_send=(kind,))
    if refused:
        with pytest.raises(RefusedError, match=f"{party} .*{kind}"):
            check_policy(plan, party, policy)
    else:
        check_policy(plan, party, policy)


def test_a_party_stops_at_the_questions_it_answers(seeking: Any) -> None:
    plan = seeking.plan(engine="plain")
    asked = seeking.run(plan).results["telco"]["questions"]
    seeking.run(plan, "enough", telco={"policy": {"maximum_questions": asked}})
    with pytest.raises(RefusedError, match=rf"telco .*\b{asked - 1} columns"):
        seeking.run(plan, "refused", telco={"policy": {"maximum_questions": asked - 1}})
    assert not list((seeking.root / "refused").rglob("reliable.csv"))


def test_a_party_reveals_as_few_thresholds_as_it_likes(seeking: Any) -> None:
    results = seeking.run(seeking.plan(), telco={"policy": {"maximum_thresholds": 2}}).results
    assert results["telco"]["thresholds"] <= results["telco"]["all_thresholds"] <= 2


def test_passive_parties_reveal_few_thresholds_by_default(seeking: Any) -> None:
    plan = seeking.plan(engine="plain", model={"trees": 3, "depth": 3})
    results = seeking.run(plan).results
    assert results["telco"]["all_thresholds"] <= 8 * results["telco"]["columns"]
    finer = seeking.run(seeking.plan(engine="plain", model={"trees": 3, "lent_bins": 32}), "finer").results["telco"]
    assert finer["all_thresholds"] > results["telco"]["all_thresholds"]


def test_all_thresholds_of_a_search_are_counted(seeking: Any) -> None:
    """Not just those of the models that are kept in the end."""
    method = {"name": "vfpu", "iterations": 3, "bags": 2}
    outcome = seeking.run(seeking.plan(engine="plain", method=method, model={"trees": 2, "depth": 2}))
    telco, part = outcome.results["telco"], model_file.load(seeking.root / "run" / "telco" / MODEL, Part)
    kept = {(feature, place) for feature, place, _ in part.splits}
    assert len(kept) < telco["thresholds"] <= telco["all_thresholds"]
    assert telco["all_thresholds"] == sum(len(feature.edges) for feature in part.binning.features)
    assert telco["table_bits"] == round(telco["common"] * sum(log2(f.size) for f in part.binning.layout.features))


# The command


def test_the_dry_run_shows_what_will_be_disclosed(tmp_path: Path) -> None:
    run = CliRunner()
    assert run.invoke(app, ["example", str(tmp_path), "--rows", "1000", "--kind", "lookalike", "-q"]).exit_code == 0
    job = str(tmp_path / "job.toml")
    shown = run.invoke(app, ["run", job, "--dry-run", "--no-forecast"])
    assert shown.exit_code == 0, shown.output
    exchanges = json.loads(run.invoke(app, ["run", job, "--dry-run", "--json", "--no-forecast"]).stdout)["exchanges"]
    (told,) = [one for one in exchanges if one["kind"] == "Lookalikes"]
    assert (told["sender"], told["receiver"]) == ("bank", "shop")
    assert told["discloses"] == disclosure_of(Lookalikes).what
    (tmp_path / "job.toml").write_text((tmp_path / "job.toml").read_text().replace("found = true", "found = false", 1))
    refused = run.invoke(app, ["run", job, "--dry-run", "--no-forecast"])
    assert refused.exit_code != 0
    assert "consent.found" in str(refused.exception) + refused.output


def test_the_list_does_not_depend_on_how_ids_are_compared(seeking: Any) -> None:
    """Owners sort their common rows by id, whatever the order that the alignment gave them."""
    lists = []
    for psi in ("ecdh", "aided"):
        seeking.run(seeking.plan(psi=psi, **ONE_BAG), psi)
        lists.append(seeking.reliable(psi).to_dicts())
    assert lists[0] == lists[1]
