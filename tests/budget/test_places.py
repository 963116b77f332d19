"""Which book a table has, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from unpooled.budget.places import file_name, name_of, usual_places
from unpooled.data.sources import TableSettings


def test_a_table_is_known_by_its_path_or_address_or_by_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    by_path = TableSettings(path=Path("a.csv"), id=("id",))
    assert name_of(by_path) == name_of(TableSettings(path=tmp_path / "x" / ".." / "a.csv", id=("id",)))
    assert name_of(by_path) != name_of(TableSettings(path=tmp_path / "b.csv", id=("id",)))
    assert name_of(by_path.model_copy(update={"book": "customers"})) == "customers"
    tables = [TableSettings(postgres="host=db dbname=crm", table=name, id=("id",)) for name in ("people", "others")]
    assert name_of(tables[0]) == "host=db dbname=crm people"
    assert name_of(tables[0]) != name_of(tables[1])


def test_names_of_files_are_readable_and_differ() -> None:
    names = ["/data/customers.csv", "/data customers.csv", "../..", "", "ä" * 300]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert all("/" not in file and not file.startswith(".") and len(file) < 60 for file in files)


def test_books_and_anchors_are_in_different_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert {"books", "anchors"} == {usual_places().books.name, usual_places().anchors.name}
    for variable in ("UNPOOLED_BOOKS", "UNPOOLED_ANCHORS", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert usual_places().books == tmp_path / ".local" / "state" / "unpooled" / "books"
    assert usual_places().anchors == tmp_path / ".config" / "unpooled" / "anchors"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert usual_places().books == tmp_path / "state" / "unpooled" / "books"
