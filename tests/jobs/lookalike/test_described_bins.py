"""Columns in bins: what they say of groups that are known as counts only is what the groups' own rows would say."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Ints
from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.lookalike.described_bins import MOST_BINS, BinnedColumn, binned, lines_from
from unpooled.jobs.lookalike.in_common import Line, described

ROWS, FEWEST, MOST = 600, 10, 60


def made(seed: int = 1) -> Table:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "calls": rng.lognormal(size=ROWS).round(4),
            "lines": rng.integers(1, 5, ROWS),
            "since": [date(2015, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 3000, ROWS)],
            "tariff": rng.choice(["basic", "plus", "family"], ROWS),
            "owner": rng.random(ROWS) < 0.5,
        }
    )
    return table_from_frame(frame, "id", "telco", {"tariff": "category"})


def groups(seed: int = 1, listed: int = 150, others: int = 350) -> tuple[Ints, Ints]:
    order = np.random.default_rng([seed, 1]).permutation(ROWS)
    return order[:listed], order[listed : listed + others]


def counts(columns: list[BinnedColumn], *groups: Ints) -> Ints:
    """What the product gives."""
    each = [[np.bincount(column.bins[rows], minlength=column.size) for rows in groups] for column in columns]
    return np.concatenate([np.array(group).T for group in each])


def told(table: Table, columns: list[str], listed: Ints, others: Ints, fewest: int = FEWEST) -> list[Line]:
    found = binned(table, columns, fewest, MOST)
    return lines_from("telco", found, counts(found, listed, others), fewest)


@pytest.mark.parametrize("seed", range(5))
def test_levels_and_numbers_of_few_values_are_described_exactly(seed: int) -> None:
    table, (listed, others) = made(seed), groups(seed)
    columns = ["tariff", "owner", "lines"]
    pooled = described(table, columns, listed, others, FEWEST)
    exact = [line for line in pooled if line.measure != "median"]
    assert [line for line in told(table, columns, listed, others) if line.measure != "median"] == exact
    assert len(exact) > 1


@pytest.mark.parametrize("seed", range(5))
def test_means_and_medians_from_ranges_are_near(seed: int) -> None:
    table, (listed, others) = made(seed), groups(seed)
    calls = table.frame["calls"].to_numpy()
    listed = listed[calls[listed] > np.median(calls) / 2]
    pooled = described(table, ["calls", "since"], listed, others, FEWEST)
    found = told(table, ["calls", "since"], listed, others)
    assert [line.measure for line in found] == [line.measure for line in pooled] == ["mean", "median", "median month"]
    for line, exact in zip(found, pooled, strict=True):
        near = {"abs": 3} if line.measure == "median month" else {"rel": 0.1}
        assert (line.listed, line.others) == pytest.approx((exact.listed, exact.others), **near)


def test_the_order_of_rows_changes_nothing() -> None:
    table, (listed, others) = made(), groups()
    order = np.random.default_rng(9).permutation(ROWS)
    place = np.argsort(order)
    columns = list(table.kinds)
    assert told(table.take(order), columns, place[listed], place[others]) == told(table, columns, listed, others)


@pytest.mark.parametrize("most", [9, 30, 60, 1000])
@pytest.mark.parametrize("fewest", [1, 10, 40])
def test_bins_are_few_and_full(most: int, fewest: int) -> None:
    table = made()
    cells = table.frame["calls"]
    some = pl.Series(np.arange(ROWS) % 7 == 0)
    frame = table.frame.with_columns(cells.set(some, None).alias("calls"), pl.col("id").alias("name"))
    found = binned(
        Table("telco", "", ("id",), table.kinds | {"name": "category"}, frame), list(frame.columns[1:]), fewest, most
    )
    assert found
    assert sum(column.size for column in found) <= most
    for column in found:
        assert column.size <= MOST_BINS
        assert len(column.bins) == ROWS
        assert np.bincount(column.bins, minlength=column.size).min() >= 2 * fewest
        for one, next_one in zip(column.ranges, column.ranges[1:], strict=False):
            assert one[-1] < next_one[0], "equal values are together"
    assert "name" not in [column.name for column in found], "every level is rare"


def table_of(values: list[Any], kind: str = "category") -> Table:
    return table_from_frame(pl.DataFrame({"id": range(len(values)), "x": values}), "id", "telco", {"x": kind})


def test_missing_cells_are_no_level() -> None:
    table = table_of(["a"] * 60 + ["b"] * 60 + [None] * 80)
    (column,) = binned(table, ["x"], FEWEST, MOST)
    assert (column.levels, column.counted, column.size) == (("a", "b"), 2, 3)
    rows = np.arange(200)
    listed, others = rows[::2], rows[1::2]
    listed, others = np.append(listed, 1), others[1:]
    assert told(table, ["x"], listed, others) == described(table, ["x"], listed, others, FEWEST) != []


def test_other_levels_count_though_they_are_not_told() -> None:
    table = table_of(["a"] * 60 + ["b"] * 60 + [f"rare {number}" for number in range(80)])
    (column,) = binned(table, ["x"], FEWEST, MOST)
    assert (column.levels, column.counted, column.size) == (("a", "b"), 3, 3)
    listed = np.append(np.arange(0, 90), [150, 160])
    others = np.setdiff1d(np.arange(200), listed)
    (line,) = told(table, ["x"], listed, others)
    assert (line.level, line.listed, line.others) == ("b", 0.326, 0.278), "30 of 92, 30 of 108"
    assert [line] == described(table, ["x"], listed, others, FEWEST)


def test_too_few_for_a_bin_join_the_fullest() -> None:
    (column,) = binned(table_of(["a"] * 60 + ["b"] * 90 + ["c"] * 3 + [None] * 4), ["x"], FEWEST, MOST)
    assert (column.levels, column.size, column.counted) == (("b", "a"), 2, 2)
    assert np.bincount(column.bins).tolist() == [97, 60]
    (column,) = binned(table_of([1.0] * 50 + [2.0] * 70 + [None] * 5, "number"), ["x"], FEWEST, MOST)
    assert np.bincount(column.bins).tolist() == [50, 75]


def test_nothing_is_said_of_few_people() -> None:
    table = made()
    listed, others = groups(listed=9)
    assert told(table, list(table.kinds), listed, others) == []
    tariff = table.frame["tariff"].to_numpy()
    listed = np.concatenate([np.flatnonzero(tariff == "plus")[:40], np.flatnonzero(tariff == "basic")[:9]])
    others = np.setdiff1d(np.arange(ROWS), listed)
    assert {line.level for line in told(table, ["tariff"], listed, others)} == {"plus"}
    assert binned(table_of(["a"] * 19), ["x"], FEWEST, MOST) == []
    assert binned(table_of([None] * 30 + [1.0] * 19, "number"), ["x"], FEWEST, MOST) == []


def test_columns_beyond_the_most_bins_are_left_out() -> None:
    assert [column.name for column in binned(made(), ["owner", "tariff", "lines"], FEWEST, 7)] == ["owner", "tariff"]
    assert binned(made(), ["owner"], FEWEST, 2) == []
