"""A table's columns in bins: each has enough rows, and its words say what it holds."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.information.bins import column_in_bins, columns_in_bins


def table(rows: int = 400, seed: int = 2) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    gone = pl.Series(rng.random(rows) < 0.2)
    return pl.DataFrame(
        {
            "id": range(rows),
            "number": pl.Series(rng.normal(size=rows)).set(gone, None),
            "mostly zero": rng.poisson(0.2, rows),
            "day": [date(2020, 1, 1) + timedelta(days=int(days)) for days in rng.integers(900, size=rows)],
            "town": pl.Series(rng.choice([*"abcdefgh"], rows, p=[0.5, 0.2, 0.15, 0.05, 0.04, 0.03, 0.02, 0.01])),
            "flag": pl.Series(rng.random(rows) < 0.3).set(gone, None),
            "level": rng.choice(["low", "middle", "high"], rows, p=[0.5, 0.47, 0.03]),
            "hardly there": pl.Series(rng.normal(size=rows)).set(pl.Series(rng.random(rows) < 0.98), None),
            "empty": pl.Series([None] * rows, dtype=pl.Float64),
            "one": ["same"] * rows,
        }
    )


@pytest.mark.parametrize("min_rows", [1, 30, 1000])
@pytest.mark.parametrize("most", [2, 6])
def test_every_bin_has_enough_rows_and_there_are_not_too_many(most: int, min_rows: int) -> None:
    frame = table()
    types = {"level": ("low", "middle", "high")}
    found = columns_in_bins(table_from_frame(frame, "id", "telco", types), most=most, min_rows=min_rows)
    for column in found:
        rows = np.bincount(column.bins, minlength=len(column.meanings))
        assert len(rows) == len(column.meanings) <= most + 1, column.name
        filled = rows[rows > 0]
        assert (filled >= min_rows).all() or len(filled) == 1, column.name


def test_words_say_what_is_in_a_bin() -> None:
    frame = table()
    for column in columns_in_bins(table_from_frame(frame, "id", "telco"), most=4, min_rows=20):
        for number, meaning in enumerate(column.meanings):
            cells = frame[column.name].filter(pl.Series(column.bins == number))
            if meaning.text == "missing":
                assert cells.null_count() == len(cells)
            elif column.name == "number":
                low, high = float(meaning.above or -np.inf), float(meaning.up_to or np.inf)
                assert ((cells > low) & (cells <= high)).all()
            elif column.name == "day":
                low, high = (date.fromisoformat(end) if end else None for end in (meaning.above, meaning.up_to))
                assert low is None or (cells > low).all()
                assert high is None or (cells <= high).all()
            elif column.name == "town":
                assert set(cells) == ({meaning.text} if len(meaning.text) == 1 else set("defgh"))


def test_what_is_too_small_joins_the_fullest_bin() -> None:
    cells = pl.Series("town", ["a"] * 2 + ["b"] * 9 + ["c"] * 5 + [None])
    found = column_in_bins(cells, "category", most=5, min_rows=4, party="telco")
    assert [meaning.text for meaning in found.meanings] == ["b, or other levels, or missing", "c"]
    assert np.bincount(found.bins).tolist() == [12, 5]
    rare = column_in_bins(pl.Series("town", [*"abcdef", None]), "category", most=5, min_rows=4, party="telco")
    assert [meaning.text for meaning in rare.meanings] == ["other levels, or missing"]
    ordered = pl.Series("level", ["low"] * 5 + ["high"] * 5, dtype=pl.Enum(["low", "middle", "high"]))
    levels = column_in_bins(ordered, ("low", "middle", "high"), most=2, min_rows=2, party="telco")
    assert [meaning.text for meaning in levels.meanings] == ["low | middle", "high"]
