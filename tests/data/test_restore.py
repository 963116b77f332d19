"""Columns get the types of their source back, or are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.data.coding import learn, replace_cells
from unpooled.data.restore import check_restorable, restored
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError

TYPED = {
    "tiny": pl.Series([1, 2, 250], dtype=pl.UInt8),
    "half": pl.Series([0.5, 1.5, 2.5], dtype=pl.Float32),
    "money": pl.Series([Decimal("1.25"), Decimal("2.50"), Decimal("3.75")], dtype=pl.Decimal(10, 2)),
    "level": pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"])),
    "word": pl.Series(["x", "y", "x"]),
    "day": pl.Series([date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "midnight": pl.Series([datetime(2024, 1, day) for day in (1, 2, 3)]),
    "utc": pl.Series([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
    "yes": pl.Series([True, False, True]),
}


def again(table: Table, name: str) -> pl.Series:
    whole = learn(name, table.kinds[name], table.frame[name]).whole
    return restored(table.frame[name], table.kinds[name], table.dtypes.get(name), whole=whole)


@pytest.mark.parametrize("name", TYPED)
def test_a_typed_column_comes_back_as_it_was(name: str) -> None:
    frame = pl.DataFrame({"id": [1, 2, 3], name: TYPED[name]})
    table = table_from_frame(frame, "id", "clinic")
    check_restorable(table)
    assert again(table, name).equals(frame[name], check_dtypes=True)


def test_a_column_of_text_gets_the_usual_type(tmp_path: Path) -> None:
    path = tmp_path / "clinic.csv"
    path.write_text("id,visits,dose,ward,seen,late\n1,3,0.5,a,2024-01-02,true\n2,,1.5,b,2023-05-06,false\n")
    table = load(TableSettings(path=path, id=("id",)), "clinic")
    check_restorable(table)
    types = [again(table, name).dtype for name in table.kinds]
    assert types == [pl.Int64, pl.Float64, pl.Categorical, pl.Date, pl.Boolean]


BERLIN = pl.Series([datetime(2024, 1, 1)] * 3).dt.replace_time_zone("Europe/Berlin")
LOST: dict[str, tuple[pl.Series, dict[str, Any], str]] = {
    "a time of day": (pl.Series([datetime(2024, 1, 1, 7)] * 3), {}, "time of day"),
    "midnight elsewhere": (BERLIN, {}, "time zone"),
    "long integers": (pl.Series([2**53 + 1, 2, 3]), {}, "15 digits"),
    "long decimals": (pl.Series([Decimal("12345678901234567.25")] * 3), {}, "15 digits"),
    "truths as words": (pl.Series([True, False, True]), {"x": "category"}, "written as Boolean"),
    "dates as words": (pl.Series([date(2024, 1, 2)] * 3), {"x": "category"}, "written as Date"),
}


@pytest.mark.parametrize("what", LOST)
def test_what_could_not_be_given_back_is_refused(what: str) -> None:
    cells, types, reason = LOST[what]
    table = table_from_frame(pl.DataFrame({"id": [1, 2, 3], "x": cells}), "id", "clinic", types)
    with pytest.raises(InputError, match=f"^clinic: data frame: column 'x': .*{reason}"):
        check_restorable(table)


def test_long_integers_of_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "clinic.csv"
    path.write_text("id,account\n1,9007199254740993\n2,12345678901234567890\n")
    with pytest.raises(InputError, match=r"clinic\.csv: column 'account': .*15 digits"):
        check_restorable(load(TableSettings(path=path, id=("id",)), "clinic"))


def test_a_column_may_have_any_name() -> None:
    table = table_from_frame(pl.DataFrame({"id": [1, 2], "self": [1.0, 2.0]}), "id", "clinic")
    column = learn("self", "number", table.frame["self"])
    values, where = table.frame["self"].to_numpy().reshape(-1, 1) + 1, [[True], [False]]
    changed = replace_cells(table, [column], values, pl.DataFrame(where, orient="row").to_numpy())
    assert changed.frame["self"].to_list() == [2.0, 2.0]
