"""From the outputs of models to cells: values, confidence, draws; and columns as things to be predicted."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.isotonic import IsotonicRegression

from unpooled.complete.column_model import ColumnModel, Steps, column_model, increasing, paper_confidence, reliability
from unpooled.complete.variables import Variable, binned, matrix_of, variables_of
from unpooled.data.columns import Kind
from unpooled.data.table import table_from_frame

RNG = np.random.default_rng


def variable(cells: list[Any], kind: Kind | None = None, most_classes: int = 20, rows: int | None = None) -> Variable:
    frame = pl.DataFrame({"id": range(len(cells)), "lab": cells})
    table = table_from_frame(frame, "id", "clinic", {"lab": kind} if kind else None)
    return variables_of(table, rows, most_classes)[0]


def test_classes_are_the_values_that_occur() -> None:
    found = variable(["b", None, "a", "b"])
    assert (found.classes, found.labels[[0, 2, 3]].tolist()) == (2, [1, 0, 1])
    assert np.isnan(found.labels[1])
    ordered = variable(["low", "high", "low"], ("low", "middle", "high"))
    assert (ordered.codes, ordered.labels.tolist()) == ((0, 2), [0, 1, 0])
    assert variable([True, False, True]).classes == 2
    assert variable([1.5, 2.5]).classes == variable([date(2024, 1, 1), date(2024, 1, 2)]).classes == 0


def test_rare_levels_are_pooled_and_drawn_again() -> None:
    cells = ["a"] * 50 + ["b"] * 30 + ["c"] * 12 + ["d"] * 6 + ["e"] * 2
    found = variable(cells, most_classes=3)
    assert found.classes == 3
    assert np.bincount(found.labels.astype(int)).tolist() == [50, 30, 20]
    model = column_model(found, np.eye(3)[found.labels.astype(int)], np.ones(100, bool), None)
    always_other = np.tile([0.0, 0.0, 1.0], (4000, 1))
    assert set(model.values(always_other)) == {2.0}, "the most frequent of the pooled"
    drawn = np.bincount(model.drawn(always_other, RNG(1)).astype(int), minlength=5) / 4000
    assert drawn == pytest.approx([0, 0, 0.6, 0.3, 0.1], abs=0.03)


def test_hundreds_of_levels_become_few_classes() -> None:
    found = variable([f"level {number % 300}" for number in range(900)])
    assert found.classes == 20
    assert np.nanmax(found.labels) == 19


@pytest.mark.parametrize(("cells", "constant"), [([1.0, 1.0, None], True), ([None, None], True), ([1.0, 2.0], False)])
def test_a_column_with_one_value_is_constant(cells: list[Any], constant: bool) -> None:
    assert variable(cells).constant is constant


def test_rows_behind_the_table_are_missing() -> None:
    found = variable([1.0, 2.0], rows=4)
    assert found.known.tolist() == [True, True, False, False]
    assert matrix_of([found, found], 4).shape == (4, 2)


def test_bins_hold_about_equally_many_rows() -> None:
    codes, count = binned(variable([*RNG(1).normal(size=999).tolist(), None]))
    assert count == 11
    assert np.bincount(codes)[:10].min() > 90
    assert codes[-1] == 10
    assert binned(variable(["x", "y", "x"]))[1] == 2


def test_steps_are_those_of_scikit_learn() -> None:
    rng = RNG(2)
    x = rng.random(200)
    y = x**2 + rng.normal(size=200) / 5
    reference = IsotonicRegression().fit(x, y).predict(x)
    assert increasing(x, y).at(x) == pytest.approx(reference, abs=1e-12)


def test_equal_places_have_one_value() -> None:
    assert increasing(np.zeros(4), np.array([1.0, 0.0, 0.0, 1.0])) == Steps(places=(0.0,), values=(0.5,))


def test_a_few_cells_make_no_class_certain() -> None:
    """Neither altogether nor at the ends; and the order of the blocks stays."""
    yes, outputs = variable(["no", "yes"] * 3), np.eye(2)[[0, 1] * 3] * 0.9 + 0.05
    assert column_model(yes, outputs, np.ones(6, bool), None).confidence(outputs[:1], None) == pytest.approx([7 / 8])
    wrong = column_model(yes, outputs[:, ::-1], np.ones(6, bool), None).confidence(outputs[:1], None)
    assert wrong == pytest.approx([1 / 8], abs=1e-5)
    rng = RNG(5)
    x = np.sort(rng.random(400))
    right = (rng.random(400) < x).astype(float)
    right[:2], right[-2:] = 0, 1
    alone, found = increasing(x, right).at(x), reliability(x, right).at(x)
    assert (alone.min(), alone.max()) == (0, 1)
    assert found.min() > 0.01
    assert found.max() < 0.99
    assert (np.diff(found) > 0).tolist() == (np.diff(alone) > 0).tolist()
    middle = (alone > 0.2) & (alone < 0.8)
    assert found[middle] == pytest.approx(alone[middle], abs=0.02)


def test_the_papers_confidence_of_classes_and_numbers() -> None:
    assert paper_confidence(np.array([[0.2, 0.8], [0.5, 0.5]]), 2).tolist() == [0.8, 0.5]
    numbers = np.array([[1.0], [3.0], [5.0]])
    spread = np.std([1, 3, 5])
    assert paper_confidence(numbers, 0) == pytest.approx([max(1 - 2 / spread, 0), 1, max(1 - 2 / spread, 0)])
    assert paper_confidence(np.ones((3, 1)), 0).tolist() == [1, 1, 1]


def test_confidence_in_classes_is_how_often_such_predictions_are_right() -> None:
    rng = RNG(3)
    truth = (rng.random(4000) < 0.5).astype(float)
    sure = rng.random(4000)
    right = rng.random(4000) < 0.5 + sure / 4  # between 0.5 and 0.75, whatever the models say
    said = np.where(right, truth, 1 - truth)
    outputs = np.where(said[:, np.newaxis] == [0, 1], (0.5 + sure / 2)[:, np.newaxis], (0.5 - sure / 2)[:, np.newaxis])
    model = column_model(variable([["no", "yes"][int(one)] for one in truth]), outputs, np.ones(4000, bool), None)
    found = model.confidence(np.array([[0.45, 0.55], [0.02, 0.98]]), None)
    assert found == pytest.approx([0.52, 0.74], abs=0.06)


def test_confidence_in_numbers_follows_the_expected_errors() -> None:
    rng = RNG(4)
    ranks = rng.random(4000)
    truth = rng.normal(size=4000)
    outputs = (truth + rng.normal(size=4000) * ranks)[:, np.newaxis]
    model = column_model(variable(truth.tolist()), outputs, np.ones(4000, bool), ranks)
    found = model.confidence(outputs[:3], np.array([0.05, 0.5, 0.95]))
    assert found[0] > 0.85
    assert 0.3 < found[1] < 0.7
    assert found[2] < 0.2


def test_intervals_hold_nine_of_ten_values_of_new_rows() -> None:
    rng = RNG(8)
    ranks, truth = rng.random(8000), rng.normal(size=8000)
    outputs = (truth + rng.normal(size=8000) * ranks)[:, np.newaxis]
    model = column_model(variable(truth[:4000].tolist()), outputs[:4000], np.ones(4000, bool), ranks[:4000])
    low, high = model.interval(outputs[4000:], ranks[4000:])
    assert ((low <= truth[4000:]) & (truth[4000:] <= high)).mean() == pytest.approx(0.9, abs=0.02)
    wide = high - low
    assert wide[ranks[4000:] < 0.2].mean() < wide[ranks[4000:] > 0.8].mean() / 2
    assert (low >= truth[:4000].min()).all()


def test_draws_of_numbers_are_known_values_and_as_spread_as_the_truth() -> None:
    rng = RNG(5)
    prediction = rng.normal(size=5000)
    truth = prediction + rng.normal(size=5000)
    model = column_model(variable(truth.tolist()), prediction[:, np.newaxis], np.ones(5000, bool), None)
    drawn = model.drawn(prediction[:, np.newaxis], RNG(6))
    assert set(drawn) <= set(truth)
    assert drawn.std() == pytest.approx(truth.std(), rel=0.05)
    assert np.corrcoef(drawn, prediction)[0, 1] == pytest.approx(np.corrcoef(truth, prediction)[0, 1], abs=0.03)
    assert np.array_equal(drawn, model.drawn(prediction[:, np.newaxis], RNG(6)))


def test_values_stay_in_the_observed_range() -> None:
    model = column_model(variable([1, 2, 9]), np.array([[1.0], [2.0], [9.0]]), np.ones(3, bool), None)
    assert model.values(np.array([[-5.0], [4.2], [99.0]])).tolist() == [1, 4.2, 9]
    assert model.drawn(np.array([[4.0]]), RNG(1))[0] in (1, 2, 9)


def test_a_model_is_saved_as_json() -> None:
    model = column_model(variable(["x", "y"] * 5), np.eye(2)[[0, 1] * 5], np.ones(10, bool), None)
    assert ColumnModel.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize("change", [{"pooled": (1,)}, {"donors": (1.0,)}])
def test_lists_that_do_not_fit_together_are_refused(change: dict[str, Any]) -> None:
    model = column_model(variable([1.0, 2.0]), np.array([[1.0], [2.0]]), np.ones(2, bool), None)
    with pytest.raises(ValueError, match="lengths"):
        ColumnModel.model_validate(model.model_dump() | change)
