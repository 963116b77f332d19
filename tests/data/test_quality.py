"""What is said about a table before it is used."""

from __future__ import annotations

import datetime

import polars as pl

from unpooled.data.inference import CellSettings
from unpooled.data.prepare import PrepareSettings
from unpooled.data.quality import Quality, quality_of
from unpooled.data.table import table_from_raw

ROWS = 100


def quality(columns: dict[str, list[object]], ids: list[str] | None = None) -> Quality:
    frame = pl.DataFrame({"id": ids or [f"p{row}" for row in range(ROWS)], **columns})
    return quality_of(table_from_raw(frame, ["id"], "bank", "bank.csv", CellSettings({})), PrepareSettings())


def said(found: Quality, column: str) -> str:
    return "; ".join(f"{note.level} {note.text}" for note in found.notes if note.column == column)


def test_columns_are_counted_and_drawn() -> None:
    found = quality(
        {
            "age": [float(row % 50) if row else None for row in range(ROWS)],
            "city": ["Malmö"] * 60 + ["東京"] * 40,
            "since": [datetime.date(2000 + row % 3, 1, 1) for row in range(ROWS)],
        }
    )
    age, city, since = found.columns
    assert (age.kind, age.missing, age.distinct, age.lowest, age.highest) == ("number", 1, 50, "0", "49")
    assert sum(age.counts) == ROWS - 1
    assert len(age.edges) == len(age.counts) + 1
    assert (city.labels, city.counts) == (("Malmö", "東京"), (60, 40))
    assert (since.labels, since.lowest) == (("2000", "2001", "2002"), "2000-01-01")
    long = quality({"since": [datetime.date(1990 + row % 30, 1, 1) for row in range(ROWS)]}).columns[0]
    assert (long.labels[0], long.labels[-1], sum(long.counts)) == ("1990-1992", "2017-2019", ROWS)
    short = quality({"since": [datetime.date(2020, 1 + row % 12, 1) for row in range(ROWS)]}).columns[0]
    assert (short.labels[0], len(short.labels)) == ("2020-01", 12)
    assert (found.ids[0].distinct, found.ids[0].shortest, found.ids[0].longest) == (ROWS, 2, 3)
    assert (found.rows, found.accepted, found.notes) == (ROWS, True, ())


def test_what_looks_wrong_is_said() -> None:
    found = quality(
        {
            "same": [7.0] * ROWS,
            "empty": [None] * ROWS,
            "gaps": [1.0, 2.0] + [None] * (ROWS - 2),
            "name": [f"name {row}" for row in range(ROWS)],
            "number": [float(row) for row in range(ROWS)],
            "place": ["Rome", "rome"] * (ROWS // 2),
            "text": [str(row % 4) for row in range(ROWS)],
            "spaces": [" a", "b"] * (ROWS // 2),
        }
    )
    assert "same value" in said(found, "same")
    assert "left out" in said(found, "empty")
    assert "98 of 100" in said(found, "gaps")
    assert "id" in said(found, "name")
    assert "id" in said(found, "number")
    assert "capital" in said(found, "place")
    assert "all texts are numbers" in said(found, "text")
    assert "note spaces around 50 cells" in said(found, "spaces")


def test_rare_levels_are_counted() -> None:
    found = quality_of(
        table_from_raw(
            pl.DataFrame({"id": [str(row) for row in range(500)], "code": [f"c{row % 250}" for row in range(500)]}),
            ["id"],
            "bank",
            "bank.csv",
            CellSettings({}),
        ),
        PrepareSettings(),
    )
    assert found.columns[0].pooled == 250
    assert "tells nothing" in said(found, "code")


def test_ids_are_looked_at() -> None:
    numbers = [str(100_000 + row) for row in range(ROWS - 1)] + ["77"]
    assert "leading zeros" in said(quality({}, numbers), "id")
    assert said(quality({}, [f"{row:06}" for row in range(ROWS)]), "id") == ""
    assert said(quality({}, [str(row) for row in range(1, ROWS + 1)]), "id") == "", "these count from 1"
    twice = quality({"x": [float(row) for row in range(ROWS)]}, ["a", "a", *map(str, range(ROWS - 2))])
    assert not twice.accepted
    assert "same id" in said(twice, "")
