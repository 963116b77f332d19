"""An audit after a run: what honest parties put in agrees with what they open, and whatever deviates is found."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.jobs.files import write_toml
from unpooled.run import audit, audit_files
from unpooled.run.folder import PLAN, STATUS
from unpooled.secure.shares import blocks
from unpooled.vertical.trees.grower import active as grower
from unpooled.vertical.trees.grower import histogram
from unpooled.vertical.trees.grower.node_rows import no_families

TASKS = {"buys": 2, "group": 3, "amount": 0}
TWO = ("telco", "bank", "coordinator")
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}


def audited(run: Path, checker: str = "telco", opener: str = "bank", sample: int | None = None) -> audit.Verdict:
    """Ask, answer and check, by files as parties do."""
    request = audit.ask(run / checker, opener, sample)
    audit_files.write_request(run / "request.json", request)
    audit_files.write_answer(
        run / "answer.npz", audit.answer(run / opener, audit_files.read_request(run / "request.json"))
    )
    return audit.check(run / checker, request, audit_files.read_answer(run / "answer.npz"))


@pytest.mark.parametrize(
    ("learner", "target"),
    [("gbdt", "buys"), ("gbdt", "group"), ("xgb", "amount"), ("lgb", "group"), ("rf", "buys"), ("rf", "amount")],
)
def test_an_honest_run_agrees(learning: Any, learner: str, target: str) -> None:
    learning.run(learning.plan(model={"learner": learner, "classes": TASKS[target]}), target=target)
    for checker, opener in (("telco", "bank"), ("railway", "bank"), ("bank", "telco"), ("bank", "railway")):
        for sample in (None, 2):
            verdict = audited(learning.root / "run", checker, opener, sample)
            assert verdict.wrong == {}
            assert verdict.opened == (sample or verdict.of)


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({"hide_nodes": True}, "buys"),
        ({"hide_bags": False, "learner": "xgb"}, "buys"),
        ({"hide_bags": False, "learner": "rf", "classes": 3}, "group"),
        ({"hide_bags": False, "learner": "rf", "bootstrap": False}, "buys"),
        ({"min_rows": 1, "bundle": False}, "amount"),
        ({"patience": 1, "trees": 6, "balanced": True}, "buys"),
        ({"learner": "lgb", "row_fraction": 0.7, "column_fraction": 0.6, "learning_rate": 0.5}, "buys"),
        ({"count_rows": False}, "buys"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else value,
)
def test_options_do_not_change_that(learning: Any, settings: dict[str, Any], target: str) -> None:
    own = {key: settings.pop(key) for key in ["count_rows"] if key in settings}
    learning.run(learning.plan(parties=TWO, model={"classes": TASKS[target]} | settings, **own), target=target)
    assert audited(learning.root / "run").wrong == {}
    assert audited(learning.root / "run", "bank", "telco").wrong == {}


@pytest.mark.parametrize("block", [64, 4096])
def test_neither_do_blocks_and_portions_of_large_products(
    learning: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "block_bytes", block)
    ledgers = learning.run(learning.plan(parties=TWO, model={"trees": 2, "depth": 2})).ledgers
    kinds = Counter(entry.kind for entry in ledgers["telco"].entries if entry.way == "sent")
    assert kinds["Orders"] > kinds["Contribution"]
    assert audited(learning.root / "run").wrong == {}
    verdict = audited(learning.root / "run", "bank", "telco")
    assert verdict.wrong == {}
    assert verdict.opened > 2


@pytest.mark.parametrize(
    "settings", [{}, {"hide_nodes": True}, {"learner": "rf", "bootstrap": False, "hide_bags": False}], ids=str
)
def test_what_was_encrypted_can_be_opened_too(learning: Any, settings: dict[str, Any]) -> None:
    learning.run(learning.plan(parties=TWO, model={"trees": 2, "depth": 2} | settings, **PAILLIER))
    for sample in (None, 1):
        assert audited(learning.root / "run", sample=sample).wrong == {}


@pytest.mark.parametrize("method", [{}, {"name": "two-step", "folds": 2}])
def test_so_does_a_search(seeking: Any, method: dict[str, Any]) -> None:
    seeking.run(seeking.plan(method=method, describe=True))
    for sample in (None, 3):
        assert audited(seeking.root / "run", sample=sample).wrong == {}
        assert audited(seeking.root / "run", "bank", "telco", sample).wrong == {}


@pytest.mark.parametrize(("party", "messages"), [("bank", 36), ("telco", 22)])
def test_so_does_a_search_that_was_interrupted(seeking: Any, search: Any, party: str, messages: int) -> None:
    plan = seeking.plan(model={"trees": 4})
    run = search(plan, seeking.tables(plan), seeking.root / "run")
    run.stop(party, messages)
    run.go()
    for home in (run.root / owner for owner in plan.owners):
        write_toml(home / PLAN, plan)
        (home / STATUS).write_text(json.dumps({"party": home.name}))
    for checker, opener in (("telco", "bank"), ("bank", "telco")):
        verdict = audited(run.root, checker, opener)
        lines = [json.loads(line) for line in (run.root / checker / "audit.jsonl").read_text().splitlines()]
        again = [line["fit"] for line in lines if "commitment" in line]
        assert len(again) > len(set(again))
        assert verdict.wrong == {}


def powers_of_two(team: Any, call: Any, *given: Any, part: bool) -> Any:
    """Sums of such gradients tell which rows are in a bin."""
    inputs = HONEST(team, call, *given, part=part)
    y = np.zeros_like(inputs.y)
    bits = min(call.bound, call.result_bound).bit_length() - 1  # more would not pass the party's own checks
    y[:bits, 0] = 2 ** np.arange(bits)
    return replace(inputs, y=y)


HONEST = histogram._inputs


@pytest.mark.parametrize("settings", [{}, {"count_rows": False}, {"hide_nodes": True}, PAILLIER], ids=str)
def test_powers_of_two_as_gradients_are_found(
    learning: Any, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    model = {"hide_nodes": settings.get("hide_nodes", False), "trees": 1, "depth": 1}
    monkeypatch.setattr(grower, "_split", lambda *_: (no_families(), np.empty(0, bool)))
    monkeypatch.setattr(grower, "open_splits", lambda *_: None)
    monkeypatch.setattr(histogram, "_inputs", powers_of_two)
    own = {key: value for key, value in settings.items() if key != "hide_nodes"}
    learning.run(learning.plan(parties=TWO, model=model, **own))
    verdict = audited(learning.root / "run", sample=1)
    (wrong,) = verdict.wrong.values()
    assert "gradients" in wrong
