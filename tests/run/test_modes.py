"""Whatever a run leaves is for its owner alone, of every kind of job, however open new files would be."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unpooled.data import example
from unpooled.jobs.examples.example_job import example_job
from unpooled.report.page import write_report
from unpooled.run.simulate import simulate_job
from unpooled.run.spawn import spawn

_TREES = {"trees": 2, "depth": 2}
SMALL: dict[str, dict[str, Any]] = {
    "check": {"round_trips": 1, "megabytes": 1},
    "align": {},
    "train": {"model": {**_TREES, "classes": 0}},
    "predict": {},
    "lookalike": {"method": {"iterations": 1, "bags": 2}, "model": _TREES, "estimate": False},
    "deliver": {"top": 20},
}
EARLIER = {"predict": "train", "deliver": "lookalike"}


@pytest.fixture(autouse=True)
def nothing_is_closed_by_itself() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """What somebody else could read, enter or write, the folder itself among it."""
    everything = [folder, *folder.rglob("*")]
    return [str(path) for path in everything if stat.S_IMODE(path.stat().st_mode) & 0o077]


def run(root: Path, kind: str, *, processes: bool = False) -> Path:
    """A small run of a kind with all parties here, in a folder that was open to everybody, and its reports."""
    tables, folder = root / "tables", root / kind
    if not tables.exists():
        example.write(tables, rows=1000)
    job = example_job(kind, trained=run(root, EARLIER[kind]) if kind in EARLIER else None)
    plan = job.plan.model_copy(update={"parameters": SMALL[kind], "timeout": 600.0})
    privates = {party: private.at(tables) for party, private in job.privates.items()}
    folder.mkdir(mode=0o755)
    if processes:
        spawn(plan, privates, folder)
    else:
        folder.chmod(0o700)
        simulate_job(plan, privates, folder=folder)
    write_report(folder)
    return folder


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
@pytest.mark.parametrize("kind", SMALL)
def test_nobody_else_reads_what_a_run_leaves(tmp_path: Path, kind: str) -> None:
    folder = run(tmp_path, kind)
    left = {path.name for path in folder.rglob("*")}
    assert left >= {"plan.toml", "status.json", "result.json", "ledger.jsonl", "report.html"}
    assert open_to_others(folder) == []
    assert open_to_others(tmp_path / "tables") == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
def test_nor_what_a_process_for_each_party_leaves(tmp_path: Path) -> None:
    folder = run(tmp_path, "lookalike", processes=True)
    assert {path.name for path in folder.rglob("*")} >= {"log.txt", "progress.json", "private.toml", "key.pem", "lock"}
    assert open_to_others(folder) == []
