"""What is kept of predictions: figures in which no row shows, and the file in which every row has a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unpooled.evaluate.metrics import auc, log_loss, r2
from unpooled.jobs.learning.labels import Labels
from unpooled.jobs.learning.scores import (
    calibration_of,
    curves_of,
    histogram_of,
    metrics_of,
    write_predictions,
)

ROWS = 40
RNG = np.random.default_rng(1)
CHANCES = RNG.random((ROWS, 1))
ALL = np.ones(ROWS, bool)


def labels(names: tuple[str, ...], values: np.ndarray, weights: np.ndarray | None = None) -> Labels:
    weights = np.ones(len(values)) if weights is None else weights
    return Labels(pl.Series(values), values, np.ones(len(values), bool), weights, names)


TWO = labels(("no", "yes"), (RNG.random(ROWS) < CHANCES[:, 0]).astype(float), RNG.random(ROWS) + 0.1)


def test_metrics_are_those_of_the_chosen_rows_with_their_weights() -> None:
    half = np.arange(ROWS) < ROWS // 2
    truth, chances, weights = TWO.values[half], CHANCES[half, 0], TWO.weights[half]
    assert metrics_of(TWO, CHANCES, half)["auc"] == auc(truth, chances, weights)
    numbers = labels((), RNG.normal(size=ROWS))
    assert metrics_of(numbers, CHANCES, ALL)["r2"] == r2(numbers.values, CHANCES[:, 0])
    assert metrics_of(TWO, CHANCES, ~ALL) == {}


def test_a_forest_whose_weights_were_rounded_can_be_judged() -> None:
    truth = labels(("a", "b", "c"), RNG.integers(0, 3, ROWS).astype(float))
    shares = RNG.dirichlet(np.ones(3), ROWS)
    rounded = shares * (1 + 1e-4 * RNG.normal(size=(ROWS, 1)))
    assert metrics_of(truth, rounded, ALL)["log_loss"] == pytest.approx(log_loss(truth.values, shares))
    assert metrics_of(truth, np.zeros((ROWS, 3)), ALL)["log_loss"] == pytest.approx(np.log(3))
    beyond = np.where(TWO.values[:, np.newaxis] > 0, 1 + 1e-5, -1e-5)
    assert metrics_of(TWO, beyond, ALL)["accuracy"] == 1


def test_curves_are_for_two_classes_that_are_both_there() -> None:
    assert curves_of(TWO, CHANCES, ALL).keys() == {"roc", "precision_recall"}
    assert curves_of(TWO, CHANCES, TWO.values == 1).keys() == {"precision_recall"}
    assert curves_of(TWO, CHANCES, TWO.values == 0) == {}
    assert curves_of(TWO, CHANCES, ~ALL) == {}
    assert curves_of(labels((), RNG.normal(size=ROWS)), CHANCES, ALL) == {}


def test_calibration_groups_rows_by_what_was_predicted() -> None:
    groups = calibration_of(TWO, CHANCES, ALL)
    assert [group["rows"] for group in groups] == [4] * 10
    assert [group["prediction"] for group in groups] == sorted(group["prediction"] for group in groups)
    lowest = np.argsort(CHANCES[:, 0])[:4]
    assert groups[0]["prediction"] == pytest.approx(np.average(CHANCES[lowest, 0], weights=TWO.weights[lowest]))
    assert groups[0]["truth"] == pytest.approx(np.average(TWO.values[lowest], weights=TWO.weights[lowest]))
    assert len(calibration_of(TWO, CHANCES, np.arange(ROWS) < 3)) == 3
    assert calibration_of(TWO, CHANCES, ~ALL) == []
    assert calibration_of(labels(("a", "b", "c"), TWO.values), np.ones((ROWS, 3)) / 3, ALL) == []


def test_histograms_count_every_row() -> None:
    found = histogram_of(CHANCES, ("no", "yes"))
    assert (found["edges"][0], found["edges"][-1], len(found["counts"])) == (0.0, 1.0, 20)
    assert sum(found["counts"]) == ROWS
    assert found["counts"][0] == int((CHANCES < 0.05).sum())
    assert sum(histogram_of(np.full((5, 1), 1 + 1e-5), ("no", "yes"))["counts"]) == 5
    numbers = histogram_of(np.array([[-3.0], [7.0]]), ())
    assert (numbers["edges"][0], numbers["edges"][-1]) == (-3.0, 7.0)
    assert sum(histogram_of(np.full((5, 1), 2.5), ())["counts"]) == 5


def test_scores_come_back_from_the_file_exactly(tmp_path: Path) -> None:
    odd = np.array([[1 / 3], [1e-300], [0.1 + 0.2], [5e-324], [123456789.123456789]])
    write_predictions(tmp_path, pl.DataFrame({"id": ["a", "b,c", 'd"', "é", "007"]}), odd, ())
    found = pl.read_csv(tmp_path / "predictions.csv", schema_overrides={"id": pl.String})
    assert np.array_equal(found["score"].to_numpy(), odd[:, 0])
    assert found["id"].to_list() == ["a", "b,c", 'd"', "é", "007"]
    assert (tmp_path / "predictions.csv").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]
