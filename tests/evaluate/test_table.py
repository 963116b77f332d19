"""Judging a completed table, with the truth known."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score, r2_score

from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.evaluate.table import evaluate_table, matching_rows

ROWS = 200
LEVELS = ("low", "middle", "high")


def truth_table() -> Table:
    rng = np.random.default_rng(1)
    x = rng.normal(size=ROWS)
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "x": x,
            "y": x + 0.2 * rng.normal(size=ROWS),
            "text": np.where(x > 0, "up", "down"),
            "other": np.where(x > 0.5, "far", "near"),
            "size": np.array(LEVELS)[np.digitize(x, [-0.5, 0.5])],
            "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(10 * value)) for value in x],
        }
    )
    return table_from_frame(frame, "id", "telco", {"size": LEVELS})


def shuffled(table: Table) -> Table:
    """Every column by itself in another order: the same distributions, no association."""
    rng = np.random.default_rng(2)
    columns = [table.frame[name][rng.permutation(ROWS)] for name in table.kinds]
    return replace(table, frame=table.ids.with_columns(columns))


def test_the_truth_itself_has_no_errors() -> None:
    truth = truth_table()
    found = evaluate_table(truth, truth)
    assert found.rows == ROWS
    for name, column in found.columns.items():
        assert (column.cells, column.missing) == (ROWS, 0)
        classes = name in ("text", "other", "size")
        assert column.errors == (
            {"accuracy": 1.0, "macro_f1": 1.0} if classes else {"r2": 1.0, "rmse": 0.0, "mae": 0.0}
        )
        assert set(column.distribution.values()) == {0.0}
    assert found.association == 0.0
    assert len(found.pairs) == 15


def test_shuffled_columns_keep_distributions_and_lose_associations() -> None:
    truth, wrong = truth_table(), shuffled(truth_table())
    found = evaluate_table(wrong, truth)
    assert found.columns["y"].distribution == {"ks": 0.0, "wasserstein": 0.0}
    assert found.columns["text"].distribution == {"total_variation": 0.0}
    assert found.columns["y"].errors["r2"] == pytest.approx(r2_score(truth.frame["y"], wrong.frame["y"]))
    score = f1_score(truth.frame["text"].to_numpy(), wrong.frame["text"].to_numpy(), average="macro")
    assert found.columns["text"].errors["macro_f1"] == pytest.approx(score)
    pairs = {pair.columns: pair for pair in found.pairs}
    for columns in (("x", "y"), ("x", "text"), ("text", "other"), ("x", "size")):
        assert pairs[columns].truth > 0.3
        assert abs(pairs[columns].completed) < 0.2
    assert found.association == pytest.approx(np.mean([pair.difference for pair in found.pairs]))


def test_only_cells_under_the_mask_count() -> None:
    truth = truth_table()
    mask = np.zeros((ROWS, 6), np.bool_)
    mask[:50, 1] = True
    shifted = truth.frame.with_columns((pl.col("y") + 3 * (pl.int_range(ROWS) < 50)).alias("y"))
    found = evaluate_table(replace(truth, frame=shifted), truth, mask)
    assert list(found.columns) == ["y"]
    assert found.rows == 50
    column = found.columns["y"]
    assert (column.cells, column.errors["mae"]) == (50, pytest.approx(3.0))
    assert column.distribution["wasserstein"] == pytest.approx(3.0 / truth.frame["y"][:50].std(ddof=0))
    assert column.moments["completed"]["mean"] - column.moments["truth"]["mean"] == pytest.approx(3.0)
    assert {name for pair in found.pairs for name in pair.columns} == set(truth.kinds)
    assert all("y" in pair.columns for pair in found.pairs)


def test_missing_cells_are_counted_and_unknown_truth_is_left_out() -> None:
    truth = truth_table()
    truth_with_gaps = replace(truth, frame=truth.frame.with_columns(y=pl.when(pl.int_range(ROWS) >= 20).then("y")))
    blank = replace(truth, frame=truth.frame.with_columns(y=pl.when(pl.int_range(ROWS) >= 50).then("y")))
    column = evaluate_table(blank, truth_with_gaps).columns["y"]
    assert (column.cells, column.missing) == (ROWS - 50, 30)
    nothing = replace(truth, frame=truth.frame.with_columns(y=pl.lit(None, pl.Float64)))
    column = evaluate_table(nothing, truth).columns["y"]
    assert (column.cells, column.missing, column.errors, column.distribution) == (0, ROWS, {}, {})


def test_what_is_undefined_is_left_out() -> None:
    same = table_from_frame(pl.DataFrame({"id": [1, 2], "x": [5, 5]}), "id", "telco")
    column = evaluate_table(same, same).columns["x"]
    assert column.errors == {"rmse": 0.0, "mae": 0.0}
    assert column.distribution == {"ks": 0.0}


def test_rows_are_matched_by_id_in_any_order() -> None:
    truth = truth_table()
    order = np.random.default_rng(1).permutation(ROWS)
    some = truth.take(order[:80])
    assert evaluate_table(some, truth).association == 0.0
    np.testing.assert_array_equal(matching_rows(some, truth), order[:80])


def test_what_does_not_match_is_refused_by_name() -> None:
    truth = truth_table()
    stranger = replace(truth, frame=truth.frame.with_columns(id=pl.col("id").replace("7", "elsewhere")))
    with pytest.raises(InputError, match="telco: data frame: column 'id': row 8"):
        evaluate_table(stranger, truth)
    with pytest.raises(InputError, match="telco: data frame: column 'id': rows 1 and 2: an id is repeated"):
        evaluate_table(truth, truth.take(np.array([3, 3, 4])))
    without = table_from_frame(truth.frame.drop("y"), "id", "bank", {"size": LEVELS})
    with pytest.raises(InputError, match="bank: data frame: column 'y'"):
        evaluate_table(truth, without)
    with pytest.raises(InputError, match="mask"):
        evaluate_table(truth, truth, np.ones((3, 3), np.bool_))
