"""Kinds: inference by the written rules, and cells that are not of the declared kind."""

import datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.data.columns import MISSING_TEXTS, Kind, as_text, infer, rows_named, typed, without_missing


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2.5", "1e6", "+3", ".5"], "number"),
        (["1", None], "number"),
        ([None, None], "number"),
        (["0", "0.5", "-0.5"], "number"),
        (["007", "12"], "category"),
        (["1", "1,5"], "category"),
        (["1", "x"], "category"),
        (["2024-02-29", "1969-12-31"], "date"),
        (["2024-02-29 10:30:00", "2024-02-29T10:30:00.5Z"], "date"),
        (["2024-02-29", "2023-02-29"], "category"),
        (["29.02.2024"], "category"),
        (["True", "false", None], "boolean"),
        (["yes", "no"], "category"),
    ],
)
def test_text_of_a_csv_file_is_looked_at(texts: list[str | None], kind: Kind) -> None:
    assert infer(pl.Series(texts, dtype=pl.String), untyped=True) == kind


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pl.Series(["1", "2"]), "category"),
        (pl.Series([1, 2]), "number"),
        (pl.Series(["1.50"]).cast(pl.Decimal(10, 2)), "number"),
        (pl.Series([True]), "boolean"),
        (pl.Series([datetime.date(2024, 1, 1)]), "date"),
        (pl.Series([datetime.datetime(2024, 1, 1)]), "date"),
        (pl.Series(["a"]).cast(pl.Categorical), "category"),
        (pl.Series(["a"]).cast(pl.Enum(["a"])), "category"),
        (pl.Series([None]), "number"),
        (pl.Series([[1]]), None),
        (pl.Series([b"1"]), None),
    ],
)
def test_types_of_a_typed_source_are_kept(cells: pl.Series, kind: Kind | None) -> None:
    assert infer(cells, untyped=False) == kind


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
