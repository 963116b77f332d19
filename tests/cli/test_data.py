"""The commands `example`, `datasets fetch` and `datasets list`, run as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from unpooled.cli.data import datasets_app, example_command
from unpooled.data import datasets, example, publisher
from unpooled.errors import InputError, PlanError
from unpooled.jobs.files import load_job

example_app = typer.Typer()
example_app.command("example")(example_command)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(datasets.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return datasets.cache_folder()


def run(app: typer.Typer, *words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_example_writes_the_default_files(tmp_path: Path) -> None:
    output = run(example_app, str(tmp_path / "here"))
    tables = [f"{name}.csv" for name in ("shop", "telco", "bank", "truth")]
    jobs = [f"{name}.toml" for name in ("job", "plan", "shop", "telco", "bank", "coordinator")]
    assert output.splitlines() == [f"wrote {tmp_path / 'here' / name}" for name in tables + jobs]
    example.write(tmp_path / "again")
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (tmp_path / "here" / path.name).read_bytes()


def test_example_takes_rows_and_seed(tmp_path: Path) -> None:
    run(example_app, str(tmp_path), "--rows", "1500", "--seed", "3")
    assert (tmp_path / "truth.csv").read_text().count("\n") == 1_501


def test_example_writes_files_for_other_kinds_of_job(tmp_path: Path) -> None:
    output = run(example_app, str(tmp_path / "train"), "--rows", "1000", "--kind", "train")
    assert "shop.csv" in output
    assert "shop.toml" not in output
    assert load_job(tmp_path / "train" / "job.toml").plan.kind == "train"
    run(example_app, str(tmp_path / "new"), "--rows", "1000", "--kind", "predict", "--model", str(tmp_path / "run"))
    job = load_job(tmp_path / "new" / "job.toml")
    assert job.privates["bank"].model == tmp_path / "run" / "bank"
    assert job.privates["bank"].target == load_job(tmp_path / "train" / "job.toml").privates["bank"].target


@pytest.mark.parametrize("words", [("--kind", "learn"), ("--kind", "predict"), ("--kind", "train", "--model", "run")])
def test_example_writes_nothing_for_a_job_that_cannot_be(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(PlanError):
        run(example_app, str(tmp_path / "here"), *words)
    assert not (tmp_path / "here").exists()


def test_quiet_says_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(example_app, str(tmp_path / "example"), "--rows", "1000", "-q") == ""
    assert (tmp_path / "example" / "job.toml").exists()
    monkeypatch.setattr(publisher, "fetch", fake_fetch)
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(cache.parent))
    assert run(datasets_app, "fetch", "--quiet") == ""


def test_example_lets_errors_through(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows"):
        run(example_app, str(tmp_path), "--rows", "10")


def fake_fetch(names: list[str], folder: Path, advance: publisher.Advance) -> list[Path]:
    for name in names:
        advance(name, 1_000)
    return [folder / datasets.published(name).file for name in names]


def test_fetch_takes_all_sets_or_those_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "fetch", fake_fetch)
    everything = run(datasets_app, "fetch")
    assert all(f"wrote {cache / parts['train'].file}" in everything for parts in datasets.PUBLISHED.values())
    only_credit = run(datasets_app, "fetch", "credit")
    assert f"wrote {cache / 'credit.csv.gz'}" in only_credit
    assert "bank" not in only_credit
    assert datasets.FOLDER_VARIABLE not in only_credit


def test_fetch_says_when_the_cache_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "fetch", fake_fetch)
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(cache.parent))
    assert "UNPOOLED_DATA" in run(datasets_app, "fetch", "bank")


@pytest.mark.usefixtures("cache")
def test_fetch_refuses_an_unknown_name() -> None:
    with pytest.raises(InputError, match="'iris'"):
        run(datasets_app, "fetch", "iris")


def test_list_tells_the_good_from_the_absent_and_the_wrong(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, part: str) -> None:
        if name == "credit":
            raise InputError("credit: not the published table")

    monkeypatch.setattr(datasets, "load", load)
    output = run(datasets_app, "list")
    assert str(cache) in output
    verified = {line.split()[1]: line.split()[-2] for line in output.splitlines() if ".csv.gz" in line}
    assert verified == {"bank": "yes", "credit": "no", "census": "yes"}
    assert "credit: not " in output
    listed = json.loads(run(datasets_app, "list", "--json"))
    assert listed["folder"] == str(cache)
    assert {entry["set"]: entry["problem"] for entry in listed["sets"]} == {
        "bank": None,
        "credit": "credit: not the published table",
        "census": None,
    }
    bank = datasets.PUBLISHED["bank"]["train"]
    assert listed["sets"][0] == {
        "set": "bank",
        "part": "train",
        "file": bank.file,
        "rows": bank.rows,
        "positives": bank.positives,
        "problem": None,
    }
    assert [entry["rows"] for entry in listed["sets"] if entry["set"] == "credit"] == [None]


@pytest.mark.usefixtures("cache")
def test_list_says_how_to_get_what_is_absent() -> None:
    assert run(datasets_app, "list").count("unpooled datasets fetch") == 4
