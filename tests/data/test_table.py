"""Tables from data frames in memory."""

import datetime
from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from unpooled.data.table import table_from_frame
from unpooled.errors import InputError

PEOPLE = {
    "id": ["01", "02", "03"],
    "age": [31.0, None, 45.0],
    "city": ["Malmö", None, "東京"],
    "since": [datetime.date(2020, 1, 31), None, datetime.date(1969, 12, 31)],
    "active": [True, False, None],
}


def test_a_polars_frame_keeps_its_types() -> None:
    table = table_from_frame(pl.DataFrame(PEOPLE), "id", "clinic")
    assert table.kinds == {"age": "number", "city": "category", "since": "date", "active": "boolean"}
    assert_frame_equal(table.frame, pl.DataFrame(PEOPLE))
    assert table.ids.to_dict(as_series=False) == {"id": ["01", "02", "03"]}


def test_a_pandas_frame_gives_the_same_table() -> None:
    frame = pd.DataFrame(PEOPLE).astype({"since": "datetime64[s]", "city": "category"})
    table = table_from_frame(frame, "id", "clinic")
    assert_frame_equal(table.frame, pl.DataFrame(PEOPLE))


def test_types_can_be_declared_and_ids_can_be_several_columns() -> None:
    frame = pl.DataFrame({"bank": ["a", "a"], "account": [1, 2], "district": [7, 9], "rating": ["low", "high"]})
    types = {"district": "category", "rating": ("low", "high")}
    table = table_from_frame(frame, ("bank", "account"), "bank", types)
    assert table.id == ("bank", "account")
    assert table.frame["account"].to_list() == ["1", "2"]
    assert table.frame["district"].to_list() == ["7", "9"]
    assert table.kinds == types


@pytest.mark.parametrize("as_frame", [pl.DataFrame, pd.DataFrame])
def test_ids_lose_white_space_around_them_and_keep_their_zeros(as_frame: Callable[[object], object]) -> None:
    table = table_from_frame(as_frame({"id": [" 001", "1", "a b\t", "NA", " ", "-"]}), "id", "clinic", missing=["-"])
    assert table.frame["id"].to_list() == ["001", "1", "a b", "NA", None, None]


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum([" 01", "NA"])])
def test_ids_kept_as_categories_are_texts_too(dtype: pl.DataType) -> None:
    table = table_from_frame(pl.DataFrame({"id": pl.Series([" 01", "NA"], dtype=dtype)}), "id", "clinic")
    assert table.frame["id"].to_list() == ["01", None]


@pytest.mark.parametrize("typed", [True, False])
def test_a_time_of_day_that_is_dropped_is_said(typed: bool) -> None:
    seen = [datetime.datetime(2024, 1, 1, 7), datetime.datetime(2024, 1, 2)]
    cells = seen if typed else [f"{one:%Y-%m-%d %H:%M}" for one in seen]
    table = table_from_frame(pl.DataFrame({"id": [1, 2], "seen": cells}), "id", "clinic", {"seen": "date"})
    assert [(note.level, str(note)) for note in table.notes] == [
        ("warning", "column 'seen': the time of day is dropped, and the date kept")
    ]
    midnight = pl.DataFrame({"id": [1], "seen": [datetime.datetime(2024, 1, 1)]})
    assert table_from_frame(midnight, "id", "clinic").notes == ()


def test_take_chooses_rows_in_order() -> None:
    table = table_from_frame(pl.DataFrame(PEOPLE), "id", "clinic").take(np.array([2, 0]))
    assert table.frame["id"].to_list() == ["03", "01"]


@pytest.mark.parametrize(
    ("frame", "types", "words"),
    [
        (pl.DataFrame({"key": ["1"]}), {}, "column 'id': .*key"),
        (pl.DataFrame({"id": [1.0]}), {}, "column 'id': .*Float64"),
        (pl.DataFrame({"id": ["1"], "x": [[1]]}), {}, r"column 'x': .*List\(Int64\)"),
        (pl.DataFrame({"id": ["1"]}), {"x": "number"}, "column 'x': "),
        (pl.DataFrame({"id": ["1", "2"], "x": ["1", "a"]}), {"x": "number"}, "column 'x': row 2: "),
        (pl.DataFrame({"id": ["1"], "x": ["mid"]}), {"x": ("low", "high")}, "row 1: .*low, high"),
        (pd.DataFrame({"id": ["1", "2"], "x": [1, "a"]}), {}, "column 'x': .*types"),
    ],
)
def test_errors_say_where(frame: object, types: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=rf"^clinic: data frame: .*{words}"):
        table_from_frame(frame, "id", "clinic", types)
