"""Handles of a table's rows: read from the file beside it, kept in step with the rows, refused if they are not its."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.prepare import PrepareSettings, clean
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.jobs.private import Private

HANDLES = [f"{number:016x}" for number in (11, 3, 200)]


def settings(folder: Path, handles: str, ids: str | list[str] = "id", name: str = "handles.csv") -> TableSettings:
    pl.DataFrame({"id": ["007", "b", "É"], "part": ["1", "1", "2"], "x": [1, 2, 3]}).write_csv(folder / "people.csv")
    (folder / name).write_text(handles)
    return TableSettings.model_validate({"path": folder / "people.csv", "id": ids, "handles": folder / name})


def loaded(folder: Path, handles: str, **more: Any) -> Table:
    return load(settings(folder, handles, **more), "registry")


def test_rows_have_the_handles_of_their_ids(tmp_path: Path) -> None:
    table = loaded(tmp_path, f"handle,id\n{HANDLES[0]},É\n{HANDLES[1]}, 007\n")
    assert table.handles is not None
    assert table.handles.to_list() == [HANDLES[1], None, HANDLES[0]]
    assert [note.text for note in table.notes if note.level == "warning"] == [
        f"1 of 3 rows have no handle in {tmp_path / 'handles.csv'}, and do not take part"
    ]
    assert table.ids["id"].to_list() == ["007", "b", "É"]
    both = loaded(
        tmp_path, f"id,part,handle\n007,1,{HANDLES[0]}\nb,1,{HANDLES[1]}\nÉ,2,{HANDLES[2]}\n", ids=["id", "part"]
    )
    assert both.handles is not None
    assert (both.handles.to_list(), both.notes) == (HANDLES, ())


def test_an_id_column_may_be_called_handle(tmp_path: Path) -> None:
    pl.DataFrame({"handle": ["a", "b"], "x": [1, 2]}).write_csv(tmp_path / "people.csv")
    pl.DataFrame({"handle": ["b", "a"], "handle_": HANDLES[:2]}).write_csv(tmp_path / "handles.csv")
    given = {"path": tmp_path / "people.csv", "id": "handle", "handles": tmp_path / "handles.csv"}
    table = load(TableSettings.model_validate(given), "registry")
    assert table.handles is not None
    assert table.handles.to_list() == [HANDLES[1], HANDLES[0]]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (f"id,handle\n007,{HANDLES[0]}\nstranger,{HANDLES[1]}\n", r"column 'id': row 2: .*people.csv does not have"),
        (f"id,handle\n007,{HANDLES[0]}\n007,{HANDLES[1]}\n", r"column 'id': rows 1 and 2: the same id"),
        (f"id,handle\n007,{HANDLES[0]}\nb,{HANDLES[0]}\n", r"column 'handle': rows 1 and 2: the same handle"),
        (f"id,handle\n007,{HANDLES[0]}\nb,\n", r"column 'handle': row 2: not a handle"),
        (f"id,handle\n007,{HANDLES[0]}\nb,{HANDLES[1][1:]}\n", r"column 'handle': row 2: not a handle"),
        (f"id,handle\n007,{HANDLES[0].upper()}\n", r"column 'handle': row 1: not a handle"),
        (f"id,handle\n,{HANDLES[0]}\n", r"column 'id': row 1: an id is missing"),
        (f"person,handle\n007,{HANDLES[0]}\n", r"column 'id': there is no such column"),
        ("id,token\n007,x\n", r"column 'handle': there is no such column"),
        ('id,handle\n"007\n', ""),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str, fault: str) -> None:
    with pytest.raises(InputError, match=rf"^registry: .*handles\.csv: {fault}"):
        loaded(tmp_path, content)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    given = settings(tmp_path, "")
    (tmp_path / "handles.csv").unlink()
    with pytest.raises(InputError, match=r"^registry: .*handles\.csv: there is no such file"):
        load(given, "registry")
    with pytest.raises(ValueError, match="must end in"):
        settings(tmp_path, "", name="handles.txt")


def test_handles_stay_with_their_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["a", "b", "b", "c"], "x": [1.0, 2.0, 2.0, None]})
    pl.DataFrame({"id": ["c", "b", "a"], "handle": HANDLES}).write_csv(tmp_path / "handles.csv")
    frame.write_csv(tmp_path / "people.csv")
    given = {"path": tmp_path / "people.csv", "id": "id", "handles": tmp_path / "handles.csv"}
    table = load(TableSettings.model_validate(given), "registry")
    cleaned, _ = clean(table, PrepareSettings(missing="drop"))
    assert cleaned.handles is not None
    assert dict(zip(cleaned.frame["id"], cleaned.handles, strict=True)) == {"a": HANDLES[2], "b": HANDLES[1]}
    taken = cleaned.take(np.array([1, 0]))
    assert taken.handles is not None
    assert taken.handles.to_list() == [HANDLES[1], HANDLES[2]]
    assert table_from_frame(frame, "id", "registry").take(np.array([2])).handles is None


def test_a_relative_path_is_taken_from_the_private_files_folder() -> None:
    table = {"path": "people.csv", "id": "id", "handles": "runs/complete/registry/handles.csv"}
    found = Private.model_validate({"table": table}).at(Path("/here")).table
    assert found is not None
    assert found.handles == Path("/here/runs/complete/registry/handles.csv")
