"""Cells as numbers and back."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from unpooled.data.coding import Column, decode, distances, encode, encode_all, learn, learn_all, replace_cells
from unpooled.data.columns import Kind
from unpooled.data.table import table_from_frame
from unpooled.errors import InputError

LEVELS = ("low", "middle", "high")
CELLS: dict[str, tuple[Kind, pl.Series, list[float]]] = {
    "whole": ("number", pl.Series([3.0, None, -1.0]), [3.0, np.nan, -1.0]),
    "broken": ("number", pl.Series([0.5, None, 2.0]), [0.5, np.nan, 2.0]),
    "text": ("category", pl.Series(["b", None, "a"]), [1.0, np.nan, 0.0]),
    "date": ("date", pl.Series([dt.date(1970, 1, 2), None, dt.date(1969, 12, 31)]), [1.0, np.nan, -1.0]),
    "flag": ("boolean", pl.Series([True, None, False]), [1.0, np.nan, 0.0]),
    "ordered": (LEVELS, pl.Series(["high", None, "low"], dtype=pl.Enum(LEVELS)), [2.0, np.nan, 0.0]),
    "nothing": ("number", pl.Series([None, None, None], dtype=pl.Float64), [np.nan, np.nan, np.nan]),
    "no text": ("category", pl.Series([None, None, None], dtype=pl.String), [np.nan, np.nan, np.nan]),
}


@pytest.mark.parametrize("name", CELLS)
def test_every_type_there_and_back(name: str) -> None:
    kind, cells, expected = CELLS[name]
    column = learn(name, kind, cells)
    np.testing.assert_array_equal(encode(column, cells), expected)
    back = decode(column, np.array(expected))
    assert back.dtype == cells.dtype
    assert back.to_list() == cells.to_list()
    assert column.empty == (name in ("nothing", "no text"))
    assert column.whole == (name != "broken")
    assert column.is_number == (kind in ("number", "date"))
    assert Column.model_validate_json(column.model_dump_json()) == column


def test_numbers_are_moved_into_the_range_and_rounded_as_those_seen() -> None:
    assert decode(learn("x", *CELLS["whole"][:2]), np.array([1.6, 9.0, -9.0])).to_list() == [2.0, 3.0, -1.0]
    assert decode(learn("x", *CELLS["broken"][:2]), np.array([1.6, 9.0, -9.0])).to_list() == [1.6, 2.0, 0.5]
    finer = learn("x", "number", pl.Series([0.5, 2.0, 1.25]))
    assert decode(finer, np.array([1.6789, 1.0 / 3.0])).to_list() == [1.68, 0.5]
    endless = learn("x", "number", pl.Series([0.5, 2.0, 1.0 / 3.0]))
    assert endless.decimals is None
    assert decode(endless, np.array([1.6789])).to_list() == [1.6789]
    assert decode(learn("x", *CELLS["flag"][:2]), np.array([0.4, 1.2])).to_list() == [False, True]


def test_only_the_cells_asked_for_are_replaced() -> None:
    frame = pl.DataFrame({"id": [1, 2, 3], "x": [0.1, 0.2, 0.25], "text": ["a", "b", "c"]})
    table = table_from_frame(frame, "id", "telco")
    columns = learn_all(table)
    values = np.array([[np.nan, 1.0], [0.15, np.nan], [0.2, 0.0]])
    new = replace_cells(table, columns, values, np.array([[True, False], [True, True], [False, False]]))
    assert new.frame.rows() == [("1", None, "a"), ("2", 0.15, None), ("3", 0.25, "c")]


def test_a_level_that_was_not_seen_is_unknown() -> None:
    column = learn("text", "category", pl.Series(["a", "b"]))
    assert np.isnan(encode(column, pl.Series(["z"]))[0])


def test_another_type_is_refused() -> None:
    columns = learn_all(table_from_frame(pl.DataFrame({"id": [1], "x": [1]}), "id", "telco"))
    for frame in (pl.DataFrame({"id": [1], "x": ["a"]}), pl.DataFrame({"id": [1], "y": [1]})):
        with pytest.raises(InputError, match="telco: data frame: column 'x'"):
            encode_all(columns, table_from_frame(frame, "id", "telco"))


def test_distances_count_what_both_know() -> None:
    frame = pl.DataFrame({"id": [1, 2, 3], "x": [0.0, 5.0, 10.0], "text": ["a", "b", "c"]})
    columns = learn_all(table_from_frame(frame, "id", "telco"))
    rows = np.array([[0.0, 0.0], [np.nan, 1.0], [np.nan, np.nan]])
    others = np.array([[5.0, 0.0], [30.0, 1.0], [np.nan, 1.0]])
    expected = [[0.25, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    np.testing.assert_allclose(distances(columns, rows, others), expected)
