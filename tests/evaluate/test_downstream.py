"""Whether completing helps a classifier, and whether filled rows are copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.evaluate.closest import closest_record
from unpooled.evaluate.downstream import Downstream, Rows, downstream


def rows_of(count: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(count, 2)), rng.normal(size=(count, 2))
    labels = a[:, 0] + 2 * b[:, 0] + rng.normal(size=count) > 0
    return Rows(labels.astype(np.int64), a, b)


def small_trees() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=20, max_depth=3, random_state=1)


def test_the_truth_closes_the_gap_and_noise_does_not() -> None:
    train, test = rows_of(1500, 1), rows_of(1500, 2)
    aligned = np.arange(1500) < 60
    found = downstream(train, test, aligned, [train.b], small_trees)
    assert found.completed == found.truth
    assert found.gap_closed == 1.0
    assert found.a_only < found.aligned < found.truth
    rng = np.random.default_rng(3)
    noise = [np.where(aligned[:, np.newaxis], train.b, rng.normal(size=train.b.shape)) for _ in range(2)]
    worse = downstream(train, test, aligned, noise, small_trees)
    assert worse.truth == found.truth
    assert worse.gap_closed is not None
    assert worse.gap_closed < 0.5


def test_the_gap_is_undefined_where_the_truth_is_no_better() -> None:
    assert Downstream(0.8, 0.7, 0.8, 0.9, 0.8).gap_closed is None
    assert Downstream(0.6, 0.7, 0.7, 0.7, 0.8).gap_closed == pytest.approx(0.5)


def test_shapes_that_do_not_match_are_refused() -> None:
    rows = rows_of(20, 1)
    with pytest.raises(InputError, match="same rows"):
        Rows(rows.labels[1:], rows.a, rows.b)
    for aligned, completed in ((np.ones(20, np.bool_), []), (np.ones(3, np.bool_), [rows.b])):
        with pytest.raises(InputError, match="downstream"):
            downstream(rows, rows, aligned, completed, small_trees)


def table_of(values: np.ndarray) -> Table:  # type: ignore[type-arg]
    kinds = np.where(values[:, 0] > 0, "up", "down")
    return table_from_frame(
        pl.DataFrame({"id": range(len(values)), "x": values[:, 0], "y": values[:, 1], "kind": kinds}), "id", "telco"
    )


def test_copies_are_found_and_fresh_rows_are_as_near_to_either() -> None:
    rng = np.random.default_rng(1)
    training, held_out, fresh = (table_of(rng.normal(size=(rows, 2))) for rows in (400, 200, 500))
    honest = closest_record(fresh, training, held_out)
    assert honest.expected == pytest.approx(2 / 3)
    assert honest.nearer_to_training == pytest.approx(2 / 3, abs=0.07)
    assert honest.copies == 0.0
    copied = closest_record(training.take(np.arange(50)), training, held_out)
    assert (copied.nearer_to_training, copied.copies, copied.median_to_training) == (1.0, 1.0, 0.0)
    assert copied.median_to_held_out > 0.0


def test_without_rows_nothing_can_be_compared() -> None:
    table = table_of(np.ones((3, 2)))
    empty = replace(table, party="bank").take(np.arange(0))
    with pytest.raises(InputError, match="bank"):
        closest_record(table, empty, table)
