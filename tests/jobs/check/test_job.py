"""The job `check`: its counts against hand-counted ones, and its outline against what was really said."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from unpooled.data import example
from unpooled.data.prepare import load_preparation
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.checks import check_policy
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.files import Job
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.ledger import reconcile
from unpooled.run.conversation import guard_of
from unpooled.run.simulate import Outcome, simulate_job

QUICK = {"round_trips": 3, "megabytes": 1}

# 36 rows: 1 is there twice; 2 lacks its age, 3 its town, 4 and 5 are impossibly old.
ROWS = ["1,21,north,x,", "2,,south,x,", "3,23,,x,", "4,400,south,x,", "5,-1,north,x,", "1,21,north,x,"]
ROWS += [f"{n},{20 + n},north,x," for n in range(6, 36)]
BANK = "\n".join(["id,age,town,same,nothing", *ROWS]) + "\n"


def two_parties(folder: Path, **policy: Any) -> Job:
    (folder / "bank.csv").write_text(BANK)
    (folder / "telco.csv").write_text("id,minutes\n" + "".join(f"{n},{n * 2}\n" for n in range(40)))
    plan = {
        "kind": "check",
        "parameters": QUICK,
        "parties": {"bank": {"role": "active"}, "telco": {"role": "passive"}},
    }
    limits = {"limits": {"age": [0, 120]}, "impossible": "missing"}
    table = {"id": "id", "path": str(folder / "bank.csv")}
    privates = {
        "bank": {"table": table, "prepare": limits},
        "telco": {"table": table | {"path": str(folder / "telco.csv")}, "policy": policy},
    }
    return Job(Plan.model_validate(plan), {name: Private.model_validate(own) for name, own in privates.items()})


@pytest.fixture(scope="module")
def example_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Outcome[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("example")
    example.write(folder, example.SMALLEST)
    job = example_job("check")
    plan = job.plan.model_copy(update={"parameters": QUICK})
    privates = {name: private.at(folder) for name, private in job.privates.items()}
    return Job(plan, privates), simulate_job(plan, privates)


def test_counts_are_those_counted_by_hand(tmp_path: Path) -> None:
    job = two_parties(tmp_path)
    results = simulate_job(job.plan, job.privates).results
    assert results["bank"]["table"] == {
        "rows_read": 36,
        "duplicates_removed": 1,
        "rows_dropped": 0,
        "rows": 35,
        "columns": [
            {"name": name, "kind": kind, "missing": missing, "impossible": bad, "constant": same, "left_out": out}
            for name, kind, missing, bad, same, out in [
                ("age", "number", 3, 2, False, False),
                ("town", "category", 1, 0, False, False),
                ("same", "category", 0, 0, True, False),
                ("nothing", "number", 35, 0, False, True),
            ]
        ],
        "prepared_columns": 4,  # age, town=north, town=south, same=x
    }
    assert results["telco"]["table"]["rows"] == 40


def test_rows_with_gaps_are_counted_when_dropped(tmp_path: Path) -> None:
    job = two_parties(tmp_path)
    table = {"path": str(tmp_path / "bank.csv"), "id": "id", "columns": ["age", "town"]}
    prepare = {"missing": "drop", "limits": {"age": [0, 120]}, "impossible": "missing"}
    bank = Private.model_validate({"table": table, "prepare": prepare})
    counted = simulate_job(job.plan, {**job.privates, "bank": bank}).results["bank"]["table"]
    assert (counted["rows_read"], counted["rows_dropped"], counted["rows"]) == (36, 4, 31)


def test_only_the_active_party_learns_how_many_rows_others_have(example_run: tuple[Job, Outcome[Any]]) -> None:
    results = example_run[1].results
    lenders = {party: results[party]["table"]["rows"] for party in ("shop", "telco")}
    assert results["bank"]["rows"] == lenders
    assert [results[party]["rows"] for party in ("shop", "telco", "coordinator")] == [{}, {}, {}]
    assert results["coordinator"]["table"] is None


def test_every_connection_is_measured_once(example_run: tuple[Job, Outcome[Any]]) -> None:
    links = {(party, link["peer"]) for party, result in example_run[1].results.items() for link in result["links"]}
    assert links == {
        ("shop", "telco"),
        ("shop", "bank"),
        ("shop", "coordinator"),
        ("telco", "bank"),
        ("telco", "coordinator"),
        ("bank", "coordinator"),
    }
    every = [link for result in example_run[1].results.values() for link in result["links"]]
    assert len(every) == len(links)
    assert all(link["round_trip_ms"] > 0 and link["megabytes_per_second"] > 0 for link in every)


def test_the_preparation_stays_in_the_partys_folder(tmp_path: Path) -> None:
    job = two_parties(tmp_path)
    simulate_job(job.plan, job.privates, folder=tmp_path / "run")
    preparation = load_preparation(tmp_path / "run" / "bank" / "preparation.json")
    assert preparation.names == ("age", "town=north", "town=south", "same=x")


def test_the_outline_is_what_is_said(example_run: tuple[Job, Outcome[Any]]) -> None:
    job, outcome = example_run
    foretold: Counter[tuple[str, str, str]] = Counter()
    foretold_bytes: Counter[tuple[str, str, str]] = Counter()
    for exchange in outline_of(job.plan):
        foretold[exchange.sender, exchange.receiver, exchange.kind] += exchange.frames
        foretold_bytes[exchange.sender, exchange.receiver, exchange.kind] += exchange.bytes
    said: Counter[tuple[str, str, str]] = Counter()
    said_bytes: Counter[tuple[str, str, str]] = Counter()
    for party, record in outcome.ledgers.items():
        for entry in record.entries:
            if entry.way == "sent":
                said[party, entry.peer, entry.kind] += 1
                said_bytes[party, entry.peer, entry.kind] += entry.bytes
    assert said == foretold
    for key, size in said_bytes.items():
        near = abs(size - foretold_bytes[key]) <= 200
        assert near or 0.5 <= size / foretold_bytes[key] <= 2, (key, size, foretold_bytes[key])


def test_all_ledgers_agree(example_run: tuple[Job, Outcome[Any]]) -> None:
    records = list(example_run[1].ledgers.values())
    assert all(record.closed for record in records)
    assert [reconcile(a, b) for a in records for b in records if a is not b] == [[]] * 12


def test_what_is_never_sent_is_refused_before_the_start_and_at_the_door(tmp_path: Path) -> None:
    job = two_parties(tmp_path, never_send=["RowCount"])
    with pytest.raises(RefusedError, match=r"telco .*RowCount"):
        simulate_job(job.plan, job.privates, folder=tmp_path / "run")
    assert not list((tmp_path / "run").glob("*/ledger.jsonl"))
    guard = guard_of("telco", job.privates["telco"].policy)
    (refused,) = [e.message for e in outline_of(job.plan) if e.kind == "RowCount"]
    with pytest.raises(RefusedError, match=r"telco .*RowCount"):
        guard(refused, 1)
    check_policy(job.plan, "bank", job.privates["telco"].policy)


def test_no_more_is_sent_than_the_policy_says(tmp_path: Path) -> None:
    job = two_parties(tmp_path, maximum_sent_megabytes=0.001)
    with pytest.raises(RefusedError, match=r"telco .*0\.001 MB .*policy\.maximum_sent_megabytes"):
        simulate_job(job.plan, job.privates, folder=tmp_path / "run")
    generous = two_parties(tmp_path, maximum_sent_megabytes=1)
    assert simulate_job(generous.plan, generous.privates).results["telco"]["table"]["rows"] == 40


def test_too_few_rows_are_refused_without_saying_how_many(tmp_path: Path) -> None:
    job = two_parties(tmp_path, minimum_rows=41)
    with pytest.raises(RefusedError) as caught:
        simulate_job(job.plan, job.privates)
    assert "41 rows (policy.minimum_rows)" in str(caught.value)
    assert "40" not in str(caught.value)
    enough = two_parties(tmp_path, minimum_rows=40)
    assert simulate_job(enough.plan, enough.privates).results["bank"]["rows"] == {"telco": 40}


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    frames = example.population(example.SMALLEST).tables
    return {party: table_from_frame(frame.unique(), "id", party) for party, frame in frames.items()}


def test_given_tables_need_no_files(tables: dict[str, Table]) -> None:
    plan = example_job("check").plan.model_copy(update={"parameters": QUICK})
    counts = {party: tables[party].frame.height for party in ("shop", "telco")}
    assert simulate_job(plan, {}, tables).results["bank"]["rows"] == counts


def test_a_coordinator_may_not_have_a_table(tables: dict[str, Table]) -> None:
    with pytest.raises(PlanError, match="coordinator"):
        simulate_job(example_job("check").plan, {}, tables | {"coordinator": tables["bank"]})
