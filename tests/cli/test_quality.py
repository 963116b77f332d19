"""`unpooled check`: what it prints fits 80 columns, and its page is one file."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.data import example
from unpooled.data.sources import TableSettings
from unpooled.errors import InputError
from unpooled.jobs.private import Private

RUNNER = CliRunner()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    example.write(tmp_path, rows=1000)
    return tmp_path


def test_a_table_is_shown_in_80_columns_and_as_a_page(folder: Path) -> None:
    result = RUNNER.invoke(app, ["check", "bank.csv", "--id", "id", "--type", "branch=category"])
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "occupation" in result.output
    page = (folder / "bank-quality.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<h3>") == 10
    assert (folder / "bank-quality.html").stat().st_mode & 0o077 == 0


def test_a_bad_cell_is_shown_and_the_table_refused(folder: Path) -> None:
    with (folder / "bank.csv").open("a") as file:
        file.write("new,none,1,1,1,true,low,office,2020-01-01,100,1\n")
    result = RUNNER.invoke(app, ["check", "bank.csv", "--id", "id", "--json"])
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert not found["accepted"]
    (error,) = [note for note in found["notes"] if note["level"] == "error"]
    assert (error["column"], "'none'" in error["text"]) == ("age", True)
    assert RUNNER.invoke(app, ["check", "bank.csv", "--id", "id", "--unfit", "0.01"]).exit_code == 0


def test_a_private_file_says_how_to_read_the_table(folder: Path) -> None:
    (folder / "bank.toml").write_text('[table]\npath = "bank.csv"\nid = "id"\ncolumns = ["age"]\n')
    result = RUNNER.invoke(app, ["check", "--private", "bank.toml", "--json", "--page", "page.html"])
    assert [column["name"] for column in json.loads(result.output)["columns"]] == ["age"]
    assert (folder / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["bank.csv"], "--id: .*bank.csv.*id, age"),
        ([], "--private"),
        (["bank.csv", "--id", "id", "--type", "age"], "--type"),
        (["bank.csv", "--id", "id", "--type", "age=color"], "types"),
        (["bank.csv", "--id", "id", "--separator", "ab"], "separator"),
        (["absent.csv", "--id", "id"], "absent.csv"),
        (["bank.csv", "--private", "bank.toml"], "--private"),
    ],
)
def test_wrong_calls_are_refused(folder: Path, words: list[str], reason: str) -> None:
    result = RUNNER.invoke(app, ["check", *words])
    assert isinstance(result.exception, InputError)
    assert re.search(reason, str(result.exception))


def test_the_page_about_sources_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    tables = [Private.model_validate(tomllib.loads(text)).table for text in examples]
    assert [table.decimal for table in tables if table] == [",", None]
    for line in re.findall(r"^unpooled (.*)$", page, flags=re.MULTILINE):
        result = RUNNER.invoke(app, line.split())
        assert result.exit_code == 0, result.output
    assert (tmp_path / "telco-quality.html").exists()
    named = {
        key for line in re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE) for key in re.findall(r"`(\w+)`", line)
    }
    assert named == TableSettings.model_fields.keys()
