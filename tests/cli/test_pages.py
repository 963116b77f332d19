"""The pages on jobs and on alignment, as written: their commands work, and they name what there is."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.files import load_job, load_plan
from unpooled.jobs.private import Policy
from unpooled.run import folder as run_folder

GUIDE = Path(__file__).parents[2] / "docs" / "jobs.md"
ALIGNMENT = GUIDE.with_name("alignment.md")


def say(*words: str) -> str:
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, words)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def commands_of(page: Path) -> list[list[str]]:
    fences = re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [fence.splitlines() for fence in fences]


def join_all(lines: list[str]) -> None:
    """Start each party's command in a process of its own, as if on its own machine."""
    calls = [[sys.executable, "-m", *shlex.split(line)] for line in lines]
    processes = [subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for call in calls]
    said = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(lines), said


@pytest.mark.usefixtures("in_threads")
def test_the_guide_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_free_ports: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    for lines in commands_of(GUIDE):
        if all("unpooled join" in line and "--dry-run" not in line for line in lines):
            use_free_ports(Path("trial/plan.toml"))
            join_all(lines)
            continue
        for line in lines:
            command, _, target = line.removeprefix("unpooled ").partition(" > ")
            said = say(*shlex.split(command))
            if target:
                Path(target).write_text(said)
    assert load_plan(Path("plan.toml")).kind == "check"
    joined = sorted(path.name.rsplit("-", 2)[0] for path in Path("runs").glob("align-*"))
    assert joined == sorted(f"align-{party}" for party in CUSTOMERS.roles)
    assert load_job(Path("job.toml")).plan.kind == "check"
    assert all(json.loads(path.read_text())["state"] == "finished" for path in Path("runs").glob("*/status.json"))
    (log,) = Path("runs").glob("align-bank-*/log.txt")
    assert re.search(r"^\d\d:\d\d:\d\d bank is connected with telco$", log.read_text(), re.MULTILINE)
    assert not list(Path("runs/first").rglob("private.toml"))
    learned, new = (run_folder.read_json(Path("runs") / run / "bank" / "result.json") for run in ("learn", "new"))
    assert learned["test_rows"] > 100
    assert new["metrics"]["new"]["r2"] > 0  # better than the mean, and for people who were not there before
    assert len(pl.read_csv("runs/new/bank/predictions.csv")) == new["common"]


@pytest.mark.usefixtures("in_threads")
def test_the_page_on_alignment_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (lines,) = commands_of(ALIGNMENT)
    for line in lines:
        say(*shlex.split(line.removeprefix("unpooled ")))
    owned = {path.parent.name: path.read_text() for path in Path("runs/aligned").glob("*/aligned.csv")}
    assert {party: text.splitlines()[0] for party, text in owned.items()} == {"telco": "id", "bank": "id,label"}
    assert Path("runs/aligned/bank/report.html").exists()


def test_the_guide_explains_every_policy() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in Policy.model_fields if f"| `{name}` |" not in text] == []
