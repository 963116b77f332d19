"""Jobs whose parties have little memory: the same results, or refused beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unpooled.data import example, sources
from unpooled.data.sources import load
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.examples.example_job import write_job_files
from unpooled.jobs.files import Job, load_job
from unpooled.run import scaling
from unpooled.run.forecast import beyond_memory, check_memory, forecast
from unpooled.run.simulate import simulate_job
from unpooled.vertical.trees import binning

ROWS = 1000
TREES = {"learner": "rf", "classes": 0, "trees": 1, "depth": 3}
JOBS: dict[str, dict[str, Any]] = {
    "train": {"model": TREES},
    "lookalike": {"method": {"iterations": 1, "bags": 2}, "model": {"trees": 2, "depth": 2}, "describe": True},
}


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "rows_at_once", 100)
    monkeypatch.setattr(binning, "_ROWS_AT_ONCE", 50)
    monkeypatch.setattr(scaling, "_ROWS", 300)
    monkeypatch.setattr(scaling, "_TABLE_ROWS", 400)


def job_in(folder: Path, kind: str) -> Job:
    """A job on the example tables, with little to learn."""
    example.write(folder, ROWS)
    write_job_files(folder, kind)
    made = load_job(folder / "job.toml")
    return replace(made, plan=made.plan.model_copy(update={"parameters": made.plan.parameters | JOBS[kind]}))


@pytest.mark.parametrize("kind", JOBS)
def test_with_columns_on_disk_everything_comes_out_the_same(kind: str, tmp_path: Path) -> None:
    made, written = job_in(tmp_path / "tables", kind), []
    plan = made.plan
    for memory in (None, 1.0):
        folder, disk = tmp_path / f"run {memory}", tmp_path / "disk" if memory else None
        privates = {
            party: private.model_copy(update={"seed": 7, "memory": memory if private.table else None})
            for party, private in made.privates.items()
        }
        tables = {party: load(one.table, party, disk) for party, one in privates.items() if one.table}
        assert all(bool(table.stored) == bool(memory) for table in tables.values())
        simulate_job(plan, privates, tables, folder)
        files = [path for party in plan.owners for path in sorted((folder / party).glob("*.csv"))]
        files += [folder / party / "preparation.json" for party in plan.owners]
        written.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert len(written[0]) > 4
    assert written[0] == written[1]


def test_a_job_that_would_take_more_memory_is_refused_with_what_would_help(tmp_path: Path) -> None:
    made = job_in(tmp_path, "train")
    enough, too_little = (made.privates["bank"].model_copy(update={"memory": memory}) for memory in (50.0, 0.1))
    check_memory(checked(made.plan, "bank", enough))
    job = checked(made.plan, "bank", too_little)
    with pytest.raises(
        RefusedError,
        match=r"^bank: memory: the job would take about 0\.\d+ GB here, and 0\.1 GB are .*fewer columns in",
    ):
        check_memory(job)


def test_a_coordinator_has_another_limit(tmp_path: Path) -> None:
    made = job_in(tmp_path, "train")
    with pytest.raises(PlanError, match="coordinator: memory: it is for parties with a table"):
        checked(made.plan, "coordinator", made.privates["coordinator"].model_copy(update={"memory": 1.0}))


def test_columns_on_disk_take_less_memory_by_the_forecast(tmp_path: Path) -> None:
    made = job_in(tmp_path, "train")
    found = []
    for memory in (None, 1.0):
        job = checked(made.plan, "bank", made.privates["bank"].model_copy(update={"memory": memory}))
        expected = forecast([job], common=2_000_000)
        found.append(expected.parties["bank"].peak_memory_mb)
        assert len(beyond_memory(expected, [job])) == (memory is not None)
    assert found[1] < found[0]
