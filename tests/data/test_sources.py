"""Files as sources: what is read, how it is understood, and how faults are reported."""

import gzip
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from unpooled.data.sources import ROWS_FOR_A_LOOK, TableSettings, load, read, schema
from unpooled.errors import InputError

PEOPLE = """id,age,code,city,since,active
007,31,01,Malmö,2020-01-31,true
08, ?,02,"a, b",NA,False
009,4.5e1,,東京,1969-12-31,
"""


def csv(folder: Path, text: str | bytes = PEOPLE, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_csv_file_becomes_a_typed_table(tmp_path: Path) -> None:
    table = load(TableSettings(path=csv(tmp_path), id="id"), "clinic")
    expected = {"age": "number", "code": "category", "city": "category", "since": "date", "active": "boolean"}
    assert table.kinds == expected
    assert table.frame["id"].to_list() == ["007", "08", "009"]
    assert table.frame["age"].to_list() == [31.0, None, 45.0]
    assert table.frame["code"].to_list() == ["01", "02", None]
    assert table.frame["city"].to_list() == ["Malmö", "a, b", "東京"]
    assert table.frame["since"].cast(pl.Int32).to_list() == [18292, None, -1]
    assert table.frame["active"].to_list() == [True, False, None]


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    plain = load(TableSettings(path=csv(tmp_path), id="id"), "clinic")
    windows = csv(tmp_path, "\ufeff" + PEOPLE.replace("\n", "\r\n"), "windows.csv")
    assert_frame_equal(load(TableSettings(path=windows, id="id"), "clinic").frame, plain.frame)


def test_only_named_columns_are_read(tmp_path: Path) -> None:
    settings = TableSettings(path=csv(tmp_path), id="id", columns=["city", "age"])
    assert read(settings, "clinic").columns == ["id", "city", "age"]
    nothing = TableSettings(path=csv(tmp_path), id="id", columns=[])
    assert load(nothing, "clinic").frame.columns == ["id"]


def test_declared_types_and_missing_texts_count(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,district,rating\n1,10,low\n2,-,high\n")
    types = {"district": "category", "rating": ["low", "middle", "high"]}
    table = load(TableSettings(path=path, id="id", types=types, missing=["-"]), "bank")
    assert table.kinds == {"district": "category", "rating": ("low", "middle", "high")}
    assert table.frame["district"].to_list() == ["10", None]
    assert table.frame["rating"].to_physical().to_list() == [0, 2]


def test_ids_are_stripped_and_missing_texts_are_no_ids(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,x\n 001 ,1\n01,2\n NA,3\n-,4\n,5\n")
    pl.read_csv(path, infer_schema=False).write_parquet(tmp_path / "people.parquet")
    for source in (path, tmp_path / "people.parquet"):
        ids = load(TableSettings(path=source, id="id"), "clinic").frame["id"].to_list()
        assert ids == ["001", "01", None, "-", None]
        ids = load(TableSettings(path=source, id="id", missing=["-"]), "clinic").frame["id"].to_list()
        assert ids == ["001", "01", "NA", None, None]


def test_schema_looks_at_the_first_rows_only(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i}\n" for i in range(ROWS_FOR_A_LOOK))
    settings = TableSettings(path=csv(tmp_path, f"id,x\n{rows}late,text\n"), id="id")
    assert schema(settings, "clinic") == {"x": "number"}
    assert load(settings, "clinic").kinds == {"x": "category"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "people.csv: .*empty"),
        ("key,x\n1,2\n", "column 'id': .*key, x"),
        ("id;x\n1;2,5\n", "column 'id': .*id;x .*commas"),
        ("id\tx\n1\t2\n", r"column 'id': .*id\tx .*commas"),
        ("id,x,x\n1,2,3\n", "column 'x': "),
        ("id,x\n1,2\n2,3,4\n", "people.csv: row 2: 3 .* 2"),
        (b"id,x\n1,\xe4\n", "people.csv: .*UTF-8"),
        ('id,x\n1,"secret\n', "people.csv: .*quot"),
        ("id,x\n1,5\n2,a\n3,4\n4,b\n", "people.csv: column 'x': rows 2 and 4: "),
    ],
)
def test_faults_of_a_csv_file_are_located(tmp_path: Path, content: str | bytes, words: str) -> None:
    settings = TableSettings(path=csv(tmp_path, content), id="id", columns=["x"], types={"x": "number"})
    with pytest.raises(InputError, match=rf"^clinic: .*{words}"):
        load(settings, "clinic")


def test_broken_and_absent_files_are_named(tmp_path: Path) -> None:
    broken = gzip.compress(PEOPLE.encode())[:-20]
    for name, content, words in [
        ("people.parquet", b"no parquet", ".*Parquet"),
        ("people.csv.gz", broken, ".*unexpected end of file"),
    ]:
        with pytest.raises(InputError, match=rf"^clinic: .*{name}: {words}"):
            load(TableSettings(path=csv(tmp_path, content, name), id="id"), "clinic")
    with pytest.raises(InputError, match=r"absent\.csv"):
        load(TableSettings(path=tmp_path / "absent.csv", id="id"), "clinic")


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.parquet"])
def test_a_folder_is_not_a_table_whatever_is_in_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    csv(tmp_path / name)
    with pytest.raises(InputError, match=rf"^clinic: .*{name}: .*folder"):
        load(TableSettings(path=tmp_path / name, id="id"), "clinic")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"id": "id"}, "path or postgres"),
        ({"id": "id", "path": "a.csv", "postgres": "dbname=x", "table": "t"}, "path or postgres"),
        ({"id": "id", "postgres": "dbname=x"}, "table or query"),
        ({"id": "id", "postgres": "dbname=x", "table": "t", "query": "select 1"}, "table or query"),
        ({"id": "id", "path": "a.csv", "table": "t"}, "table or query"),
        ({"id": "id", "path": "a.xlsx"}, "path"),
        ({"id": [], "path": "a.csv"}, "id"),
        ({"id": "id", "path": "a.csv", "columns": ["id"]}, "id"),
        ({"id": "id", "path": "a.csv", "types": {"x": ["one"]}}, "levels"),
        ({"id": "id", "path": "a.csv", "colour": "red"}, "colour"),
        ({"id": "id", "postgres": "postgresql://me:hunter2@host/db", "table": "t"}, "password"),
        ({"id": "id", "postgres": "host=h password = hunter2", "table": "t"}, "password"),
        ({"id": "id", "postgres": "postgresql://host/db?password=hunter2", "table": "t"}, "password"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        TableSettings.model_validate(settings)
    assert "hunter2" not in str(caught.value)


def test_every_setting_is_described() -> None:
    assert all(field.description for field in TableSettings.model_fields.values())
