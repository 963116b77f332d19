"""The tutorial and the guide for several machines, as written: their files load, and their commands work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.data import example, example_patients
from unpooled.jobs.checks import check_fits
from unpooled.jobs.files import load_plan, load_private, write_toml
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.private import Private
from unpooled.run import folder as run_folder
from unpooled.run.join import addresses_of
from unpooled.run.simulate import simulate_job
from unpooled.transport.certificates import make_trial

DOCS = Path(__file__).parents[2] / "docs"


def fences(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    lines = [line for fence in fences(page, "console") for line in fence.splitlines()]
    return [shlex.split(line)[1:] for line in lines]


def say(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


def write_tables(folder: Path, rows: int) -> None:
    """Three files as the guides have them."""
    example.write(folder, rows)
    for party in ("shop", "telco", "bank"):
        path = folder / f"{party}.csv"
        pl.read_csv(path, infer_schema=False).rename({"id": "customer"}).write_csv(path)


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the three files."""
    write_tables(tmp_path, rows=1000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("in_threads")
def test_the_tutorial_works_as_written(tables: Path) -> None:
    job, longer, later = fences("tutorial.md", "toml")
    (tables / "job.toml").write_text(job)
    (tables / "longer.toml").write_text(longer)
    truth = pl.read_csv(tables / "truth.csv", infer_schema=False).rename({"id": "customer"})
    truth.filter(pl.col("would_buy") == "true").write_csv(tables / "sales.csv")
    (tables / "later.toml").write_text(later)
    said = {" ".join(words): say(*words) for words in commands("tutorial.md") if words[0] != "purge"}
    assert "Nothing was started" in said["run job.toml --dry-run"]
    found = pl.read_csv(tables / "runs" / "first" / "shop" / "reliable.csv")
    section = (DOCS / "tutorial.md").read_text().split("## 5. The list")[1].split("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    assert found.columns == named
    ranked = pl.read_csv(tables / "runs" / "first" / "bank" / "ranking.csv")
    assert len(found) == round(0.05 * len(ranked))
    assert set(found["customer"]) <= set(pl.read_csv(tables / "bank.csv")["customer"])
    assert not set(found["customer"]) & set(pl.read_csv(tables / "shop.csv")["customer"])
    more = pl.read_csv(tables / "runs" / "longer" / "shop" / "reliable.csv")
    assert more["customer"].to_list() == ranked["customer"].head(100).to_list()
    scored = pl.read_csv(tables / "runs" / "later" / "bank" / "predictions.csv")
    assert scored["score"].is_between(0, 1).all()
    for words in commands("tutorial.md"):
        if words[0] == "purge":
            say(*words)
    assert not list((tables / "runs").rglob(".working"))
    assert (tables / "runs" / "first" / "shop" / "reliable.csv").exists()


@pytest.mark.usefixtures("in_threads")
def test_the_tutorial_on_completing_a_table_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example_patients.write_patients(tmp_path, example_patients.SMALLEST)
    for name in ("registry", "clinic", "truth"):
        path = tmp_path / f"{name}.csv"
        pl.read_csv(path, infer_schema=False).rename({"id": "patient"}).write_csv(path)
    page = "completing_tutorial.md"
    for name, text in zip(("job", "train"), fences(page, "toml"), strict=True):
        (tmp_path / f"{name}.toml").write_text(text)
    said = {" ".join(words): say(*words) for words in commands(page)}
    assert "Nothing was started" in said["run job.toml --dry-run"]
    runs, clinic = tmp_path / "runs", pl.read_csv(tmp_path / "clinic.csv", infer_schema=False)
    section = (DOCS / page).read_text().split("## 5. The table")[1].split("\n## ")[0]
    named = set(re.findall(r"^\| `([\w.]+)` \|", section, flags=re.MULTILINE))
    assert named <= {path.name for path in (runs / "first" / "clinic").iterdir()}
    done = pl.read_parquet(runs / "first" / "clinic" / "completed.parquet")
    assert done.columns == ["handle", *clinic.columns[1:], "weight"]
    assert done.height == example_patients.SMALLEST
    assert done.null_count().sum_horizontal()[0] == 0
    assert (runs / "first" / "clinic" / "evaluation.json").exists()
    assert pl.read_csv(runs / "model" / "registry" / "predictions.csv").height == done.height
    assert not list(runs.rglob(".working"))


def write_files(folder: Path) -> None:
    """The files of the guide for several machines, as written."""
    for name, text in zip(("plan", "bank", "shop"), fences("two_machines.md", "toml"), strict=True):
        (folder / f"{name}.toml").write_text(text)


def test_the_guide_for_several_machines_has_a_plan_and_a_private_file_that_fit(tables: Path) -> None:
    write_files(tables)
    plan, private = load_plan(tables / "plan.toml"), load_private(tables / "bank.toml")
    check_fits(plan, "bank", private)
    check_fits(plan, "shop", load_private(tables / "shop.toml"))
    assert outline_of(plan)
    assert addresses_of(plan, "bank", private).listen == "0.0.0.0:7433"
    dialled = addresses_of(plan, "shop", private.model_copy(update={"listen": None})).dial
    assert dialled.keys() == plan.parties.keys() - {"shop"}
    assert addresses_of(plan, "telco", private).dial == {}, "the later one in the plan dials"
    make_trial(tables / "certs", list(plan.parties))
    done = [words[:2] for words in commands("two_machines.md")]
    assert done == [
        ["certs", "check"],
        ["join", "plan.toml"],
        ["join", "plan.toml"],
        ["resume", "runs/list"],
        ["purge", "runs/list"],
    ]
    check, dry_run = commands("two_machines.md")[:2]
    assert "bank, until " in say(*check)
    assert "Nothing was started" in say(*dry_run)
    write_toml(tables / "plan.toml", plan)
    assert load_plan(tables / "plan.toml") == plan


def test_the_guide_for_several_machines_leads_to_a_list(tables: Path) -> None:
    """With its private files as written; of its plan, only the models are fewer and smaller."""
    write_tables(tables, rows=2000)
    write_files(tables)
    small = {"estimate": False, "method": {"iterations": 1, "bags": 2}, "model": {"trees": 2, "hide_bags": False}}
    plan = load_plan(tables / "plan.toml")
    plan = plan.model_copy(update={"parameters": plan.parameters | small})
    privates = {party: load_private(tables / f"{party}.toml") for party in ("bank", "shop")}
    privates["telco"] = Private.model_validate(
        {"consent": {"found": True}, "table": {"path": str(tables / "telco.csv"), "id": "customer"}}
    )
    results = simulate_job(plan, privates, folder=run_folder.create(tables / "run")).results
    assert results["bank"]["common"] >= privates["bank"].policy.minimum_overlap > results["bank"]["positives"]
    assert results["bank"]["positives"] >= privates["bank"].policy.minimum_positives
    assert len(pl.read_csv(tables / "run" / "shop" / "reliable.csv")) == plan.parameters["top"]
