"""Files as sources: what is read, how it is understood, and how faults are reported."""

import gzip
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from unpooled.data.sources import RowsSettings, TableSettings, column_names, load, look, read
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


def test_a_bad_cell_far_down_is_an_error_with_row_value_and_settings(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i}\n" for i in range(1, 1500))
    path = csv(tmp_path, f"id,x\n{rows}late,none\n")
    with pytest.raises(InputError, match=r"^clinic: .*people\.csv: column 'x': row 1500: 'none'") as caught:
        load(TableSettings(path=path, id="id"), "clinic")
    assert all(word in str(caught.value) for word in ("missing", 'types = {x = "category"}', "unfit = 0.0007"))
    assert not caught.value.shareable, "a peer must not see the cell"
    for more, kind, last in (
        ({"missing": ["none"]}, "number", None),
        ({"types": {"x": "category"}}, "category", "none"),
        ({"unfit": 0.0007}, "number", None),
    ):
        table = load(TableSettings(path=path, id="id", **more), "clinic")
        assert (table.kinds["x"], table.frame["x"][-1]) == (kind, last)
    assert [note.rows for note in look(TableSettings(path=path, id="id", unfit=0.001), "clinic").notes] == [(1500,)]


def test_all_bad_columns_are_named_at_once(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,x,y\n1,1,2024-01-01\n2,2,2024-01-02\n3,a,b\n")
    with pytest.raises(InputError) as caught:
        load(TableSettings(path=path, id="id"), "clinic")
    first, second = str(caught.value).splitlines()
    assert ("column 'x': row 3" in first, "column 'y': row 3" in second) == (True, True)


GERMAN = "id;preis;seit\n1;2,5;31.01.2024\n2;1,25;1.2.2024\n3;7;\n"


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (GERMAN, {}, ["semicolons", "decimal comma", "DD.MM.YYYY"]),
        (GERMAN.encode("utf-16"), {}, ["utf-16", "semicolons", "decimal comma", "DD.MM.YYYY"]),
        (GERMAN.encode("cp1252"), {"encoding": "cp1252"}, ["cp1252", "semicolons", "decimal comma", "DD.MM.YYYY"]),
        (GERMAN.replace(";", "\t").replace(",", "."), {}, ["tabs", "DD.MM.YYYY"]),
        (GERMAN.replace(";", "|").replace(",", "."), {"dates": "%d.%m.%Y"}, ["vertical bars"]),
        (GERMAN.replace(";", "#"), {"separator": "#", "decimal": ","}, ["'#'", "DD.MM.YYYY"]),
    ],
)
def test_other_formats_of_csv_files_are_inferred_and_said_or_set(
    tmp_path: Path, content: str | bytes, more: dict[str, object], said: list[str]
) -> None:
    table = load(TableSettings.model_validate({"path": csv(tmp_path, content), "id": "id", **more}), "clinic")
    assert table.frame["preis"].to_list() == [2.5, 1.25, 7.0]
    assert table.frame["seit"].cast(pl.String).to_list() == ["2024-01-31", "2024-02-01", None]
    assert len(table.notes) == len(said)
    assert all(words in note.text for words, note in zip(said, table.notes, strict=True))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_without_ids_the_separator_is_the_one_with_most_fields(tmp_path: Path, separator: str) -> None:
    path = csv(tmp_path, "height in cm,age years\n1,2\n".replace(",", separator))
    table = load(RowsSettings(path=path), "clinic")
    assert (table.id, list(table.kinds)) == ((), ["height in cm", "age years"])
    alone = load(RowsSettings(path=csv(tmp_path, "age\n1\n2\n")), "clinic")
    assert alone.frame.rows() == [(1.0,), (2.0,)]
    with pytest.raises(InputError, match=r"people\.csv: .*commas, semicolons.*separator"):
        load(RowsSettings(path=csv(tmp_path, "a;b,c\n1;2,3\n")), "clinic")


def test_a_point_beside_decimal_commas_is_not_guessed(tmp_path: Path) -> None:
    path = csv(tmp_path, "id;a;b\n1;2,5;1.500\n2;1,25;2.000\n")
    with pytest.raises(InputError, match=r"column 'b': .*'a'.*decimal.*thousands"):
        load(TableSettings(path=path, id="id"), "clinic")
    table = load(TableSettings(path=path, id="id", decimal=",", thousands="."), "clinic")
    assert table.frame.rows() == [("1", 2.5, 1500.0), ("2", 1.25, 2000.0)]


