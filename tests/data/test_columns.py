"""Cells become cells of a type, or nothing."""

import datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.data.columns import MISSING_TEXTS, Kind, Writing, as_text, rows_named, typed, without_missing


@pytest.mark.parametrize(
    ("cells", "kind", "expected"),
    [
        (pl.Series(["1", "x"]), "number", [1.0, None]),
        (pl.Series([datetime.date(2024, 1, 1)]), "number", [None]),
        (pl.Series([1, 2]), "category", ["1", "2"]),
        (pl.Series([2**63 - 1]), "category", ["9223372036854775807"]),
        (pl.Series([1.0, 2.5, None, 1e300]), "category", ["1", "2.5", None, "1e+300"]),
        (pl.Series(["007"]), "category", ["007"]),
        (pl.Series(["TRUE", "0", "2"]), "boolean", [True, False, None]),
        (pl.Series([1.0, 0.0, 2.0]), "boolean", [True, False, None]),
        (pl.Series([True, None]), "boolean", [True, None]),
        (pl.Series(["low", "Low"]), ("low", "high"), ["low", None]),
        (pl.Series([2, 1]), ("1", "2"), ["2", "1"]),
        (pl.Series(["2024-02-30", "2024-02-29 23:59"]), "date", [None, datetime.date(2024, 2, 29)]),
        (pl.Series([20240229]), "date", [None]),
    ],
)
def test_cells_become_the_kind_or_nothing(cells: pl.Series, kind: Kind, expected: list[object]) -> None:
    assert typed(cells, kind).to_list() == expected


@pytest.mark.parametrize(
    ("texts", "writing", "expected"),
    [
        (["1.234,5", "2,5", "7", "1.5", "12.34,5"], Writing(",", "."), [1234.5, 2.5, 7.0, None, None]),
        (["1,234.50", "1.5", "1,5", "-1,000"], Writing(".", ","), [1234.5, 1.5, None, -1000.0]),
        (["1 234", "1\u202f234,5"], Writing(",", " "), [1234.0, 1234.5]),
        (["12'000"], Writing(".", "'"), [12000.0]),
    ],
)
def test_numbers_can_be_written_in_other_ways(texts: list[str], writing: Writing, expected: list[float | None]) -> None:
    assert typed(pl.Series(texts), "number", writing).to_list() == expected


@pytest.mark.parametrize(
    ("texts", "dates", "expected"),
    [
        (
            ["1.2.2024", "31.02.2024", "01.02.24", "1.2.2024 10:30"],
            "%d.%m.%Y",
            ["2024-02-01", None, None, "2024-02-01"],
        ),
        (["01.02.24"], "%d.%m.%y", ["2024-02-01"]),
        (["1/2/24"], "%d/%m/%Y", [None]),
        (["1-Feb-2024", "1-2-0024"], "%d-%b-%Y", ["2024-02-01", None]),
        (["01.02.2024 10:30"], "%d.%m.%Y %H:%M", ["2024-02-01"]),
    ],
)
def test_dates_can_be_written_in_other_ways(texts: list[str], dates: str, expected: list[str | None]) -> None:
    assert typed(pl.Series(texts), "date", Writing(dates=dates)).cast(pl.String).to_list() == expected


def test_a_moment_with_a_time_zone_has_the_date_of_utc() -> None:
    moment = pl.Series([datetime.datetime(2024, 3, 1, 23, 30)]).dt.replace_time_zone("America/New_York")
    assert typed(moment, "date").to_list() == [datetime.date(2024, 3, 2)]


def test_missing_texts_and_not_a_number_become_null() -> None:
    assert without_missing(pl.Series([" ? ", " a", "", "NA"]), MISSING_TEXTS).to_list() == [None, "a", None, None]
    assert without_missing(pl.Series(["NA", "-"]), ["-"]).to_list() == ["NA", None]
    assert without_missing(pl.Series([1.0, float("nan")]), MISSING_TEXTS).to_list() == [1.0, None]


@given(st.lists(st.floats(allow_nan=False) | st.none(), min_size=1))
def test_numbers_survive_being_written_as_text(values: list[float | None]) -> None:
    cells = pl.Series(values, dtype=pl.Float64)
    assert typed(as_text(cells), "number").to_list() == values


@given(st.lists(st.integers(1, 1000), min_size=1, unique=True).map(sorted))
def test_row_numbers_are_all_accounted_for(rows: list[int]) -> None:
    words = rows_named(rows).replace(",", "").split()
    named = [int(word) for word in words if word.isdigit()]
    assert named == rows if len(rows) <= 5 else named == [*rows[:5], len(rows) - 5]
