"""`unpooled audit`: what others could infer under a plan, as a table, a page and JSON; the dry run points to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.data import example
from unpooled.errors import PlanError
from unpooled.jobs.examples.example_job import write_job_files

RUNNER = CliRunner(env={"COLUMNS": "100"})
SMALL = "\n[parameters.model]\ntrees = 3\n\n[parameters.method]\nname = 'vfpu'\niterations = 1\nbags = 2\n\n[parties."
ROWS = ["--rows", "500"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search for look-alikes with few small trees."""
    monkeypatch.chdir(tmp_path)
    example.write(tmp_path, rows=1500)
    write_job_files(tmp_path, "lookalike")
    for name in ("job.toml", "plan.toml"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace("\n[parties.", SMALL, 1))
    return tmp_path


def audited(*words: str) -> dict[str, Any]:
    result = RUNNER.invoke(app, ["audit", *words, *ROWS, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_bank_asks_and_gets_a_page_and_json(folder: Path) -> None:
    found = audited("job.toml", "--as", "bank")
    assert found["page"] == "job-bank-attacks.html"
    by_seat = {(one["attack"], one["party"]) for one in found["findings"]}
    attacks = ("bags", "leaf_sizes", "few_known", "id2graph")
    assert {(attack, party) for attack in attacks for party in ("telco", "coordinator")} <= by_seat
    assert ("reconstruction", "bank") in by_seat
    assert {("two_runs", party) for party in ("shop", "telco", "coordinator")} <= by_seat
    assert not any(party == "shop" for attack, party in by_seat if attack in attacks), "they are its own people"
    assert any("telco: columns of noise" in note for note in found["notes"])
    page = (folder / "job-bank-attacks.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert page.count("<rect") == len(found["findings"])
    assert (folder / "job-bank-attacks.html").stat().st_mode & 0o077 == 0
    kept = json.loads((folder / "job-bank-attacks.json").read_text())
    assert kept["findings"] == found["findings"]


def test_a_party_with_a_plan_and_a_private_file_gets_the_same(folder: Path) -> None:
    by_job = audited("job.toml", "--as", "telco")
    by_plan = audited("plan.toml", "--as", "telco", "--private", "telco.toml", "--page", "other.html")
    assert by_plan["page"] == "other.html"
    assert by_plan["findings"] == by_job["findings"]
    assert any(one["attack"] == "reconstruction" and one["about"] == "telco" for one in by_job["findings"])


def test_what_is_printed_says_who_finds_out_what(folder: Path) -> None:
    result = RUNNER.invoke(app, ["audit", "job.toml", "--as", "shop", *ROWS])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "Leaf sizes telco (passive) shop" in said
    assert "Differences of two runs bank (active) shop much 100.0 %" in said
    assert said.endswith("page: job-shop-attacks.html")
    assert (folder / "job-shop-attacks.html").is_file()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--as", "nobody"], "nobody is not in the plan"),
        (["--as", "coordinator"], "coordinator has no table"),
    ],
)
def test_who_cannot_ask_is_told_why(folder: Path, words: list[str], reason: str) -> None:
    assert (folder / "job.toml").is_file()
    result = RUNNER.invoke(app, ["audit", "job.toml", *words])
    assert isinstance(result.exception, Exception)
    assert reason in str(result.exception)
    assert isinstance(result.exception, PlanError) == ("not in the plan" in reason)


@pytest.mark.parametrize(("kind", "points"), [("lookalike", True), ("align", False)])
def test_the_dry_run_points_to_it(tmp_path: Path, kind: str, *, points: bool) -> None:
    example.write(tmp_path, rows=1500)
    write_job_files(tmp_path, kind)
    said = RUNNER.invoke(app, ["run", str(tmp_path / "job.toml"), "--dry-run", "--no-forecast"]).stdout
    assert ("`unpooled audit`" in said) == points
