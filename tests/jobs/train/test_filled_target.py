"""A target that was filled, or helped to fill columns, is noticed by the files of the completing job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.private import Private
from unpooled.jobs.train.filled_target import target_notes
from unpooled.jobs.train.section import headline

HANDLES = [f"{number:016x}" for number in range(4)]
ORIGINS = {
    "ill": ["real", "predicted", "predicted", "not filled"],
    "ward": ["real", "real", "generated", "real"],
    "age": ["real", "generated", "generated", "real"],
    "known": ["real"] * 4,
}


def completed() -> Table:
    cells = {name: ["a", "b", "a", "b"] for name in ORIGINS}
    return table_from_frame(pl.DataFrame({"handle": HANDLES, **cells}), "handle", "clinic")


def private(folder: Path, target: str, key: str = "handle", **table: Any) -> Private:
    settings = {"target": target, "table": {"path": "completed.parquet", "id": key} | table}
    return Private.model_validate(settings).at(folder)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_filled_cells_of_a_target_are_counted_and_logged(
    format: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame = pl.DataFrame({"handle": HANDLES, **ORIGINS}).reverse()
    path = tmp_path / f"provenance.{format}"
    frame.write_csv(path) if format == "csv" else frame.write_parquet(path)
    (said,) = target_notes(private(tmp_path, "ill"), completed())
    assert said.startswith("2 of 4 values of the target 'ill' are not real")
    assert "generated with it" not in said
    assert caplog.messages == [f"clinic: {said}"]
    (said,) = target_notes(private(tmp_path, "ward"), completed())
    assert said.startswith("1 of 4 values")
    assert said.endswith("Columns that were generated with it may tell of it: age.")
    assert target_notes(private(tmp_path, "known"), completed()) == []


def test_other_tables_and_other_files_say_nothing(tmp_path: Path) -> None:
    assert target_notes(private(tmp_path, "ill"), completed()) == []
    pl.DataFrame({"handle": HANDLES, "other": ["predicted"] * 4}).write_csv(tmp_path / "provenance.csv")
    assert target_notes(private(tmp_path, "ill"), completed()) == []
    own = table_from_frame(pl.DataFrame({"id": [1, 2], "other": ["a", "b"]}), "id", "clinic")
    assert target_notes(private(tmp_path, "other", "id"), own) == []
    assert target_notes(Private(target="ill"), completed()) == []


@pytest.mark.parametrize(
    ("importance", "noticed"),
    [
        ([{"name": "ill=yes", "splits": 2, "rows": 9}], True),
        ([{"name": "ill", "weight": -0.5}], True),
        ([{"name": "ill", "splits": 0, "rows": 0}, {"name": "illness", "splits": 3, "rows": 9}], False),
        ("nothing", False),
    ],
)
def test_a_target_that_helped_to_predict_columns_is_noticed(importance: Any, noticed: bool, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"importance": importance}))
    table = table_from_frame(pl.DataFrame({"id": [1, 2], "ill": ["yes", "no"]}), "id", "registry")
    found = target_notes(private(tmp_path, "ill", "id", path="registry.csv", handles="handles.csv"), table)
    assert [note.startswith("The target 'ill' helped to predict") for note in found] == [True] * noticed


@pytest.mark.parametrize("flattered", [True, False])
def test_the_figure_at_the_end_is_not_said_alone(flattered: bool) -> None:
    result = {"common": 400, "metrics": {"test": {"auc": 0.987}}, "flattered": flattered}
    *_, last = [figure.words for figure in headline(result)]
    assert last == ("which looks better than it is: see the report" if flattered else "AUC 0.987 on test rows")
