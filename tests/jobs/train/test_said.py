"""What a train job says: it is foretold, policies can forbid it, and it is the same between processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from unpooled import control
from unpooled.errors import RefusedError
from unpooled.jobs.checks import check_policy
from unpooled.jobs.files import load_plan, write_toml
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.private import Policy
from unpooled.ledger import Record, read_ledger, reconcile_all
from unpooled.vertical.model_file import load
from unpooled.vertical.trees.model import Part

TASKS = {"buys": 2, "group": 3, "amount": 0}
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
TWO = ("telco", "bank", "coordinator")


def said(ledgers: Mapping[str, Record]) -> set[tuple[str, str, str]]:
    return {(party, e.peer, e.kind) for party, record in ledgers.items() for e in record.entries if e.way == "sent"}


# What is said


CASES = [
    pytest.param({}, {}, id="shares"),
    pytest.param({"count_rows": False}, {}, id="shares without counts"),
    pytest.param({}, {"hide_nodes": True}, id="shares, hidden nodes"),
    pytest.param({}, {"hide_bags": False}, id="shares, open bags"),
    pytest.param({}, {"hide_bags": False, "hide_nodes": True}, id="shares, open bags, hidden nodes"),
    pytest.param({}, {"min_rows": 1}, id="shares, bins as they are"),
    pytest.param({}, {"learner": "rf", "trees": 4, "lockstep": 3}, id="shares, forest"),
    pytest.param({}, {"patience": 1, "trees": 4}, id="shares, patience"),
    pytest.param(PAILLIER, {"trees": 2}, id="paillier"),
    pytest.param(PAILLIER, {"trees": 2, "hide_nodes": True}, id="paillier, hidden nodes"),
    pytest.param({"engine": "plain"}, {}, id="plain"),
    pytest.param({"engine": "plain"}, {"hide_nodes": True}, id="plain, hidden nodes"),
    pytest.param({"engine": "plain"}, {"classes": 3, "lockstep": 2}, id="plain, three classes"),
]


@pytest.mark.parametrize(("settings", "model"), CASES)
def test_the_outline_is_what_is_said(learning: Any, settings: dict[str, Any], model: dict[str, Any]) -> None:
    plan = learning.plan(model=model, **settings)
    outcome = learning.run(plan, target="group" if model.get("classes") else "buys")
    exchanges = outline_of(plan)
    certain, possible = (
        {(e.sender, e.receiver, e.kind) for e in exchanges if with_conditions or not e.only_if}
        for with_conditions in (False, True)
    )
    assert certain <= said(outcome.ledgers) <= possible
    frames: dict[tuple[str, str, str], int] = {}
    for exchange in exchanges:
        if exchange.frames is not None:
            key = (exchange.sender, exchange.receiver, exchange.kind)
            frames[key] = frames.get(key, 0) + exchange.frames
    for (sender, receiver, kind), count in frames.items():
        sent = [e for e in outcome.ledgers[sender].entries if (e.way, e.peer, e.kind) == ("sent", receiver, kind)]
        assert len(sent) == count, (sender, receiver, kind)
    assert all(pair.differences == () for pair in reconcile_all(outcome.ledgers.values()))


def test_everything_is_said_in_a_scope_of_its_step(learning: Any) -> None:
    ledgers = learning.run(learning.plan(model={"hide_bags": False})).ledgers
    steps = {
        e.scope.split("/")[0] for record in ledgers.values() for e in record.entries if e.kind not in control.KINDS
    }
    assert steps == {"align", "fit", "score"}


# Policies


def test_a_party_stops_at_the_questions_it_answers(learning: Any) -> None:
    plan = learning.plan(parties=TWO)
    asked = learning.run(plan).results["telco"]["questions"]
    again = learning.run(plan, "enough", telco={"policy": {"maximum_questions": asked}}).results["telco"]
    assert again["questions"] == asked
    with pytest.raises(RefusedError, match=rf"telco .*\b{asked - 1} columns"):
        learning.run(plan, "refused", telco={"policy": {"maximum_questions": asked - 1}})
    assert not list((learning.root / "refused").rglob("model.json"))


@pytest.mark.parametrize("model", [{"hide_nodes": True}, {"hide_bags": False}])
def test_a_party_stops_at_the_bits_it_answers(learning: Any, model: dict[str, Any]) -> None:
    plan = learning.plan(parties=TWO, model=model)
    found = learning.run(plan).results["telco"]
    assert 0 < found["bits"] <= found["most_bits"]
    enough = found["bits"] / found["common"]
    learning.run(plan, "enough", telco={"policy": {"maximum_bits_per_row": enough}})
    most = int((enough - 0.5) * found["common"])
    with pytest.raises(RefusedError, match=rf"telco .*\b{most} bits"):
        learning.run(plan, "refused", telco={"policy": {"maximum_bits_per_row": enough - 0.5}})
    assert not list((learning.root / "refused").rglob("model.json"))


@pytest.mark.parametrize("hidden", [False, True])
def test_a_party_stops_at_the_splits_it_opens(learning: Any, hidden: bool) -> None:
    plan = learning.plan(parties=TWO, model={"hide_nodes": hidden})
    opened = learning.run(plan).results["telco"]["splits"]
    learning.run(plan, "enough", telco={"policy": {"maximum_splits": opened}})
    with pytest.raises(RefusedError, match=rf"telco .*\b{opened - 1} splits"):
        learning.run(plan, "refused", telco={"policy": {"maximum_splits": opened - 1}})


@pytest.mark.parametrize("most", [0, 4])
def test_a_party_reveals_as_few_thresholds_as_it_likes(learning: Any, most: int) -> None:
    plan = learning.plan(model={"trees": 5})
    results = learning.run(plan, telco={"policy": {"maximum_thresholds": most}}).results
    assert results["telco"]["thresholds"] <= most
    part = load(learning.root / "run" / "telco" / "model.json", Part)
    assert sum(len(feature.edges) for feature in part.binning.features) <= most
    assert results["railway"]["thresholds"] > 0


def test_what_a_party_never_sends_is_refused_before_the_start(learning: Any) -> None:
    plan = learning.plan()
    policy = {"policy": {"never_send": ["SplitSides"]}}
    with pytest.raises(RefusedError, match=r"telco .*SplitSides"):
        learning.run(plan, telco=policy)
    assert not (learning.root / "run" / "telco" / "ledger.jsonl").exists()
    learning.run(learning.plan(model={"hide_nodes": True}), "hidden", telco=policy)


@pytest.mark.parametrize(
    ("kind", "settings", "refused"),
    [
        ("Orders", {}, True),
        ("Orders", {"count_rows": False}, False),
        ("Orders", {"engine": "plain"}, False),
        ("LentColumns", {}, True),
        ("Merged", {"model": {"min_rows": 1}}, False),
        ("Sides", {}, False),
        ("Sides", {"model": {"hide_bags": False}}, True),
    ],
)
def test_policies_go_by_what_the_plan_needs(learning: Any, kind: str, settings: dict[str, Any], refused: bool) -> None:
    plan, policy = learning.plan(**settings), Policy(never_send=(kind,))
    if refused:
        with pytest.raises(RefusedError, match=f"telco .*{kind}"):
            check_policy(plan, "telco", policy)
    else:
        check_policy(plan, "telco", policy)


def test_a_small_overlap_ends_the_job_before_anything_is_learned(learning: Any) -> None:
    with pytest.raises(RefusedError, match=r"\b241 ids"):
        learning.run(learning.plan(), telco={"policy": {"minimum_overlap": 241}})
    assert not list(learning.root.rglob("aligned.csv"))
    sent = {e.kind for e in read_ledger(learning.root / "run" / "telco" / "ledger.jsonl").entries}
    assert not [kind for kind in sent if kind.startswith(("vertical.", "secure."))]


def test_a_plan_with_settings_of_a_learner_is_kept_as_it_is(learning: Any) -> None:
    plan = learning.plan(model={"learner": "lgb", "leaves": 5})
    write_toml(learning.root / "plan.toml", plan)
    assert "[parameters.model]\n" in (learning.root / "plan.toml").read_text()
    assert load_plan(learning.root / "plan.toml") == plan