def test_unnamed_and_repeated_columns_are_named_by_their_place(tmp_path: Path) -> None:
    path = csv(tmp_path, ",id,x\n0,1,2\n1,2,3\n")
    with pytest.raises(InputError, match=r"^clinic: .*people\.csv: column 1 .*no name.*columns = "):
        load(TableSettings(path=path, id="id"), "clinic")
    assert load(TableSettings(path=path, id="id", columns=["x"]), "clinic").kinds == {"x": "number"}
    path = csv(tmp_path, "id,x,y,x\n1,2,3,4\n")
    with pytest.raises(InputError, match=r"people\.csv: column 'x': columns 2 and 4 .*columns = "):
        load(TableSettings(path=path, id="id"), "clinic")
    assert load(TableSettings(path=path, id="id", columns=["y"]), "clinic").kinds == {"y": "number"}
    assert column_names(TableSettings(path=path, id="id"), "clinic") == ["id", "x", "y", "x"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "people.csv: .*empty"),
        ("key,x\n1,2\n", "column 'id': .*key, x"),
        ("key;x\n1;2,5\n", "column 'id': .*key, x"),
        ("a;id;b,id,c\n", "people.csv: .*commas, semicolons.*separator"),
        ("id,x\n1,2\n2,3,4\n", "people.csv: row 2: 3 .* 2"),
        ("id,x,y\n1,2,\n2,3\n", "people.csv: row 2: 2 .* 3"),
        (b"id,x\n1,\xe4\n", "people.csv: .*utf-8.*encoding = "),
        ("id,x\n1,2\n".encode("utf-16-le"), "people.csv: .*utf-16-le"),
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
        ({"id": "id", "path": "a.csv", "separator": ";;"}, "separator"),
        ({"id": "id", "path": "a.csv", "encoding": "klingon"}, "encoding"),
        ({"id": "id", "path": "a.csv", "encoding": "hex"}, "encoding"),
        ({"id": "id", "path": "a.csv", "dates": "%d.%m."}, "dates"),
        ({"id": "id", "path": "a.csv", "unfit": 1}, "unfit"),
        ({"id": "id", "path": "a.csv", "decimal": ",", "thousands": ","}, "decimal and thousands"),
        ({"id": "id", "path": "a.parquet", "separator": ";"}, "separator"),
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


# Data frames


def test_a_data_frame_is_read_like_a_file_with_types(tmp_path: Path) -> None:
    frame = pl.DataFrame({"person": [3, 1], "age": ["20", "?"], "spare": [True, False]})
    frame.write_parquet(tmp_path / "people.parquet")
    settings = {"id": "person", "columns": ["age"], "types": {"age": "number"}, "missing": ["?"]}
    of_file = load(TableSettings(path=tmp_path / "people.parquet", **settings), "bank")
    of_frame = TableSettings.of_frame(frame, **settings)
    for given in (of_frame, TableSettings.of_frame(frame.lazy(), **settings), of_frame.model_copy()):
        found = load(given, "bank")
        assert_frame_equal(found.frame, of_file.frame)
        assert (found.kinds, found.dtypes) == (of_file.kinds, of_file.dtypes)
    assert column_names(of_frame, "bank") == frame.columns
    assert load(of_frame, "bank", tmp_path).column("age").equals(of_file.column("age"))


def test_a_data_frame_that_does_not_fit_is_refused() -> None:
    frame = pl.DataFrame({"person": [3, 1], "age": [20, 30]})
    with pytest.raises(InputError, match=r"^data frame: types\.age"):
        TableSettings.of_frame(frame, "person", types={"age": "count"})
    with pytest.raises(
        InputError, match=r"^bank: data frame: column 'size': there is no such column; there are: person, age"
    ):
        load(TableSettings.of_frame(frame, "person", columns=["size"]), "bank")
    with pytest.raises(InputError, match=r"^bank: data frame: this is a list, not a polars or pandas data frame"):
        load(TableSettings.of_frame([1, 2], "person"), "bank")
    with pytest.raises(ValidationError):
        TableSettings.model_validate({"id": "person", "_frame": frame})
