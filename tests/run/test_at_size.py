"""Every kind of job once with 10,000 people, a process for each party, over TLS, from files to reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.data import example
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.examples.example_tables import CUSTOMERS, PATIENTS
from unpooled.jobs.kinds import KINDS, outline_of
from unpooled.jobs.train.kind import TARGET
from unpooled.ledger import read_ledger, reconcile_all
from unpooled.report.page import write_report
from unpooled.run import folder as run_folder
from unpooled.run.spawn import spawn

ROWS = 10_000
WHEN_SLOW = ("Waiting", "Working")
NEEDS_COORDINATOR = ("information", "train", "lookalike", "complete")
TREES = {"trees": 2, "depth": 3}
SETTINGS: dict[str, dict[str, Any]] = {
    "check": {"round_trips": 2, "megabytes": 1},
    "align": {},
    "information": {},
    "train": {"model": TREES | {"classes": 0}},
    "predict": {},
    "lookalike": {"method": {"iterations": 1, "bags": 1}, "model": TREES, "estimate": False, "fraction": 0.05},
    "deliver": {"top": 1500},
    "complete": {"measure": "max", "threshold": 0.85, "model": TREES, "predict": {"folds": 2}},
}
EARLIER = {"predict": "train", "deliver": "lookalike"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("size")
    for tables in (CUSTOMERS, PATIENTS):
        tables.write(root / tables.active, ROWS, example.SEED)
    return root


def run(root: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Run the example's job of a kind; whatever the kind, ledgers agree in pairs and reports can be written.

    Where a coordinator is not needed there is none, to save a process.
    """
    job = example_job(kind, trained=root / EARLIER[kind] if kind in EARLIER else None)
    parties = {name: p for name, p in job.plan.parties.items() if name != "coordinator" or kind in NEEDS_COORDINATOR}
    plan = job.plan.model_copy(update={"parties": parties, "parameters": SETTINGS[kind], "timeout": 600.0})
    privates = {party: job.privates[party].at(root / plan.active) for party in parties}
    results = spawn(plan, privates, root / kind)
    ledgers = [read_ledger(root / kind / party / run_folder.LEDGER) for party in plan.parties]
    assert all(ledger.closed for ledger in ledgers)
    assert all(pair.differences == () for pair in reconcile_all(ledgers))
    sent = {(ledger.party, e.peer, e.kind) for ledger in ledgers for e in ledger.entries if e.way == "sent"}
    certain, possible = (
        {(e.sender, e.receiver, e.kind) for e in outline_of(plan) if with_conditions or not e.only_if}
        for with_conditions in (False, True)
    )
    assert certain <= {each for each in sent if each[2] not in WHEN_SLOW} <= possible
    assert write_report(root / kind).exists()
    return results


def test_every_kind_of_job(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SETTINGS.keys() == {kind.name for kind in KINDS}
    tables = {party: pl.read_csv(root / "bank" / f"{party}.csv", infer_schema=False) for party in example.TYPES}
    ids = {party: set(table["id"]) for party, table in tables.items()}
    common = ids["telco"] & ids["bank"]
    results = {}
    for kind in SETTINGS:
        if kind not in ("check", "align"):
            monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # worker processes take part in an alignment once
        results[kind] = run(root, kind)
    assert results["check"]["bank"]["rows"] == {"shop": len(ids["shop"]), "telco": len(ids["telco"])}
    aligned = pl.read_csv(root / "align" / "bank" / "aligned.csv", infer_schema=False)
    assert set(aligned["id"]) == common
    assert set(aligned.filter(pl.col("label") == "1")["id"]) == common & ids["shop"]
    assert results["align"]["bank"]["digest"] == results["align"]["telco"]["digest"]
    found = pl.read_csv(root / "information" / "bank" / "information.csv")
    assert found["iv"].is_sorted(descending=True)
    assert set(found["party"]) == {"bank", "telco"}
    assert results["train"]["bank"]["metrics"]["test"]["r2"] > 0, f"{TARGET} shows in the telco's columns"
    learned, scored = (
        pl.read_csv(root / kind / "bank" / "predictions.csv", infer_schema=False).sort("id")
        for kind in ("train", "predict")
    )
    assert set(learned["id"]) == common
    assert scored.equals(learned.drop("set"))
    listed = pl.read_csv(root / "lookalike" / "shop" / "reliable.csv", infer_schema=False)["id"]
    others = common - ids["shop"]
    assert len(listed) == results["lookalike"]["shop"]["listed"] == round(0.05 * len(others))
    assert set(listed) <= others
    longer = pl.read_csv(root / "deliver" / "shop" / "reliable.csv", infer_schema=False)["id"]
    assert longer[: len(listed)].equals(listed)
    assert len(longer) == results["deliver"]["shop"]["listed"] == 1500
    truth = pl.read_csv(root / "bank" / "truth.csv", infer_schema=False)
    right = set(truth.filter(pl.col(example.OUTCOME).is_in(["1", "true"]))["id"])
    assert len(set(listed) & right) / len(listed) > 2 * len(others & right) / len(others) > 0
    done = pl.read_parquet(root / "complete" / "clinic" / "completed.parquet")
    assert done.height == ROWS
    assert done.null_count().sum_horizontal()[0] == 0
    assert results["complete"]["clinic"]["cells"]["predicted"] > 0
