"""The command `evaluate table`, run as a user would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.errors import InputError

TRUTH = """\
id,income,a_long_name_for_a_column_of_categories,code,since,extra
007,1000,basic,1,2024-01-01,x
008,2000,plus,2,2024-01-02,y
009,3000,basic,1,2024-01-03,z
010,4000,plus,2,2024-01-04,z
"""
COMPLETED = """\
id,income,a_long_name_for_a_column_of_categories,code,since
010,3000,basic,2,
009,3500,basic,2,2024-01-05
007,1000,basic,1,2024-01-01
"""
MASK = """\
id,income,a_long_name_for_a_column_of_categories,code,since
009,true,predicted,1,filled
010,True,real,0,missing
007,false,,0,real
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {"truth": TRUTH, "completed": COMPLETED, "mask": MASK}
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return {name: tmp_path / f"{name}.csv" for name in texts}


def invoke(files: dict[str, Path], *words: object) -> Any:
    call = ["evaluate", "table", files["completed"], "--truth", files["truth"], "--id", "id", *words]
    return CliRunner().invoke(app, list(map(str, call)), env={"COLUMNS": "80"})


def say(files: dict[str, Path], *words: object) -> str:
    result = invoke(files, *words)
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.stdout)


def refusal(files: dict[str, Path], *words: object) -> str:
    result = invoke(files, *words)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


@pytest.mark.parametrize("option", ["--mask", "--provenance"])
def test_only_filled_cells_count(files: dict[str, Path], option: str) -> None:
    said = json.loads(say(files, option, files["mask"], "--category", "code", "--json"))
    assert said["rows"] == 2
    income, since = said["columns"]["income"], said["columns"]["since"]
    assert income["errors"] == {"r2": pytest.approx(-1.5), "rmse": pytest.approx(625000**0.5), "mae": 750.0}
    assert (since["kind"], since["cells"], since["missing"], since["errors"]["mae"]) == ("date", 1, 1, 2.0)
    assert (said["columns"]["code"]["kind"], said["columns"]["code"]["errors"]["accuracy"]) == ("category", 0.0)
    assert len(said["pairs"]) == 3, "two rows are left in which three columns are known"
    assert said["association"] > 0


def test_without_a_mask_all_cells_count(files: dict[str, Path]) -> None:
    said = json.loads(say(files, "--json"))
    assert said["rows"] == 3
    assert {name: column["cells"] for name, column in said["columns"].items()} == {
        "income": 3,
        "a_long_name_for_a_column_of_categories": 3,
        "code": 3,
        "since": 2,
    }
    assert said["columns"]["code"]["kind"] == "number"


def test_words_on_the_terminal_fit_eighty_columns(files: dict[str, Path]) -> None:
    said = say(files, "--mask", files["mask"])
    assert max(map(len, said.splitlines())) <= 80
    for word in ("2 rows", "RMSE", "750", "Wass.", "accuracy", "kurtosis", "association of"):
        assert word in said
    assert "…" not in said


@pytest.mark.parametrize(
    ("name", "old", "new", "named"),
    [
        ("completed", "id,income", "id,salary", ["completed.csv: column 'salary'", "truth.csv", "income"]),
        ("completed", "009,3500", "099,3500", ["completed.csv: column 'id': row 2", "truth.csv"]),
        ("completed", "009,3500", "010,3500", ["completed.csv: column 'id': rows 1 and 2"]),
        ("completed", "009,3500", "009,much", ["completed.csv: column 'income': row 2", "not a number"]),
        ("completed", "id,", "number,", ["completed.csv: column 'id'"]),
        ("mask", "id,income", "id,salary", ["mask.csv: column 'salary'", "completed.csv"]),
        ("mask", "010,True", "011,True", ["completed.csv: column 'id': row 1", "mask.csv"]),
    ],
)
def test_what_does_not_match_is_named(files: dict[str, Path], name: str, old: str, new: str, named: list[str]) -> None:
    files[name].write_text(files[name].read_text().replace(old, new))
    said = refusal(files, *(["--mask", files["mask"]] if name == "mask" else []))
    for words in named:
        assert words in said


def test_files_and_columns_that_are_not_there(files: dict[str, Path]) -> None:
    assert "column 'colour'" in refusal(files, "--category", "colour")
    files["mask"].unlink()
    assert "mask.csv" in refusal(files, "--mask", files["mask"])
    files["truth"] = files["truth"].with_suffix(".txt")
    assert "truth.txt" in refusal(files)
