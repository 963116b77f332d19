"""Runs to report on: a real one, made once, and small ones written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.data import example
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.files import write_toml
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Party, Plan, digest_of, fields_of
from unpooled.jobs.run_files import RESULT
from unpooled.ledger import Ledger, Way
from unpooled.run.folder import LEDGER, PLAN, STATUS
from unpooled.run.simulate import simulate_job
from unpooled.wire import Disclosure, disclosure_of, kind_of

SIZE = Disclosure("how many rows <b>this</b> party has", "the active party")
NOTHING = Disclosure("nothing: random bytes", "")

FINISHED = {"state": "finished", "started": "2026-03-01T09:00:00+00:00", "ended": "2026-03-01T10:02:03+00:00"}
RESULT_OF_LAB = {
    "table": {
        "rows_read": 1250,
        "duplicates_removed": 40,
        "rows_dropped": 10,
        "rows": 1200,
        "columns": [
            {"name": n, "kind": "number", "missing": 7, "impossible": 3, "constant": c, "left_out": o}
            for n, c, o in [('<script>alert("x")</script>', False, False), ("site", True, False), ("old", False, True)]
        ],
        "prepared_columns": 2,
    },
    "rows": {},
    "links": [{"peer": "clinic", "round_trip_ms": 0.25, "megabytes_per_second": 120.5}],
}
RESULT_OF_CLINIC: dict[str, Any] = {"table": None, "rows": {"lab": 1200}, "links": []}

WriteRun = Callable[..., Path]


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's check, with four real parties."""
    folder = tmp_path_factory.mktemp("real")
    example.write(folder / "tables", rows=1_000)
    job = example_job("check")
    plan = job.plan.model_copy(update={"parameters": {"round_trips": 3, "megabytes": 1}})
    privates = {name: private.at(folder / "tables") for name, private in job.privates.items()}
    simulate_job(plan, privates, folder=folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real model of the example's bank and telco: in `train` the run that made it, in `predict` one that used it."""
    folder = tmp_path_factory.mktemp("trained")
    example.write(folder, rows=1_000)
    job = example_job("align")
    parties = {name: party for name, party in job.plan.parties.items() if name != "shop"}
    privates = {name: job.privates[name].at(folder).model_copy(update={"seed": 3}) for name in parties}
    privates["bank"] = privates["bank"].model_copy(update={"target": "mortgage"})
    model = {"learner": "xgb", "trees": 6, "depth": 3}
    plan = Plan(kind="train", parameters={"model": model}, parties=parties)
    simulate_job(plan, privates, folder=folder / "train")
    for name in ("telco", "bank"):
        privates[name] = privates[name].model_copy(update={"model": folder / "train" / name})
    simulate_job(Plan(kind="predict", parties=parties), privates, folder=folder / "predict")
    return folder


@pytest.fixture(scope="session")
def trained_linear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a linear model."""
    folder = tmp_path_factory.mktemp("linear")
    example.write(folder, rows=2_000)
    job = example_job("align")
    parties = {name: party for name, party in job.plan.parties.items() if name != "shop"}
    privates = {name: job.privates[name].at(folder).model_copy(update={"seed": 3}) for name in parties}
    privates["bank"] = privates["bank"].model_copy(update={"target": "mortgage"})
    plan = Plan(kind="train", parameters={"model": {"learner": "linear", "epochs": 5}}, parties=parties)
    simulate_job(plan, privates, folder=folder / "train")
    for name in ("telco", "bank"):
        privates[name] = privates[name].model_copy(update={"model": folder / "train" / name})
    simulate_job(Plan(kind="predict", parties=parties), privates, folder=folder / "predict")
    return folder


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real search for look-alikes, quick rather than good, by a bank that also knows the truth."""
    folder = tmp_path_factory.mktemp("lookalike")
    example.write(folder, rows=1_000)
    truth, bank = (pl.read_csv(folder / name, infer_schema=False) for name in ("truth.csv", "bank.csv"))
    bank.join(truth, on="id", how="left", maintain_order="left").write_csv(folder / "bank.csv")
    job = example_job("lookalike")
    privates = {name: private.at(folder) for name, private in job.privates.items()}
    privates["bank"] = privates["bank"].model_copy(update={"target": "would_buy"})
    parameters = {"method": {"iterations": 2, "bags": 2}, "model": {"trees": 3, "depth": 2}}
    plan = job.plan.model_copy(update={"parameters": parameters})
    simulate_job(plan, privates, folder=folder / "run")
    return folder / "run"


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run of a lab (passive) and a clinic (active) between which three messages went; all ended well."""

    def write(
        statuses: Mapping[str, Any] | None = None, results: Mapping[str, Any] | None = None, closed: bool = True
    ) -> Path:
        run = tmp_path / "run"
        plan = Plan(kind="check", parties={"lab": Party(role="passive"), "clinic": Party(role="active")})
        digest = digest_of(fields_of(plan, parameters_of(plan)))
        for party, peer in (("lab", "clinic"), ("clinic", "lab")):
            home = run / party
            home.mkdir(parents=True)
            for folder in (run, home):
                write_toml(folder / PLAN, plan)
            status = {"party": party} | (statuses or {}).get(party, FINISHED)
            (home / STATUS).write_text(json.dumps(status))
            result = (results or {"lab": RESULT_OF_LAB, "clinic": RESULT_OF_CLINIC}).get(party)
            if result is not None:
                (home / RESULT).write_text(json.dumps(result))
            ledger = Ledger(home / LEDGER, party, digest)
            ways: tuple[Way, Way] = ("sent", "received")
            out, back = ways if party == "lab" else reversed(ways)
            ledger.record(out, peer, "RowCount", "sizes", 41, SIZE)
            ledger.record(out, peer, "Probe", "link", 1_000_072, NOTHING)
            ledger.record(back, peer, "Echo", "link", 43, NOTHING)
            ledger.close()
            if not closed:
                lines = ledger.path.read_text().splitlines(keepends=True)
                ledger.path.write_text("".join(lines[:-1]))
        return run

    return write


@pytest.fixture
def write_job(tmp_path: Path) -> WriteRun:
    """Write a run whose parties ended well; passive ones have `sent` the active one so many of each message."""

    def write(
        kind: str,
        roles: Mapping[str, str],
        results: Mapping[str, Any],
        sent: Sequence[tuple[type, int]] = (),
        parameters: Mapping[str, Any] | None = None,
    ) -> Path:
        run = tmp_path / "run"
        parties = {name: {"role": role} for name, role in roles.items()}
        plan = Plan.model_validate({"kind": kind, "parties": parties, "parameters": parameters or {}})
        digest = digest_of(fields_of(plan, parameters_of(plan)))
        for name in roles:
            home = run / name
            home.mkdir(parents=True)
            for folder in (run, home):
                write_toml(folder / PLAN, plan)
            (home / STATUS).write_text(json.dumps({"party": name} | FINISHED))
            if name in results:
                (home / RESULT).write_text(json.dumps(results[name]))
            ledger = Ledger(home / LEDGER, name, digest)
            pairs: list[tuple[Way, str]] = [("sent", plan.active)] if roles[name] == "passive" else []
            if name == plan.active:
                pairs = [("received", passive) for passive in plan.with_role("passive")]
            for way, peer in pairs:
                for message, times in sent:
                    for _ in range(times):
                        ledger.record(way, peer, kind_of(message), "fit", 100, disclosure_of(message))
            ledger.close()
        return run

    return write
