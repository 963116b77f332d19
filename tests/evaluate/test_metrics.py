"""Metrics against scikit-learn's, with ties and weights, and where they have no value."""

from collections.abc import Callable

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError
from unpooled.evaluate.metrics import (
    Undefined,
    accuracy,
    auc,
    average_precision,
    f1,
    log_loss,
    macro_auc,
    mae,
    precision,
    precision_recall_curve,
    r2,
    recall,
    rmse,
    roc_curve,
    summary_of_classes,
    summary_of_numbers,
)

WEIGHTINGS = ["none", "ones", "fractions", "some zero"]


def weighting(kind: str, rows: int, rng: np.random.Generator) -> Floats | None:
    drawn = rng.exponential(size=rows)
    return {"none": None, "ones": np.ones(rows), "fractions": drawn, "some zero": drawn * (drawn > 0.5)}[kind]


def two_classes(seed: int, rows: int = 500) -> tuple[Ints, Floats, np.random.Generator]:
    """Truth, and probabilities of which many are equal."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(rows) < 0.3).astype(np.int64)
    chances = np.round(np.clip(0.3 + 0.2 * truth + 0.25 * rng.normal(size=rows), 0.0, 1.0), 1 + seed % 3)
    return truth, chances, rng


def several_classes(seed: int, classes: int, rows: int = 400) -> tuple[Ints, Floats, np.random.Generator]:
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(classes), rng.integers(0, classes, rows - classes)])
    scores = np.exp(np.round(rng.normal(size=(rows, classes)) + 1.5 * (truth[:, np.newaxis] == np.arange(classes))))
    return truth, scores / scores.sum(axis=1, keepdims=True), rng


# Two classes


@pytest.mark.parametrize("kind", WEIGHTINGS)
@pytest.mark.parametrize("seed", range(6))
def test_ranking_metrics_are_scikit_learns(seed: int, kind: str) -> None:
    truth, chances, rng = two_classes(seed)
    weights = weighting(kind, len(truth), rng)
    expected = reference.roc_auc_score(truth, chances, sample_weight=weights)
    assert auc(truth, chances, weights) == pytest.approx(expected, rel=1e-12)
    expected = reference.average_precision_score(truth, chances, sample_weight=weights)
    assert average_precision(truth, chances, weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", WEIGHTINGS)
@pytest.mark.parametrize("seed", range(6))
def test_metrics_of_predictions_are_scikit_learns(seed: int, kind: str) -> None:
    truth, chances, rng = two_classes(seed)
    predicted = (chances > 0.4).astype(np.int64)
    weights = weighting(kind, len(truth), rng)
    pairs: list[tuple[Callable[..., float], Callable[..., float]]] = [
        (accuracy, reference.accuracy_score),
        (precision, reference.precision_score),
        (recall, reference.recall_score),
        (f1, reference.f1_score),
    ]
    for ours, theirs in pairs:
        assert ours(truth, predicted, weights) == pytest.approx(theirs(truth, predicted, sample_weight=weights))


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=40))
def test_auc_counts_pairs(rows: list[tuple[bool, int, int]]) -> None:
    truth, scores, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    ones, zeros = [row for row in rows if row[0]], [row for row in rows if not row[0]]
    pairs = [(u * v, 1.0 if s > t else 0.5 if s == t else 0.0) for _, s, u in ones for _, t, v in zeros]
    if not pairs:
        with pytest.raises(Undefined, match="auc: "):
            auc(truth, scores, weights)
    else:
        expected = sum(weight * won for weight, won in pairs) / sum(weight for weight, _ in pairs)
        assert auc(truth, scores, weights) == pytest.approx(expected, rel=1e-12)
        repeated = np.repeat(np.arange(len(rows)), weights.astype(int))
        assert auc(truth[repeated], scores[repeated]) == pytest.approx(expected, rel=1e-12)


def test_auc_of_the_best_the_worst_and_the_indifferent() -> None:
    truth = np.array([0, 1, 0, 1])
    assert auc(truth, truth) == 1.0
    assert auc(truth, 1 - truth) == 0.0
    assert auc(truth, np.zeros(4)) == 0.5
    assert auc(truth, np.array([-np.inf, np.inf, -np.inf, np.inf])) == 1.0


@pytest.mark.parametrize("kind", WEIGHTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_whole_curves_are_scikit_learns(seed: int, kind: str) -> None:
    truth, chances, rng = two_classes(seed)
    weights = weighting(kind, len(truth), rng)
    far, tpr = roc_curve(truth, chances, weights, curve_points=10_000)
    expected = reference.roc_curve(truth, chances, sample_weight=weights, drop_intermediate=False)
    np.testing.assert_allclose(far, expected[0], atol=1e-12)
    np.testing.assert_allclose(tpr, expected[1], atol=1e-12)
    recalls, precisions = precision_recall_curve(truth, chances, weights, curve_points=10_000)
    expected = reference.precision_recall_curve(truth, chances, sample_weight=weights)
    np.testing.assert_allclose(recalls, expected[1][-2::-1], atol=1e-12)  # theirs goes up, and adds a point at recall 0
    np.testing.assert_allclose(precisions, expected[0][-2::-1], atol=1e-12)


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve])
@pytest.mark.parametrize("points", [2, 3, 50, 200])
def test_thinned_curves_are_points_of_the_whole_one(curve: Callable[..., tuple[Floats, Floats]], points: int) -> None:
    rng = np.random.default_rng(5)
    truth = (rng.random(20_000) < 0.02).astype(np.int64)
    scores = rng.normal(size=20_000) + 1.5 * truth
    whole = list(zip(*curve(truth, scores, curve_points=10**6), strict=True))
    thin = list(zip(*curve(truth, scores, curve_points=points), strict=True))
    assert points // 2 < len(thin) <= points
    assert set(thin) <= set(whole)
    assert (thin[0], thin[-1]) == (whole[0], whole[-1])


def test_a_thinned_curve_still_looks_like_the_whole_one() -> None:
    rng = np.random.default_rng(6)
    truth = (rng.random(50_000) < 0.05).astype(np.int64)
    scores = rng.normal(size=50_000) + 2.0 * truth
    for curve in (roc_curve, precision_recall_curve):
        x, y = curve(truth, scores, curve_points=10**6)
        thin_x, thin_y = curve(truth, scores)
        inner = x > 0.02  # precision jumps about among the first few rows
        assert np.abs(np.interp(x, thin_x, thin_y) - y)[inner].max() < 0.05


# Probabilities


@pytest.mark.parametrize("kind", WEIGHTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_log_loss_is_scikit_learns(seed: int, kind: str) -> None:
    truth, chances, rng = two_classes(seed)  # some are 0 or 1, and wrong
    weights = weighting(kind, len(truth), rng)
    expected = reference.log_loss(truth, chances, sample_weight=weights)
    assert log_loss(truth, chances, weights) == pytest.approx(expected, rel=1e-12)
    both = np.stack([1.0 - chances, chances], axis=1)
    assert log_loss(truth, both, weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", WEIGHTINGS)
@pytest.mark.parametrize("classes", [3, 5])
def test_several_classes_are_scikit_learns(classes: int, kind: str) -> None:
    truth, probabilities, rng = several_classes(classes, classes)
    weights = weighting(kind, len(truth), rng)
    expected = reference.log_loss(truth, probabilities, sample_weight=weights)
    assert log_loss(truth, probabilities, weights) == pytest.approx(expected, rel=1e-12)
    expected = reference.roc_auc_score(truth, probabilities, multi_class="ovr", sample_weight=weights)
    assert macro_auc(truth, probabilities, weights) == pytest.approx(expected, rel=1e-12)


def test_a_class_without_rows_counts_as_possible() -> None:
    assert log_loss(np.array([0, 0]), np.array([[0.5, 0.25, 0.25]] * 2)) == pytest.approx(np.log(2.0))
    assert log_loss(np.zeros(3, int), np.full(3, 0.75)) == pytest.approx(np.log(4.0))


# Numbers


@pytest.mark.parametrize("kind", WEIGHTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_metrics_of_numbers_are_scikit_learns(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=300) * 10.0 + 5.0
    predicted = truth + rng.normal(size=300) * (seed + 1) * 5.0
    weights = weighting(kind, 300, rng)
    assert r2(truth, predicted, weights) == pytest.approx(reference.r2_score(truth, predicted, sample_weight=weights))
    expected = reference.root_mean_squared_error(truth, predicted, sample_weight=weights)
    assert rmse(truth, predicted, weights) == pytest.approx(expected)
    expected = reference.mean_absolute_error(truth, predicted, sample_weight=weights)
    assert mae(truth, predicted, weights) == pytest.approx(expected)


def test_whole_numbers_serve_as_numbers() -> None:
    small = np.array([0, 200, 100], np.uint8)
    assert mae(small, small[::-1].copy()) == pytest.approx(200 / 3)
    assert rmse(small, np.array([255, 200, 100], np.uint8)) == pytest.approx(255 / 3**0.5)


# Summaries


@pytest.mark.parametrize("shape", ["one column", "two columns"])
def test_the_summary_of_two_classes(shape: str) -> None:
    truth, chances, rng = two_classes(0)
    weights = rng.exponential(size=len(truth))
    given = chances if shape == "one column" else np.stack([1.0 - chances, chances], axis=1)
    predicted = (chances >= 0.5).astype(np.int64)
    assert (chances == 0.5).any()
    assert summary_of_classes(truth, given, weights) == {
        "auc": auc(truth, chances, weights),
        "average_precision": average_precision(truth, chances, weights),
        "log_loss": log_loss(truth, given, weights),
        "accuracy": accuracy(truth, predicted, weights),
        "precision": precision(truth, predicted, weights),
        "recall": recall(truth, predicted, weights),
        "f1": f1(truth, predicted, weights),
    }


def test_the_summary_of_several_classes() -> None:
    truth, probabilities, _ = several_classes(1, 4)
    summary = summary_of_classes(truth, probabilities)
    assert summary.keys() == {"accuracy", "log_loss", "macro_auc"}
    assert summary["accuracy"] == pytest.approx(reference.accuracy_score(truth, probabilities.argmax(axis=1)))
    assert all(type(value) is float for value in summary.values())


def test_the_summary_of_numbers() -> None:
    truth, predicted = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    summary = summary_of_numbers(truth, predicted)
    assert summary == pytest.approx({"r2": 1 - 5 / (14 / 3), "rmse": (5 / 3) ** 0.5, "mae": 1.0})
    assert all(type(value) is float for value in summary.values())


def test_summaries_leave_out_what_has_no_value() -> None:
    ones, zeros = np.ones(3), np.zeros(3)
    assert summary_of_classes(ones, np.full(3, 0.9)).keys() == {
        "average_precision", "log_loss", "accuracy", "precision", "recall", "f1",
    }  # fmt: skip
    assert summary_of_classes(ones, np.full(3, 0.1)).keys() == {
        "average_precision", "log_loss", "accuracy", "recall", "f1",
    }  # fmt: skip
    assert summary_of_classes(zeros, np.full(3, 0.1)).keys() == {"log_loss", "accuracy"}
    assert summary_of_classes(zeros, np.full(3, 0.9)).keys() == {"log_loss", "accuracy", "precision", "f1"}
    assert summary_of_classes(zeros, np.full((3, 3), 1 / 3)).keys() == {"log_loss", "accuracy"}
    assert summary_of_numbers(ones, np.arange(3.0)).keys() == {"rmse", "mae"}
    assert summary_of_numbers(np.array([0.1]), np.array([0.2])).keys() == {"rmse", "mae"}
    assert summary_of_classes(np.array([]), np.array([])) == {}
    assert summary_of_classes(np.array([], int), np.empty((0, 3))) == {}
    assert summary_of_numbers(ones, ones, weights=zeros) == {}


def test_summaries_do_not_pass_over_wrong_input() -> None:
    with pytest.raises(InputError, match="not a number"):
        summary_of_classes(np.array([0, 1]), np.array([0.5, np.nan]))
    with pytest.raises(InputError, match="between 0 and 1"):
        summary_of_classes(np.array([0, 1]), np.array([0.5, 1.5]))
    with pytest.raises(InputError, match="infinite"):
        summary_of_numbers(np.array([0.0, 1.0]), np.array([0.5, np.inf]))


# What is refused


@pytest.mark.parametrize("metric", [average_precision, recall, precision_recall_curve])
def test_without_class_1_there_is_no_recall(metric: Callable[..., object]) -> None:
    with pytest.raises(Undefined, match="class 1"):
        metric(np.zeros(4), np.array([0, 1, 0, 1]))


@pytest.mark.parametrize("metric", [auc, roc_curve])
@pytest.mark.parametrize("value", [0, 1])
def test_one_class_alone_cannot_be_told_apart(metric: Callable[..., object], value: int) -> None:
    with pytest.raises(Undefined, match="class"):
        metric(np.full(4, value), np.arange(4.0))
    with pytest.raises(Undefined, match="class"):
        metric(np.array([value, value, 1 - value]), np.arange(3.0), np.array([1.0, 2.0, 0.0]))


def test_shares_of_nothing_are_undefined() -> None:
    with pytest.raises(Undefined, match="precision: "):
        precision(np.array([0, 1]), np.array([0, 0]))
    with pytest.raises(Undefined, match="f1: "):
        f1(np.array([0, 0]), np.array([0, 0]))
    assert f1(np.array([0, 1]), np.array([0, 0])) == 0.0
    with pytest.raises(Undefined, match="macro auc: "):
        macro_auc(np.array([0, 1, 1]), np.full((3, 3), 1 / 3))
    with pytest.raises(Undefined, match="r2: "):
        r2(np.full(3, 0.1), np.arange(3.0))


@pytest.mark.parametrize(
    "metric",
    [
        auc,
        average_precision,
        accuracy,
        precision,
        recall,
        f1,
        log_loss,
        rmse,
        mae,
        r2,
        roc_curve,
        precision_recall_curve,
    ],
)
def test_every_metric_checks_its_rows(metric: Callable[..., object]) -> None:
    truth, values = np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0])
    metric(truth, values, np.array([1.0, 0.5, 0.0]))
    with pytest.raises(InputError, match="rows"):
        metric(truth, values[:2])
    with pytest.raises(InputError, match="rows"):
        metric(truth, values, np.ones(2))
    with pytest.raises(InputError, match="not a number"):
        metric(truth, np.array([0.0, np.nan, 1.0]))
    with pytest.raises(InputError, match="not a number"):
        metric(np.array([0.0, np.nan, 1.0]), values)
    for weight in (-1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="weight"):
            metric(truth, values, np.array([1.0, weight, 1.0]))
    with pytest.raises(Undefined, match="weight"):
        metric(truth, values, np.zeros(3))
    with pytest.raises(Undefined, match="weight"):
        metric(np.empty(0), np.empty(0))


def test_classes_must_be_numbered() -> None:
    for truth in ([0, 1, 2], [-1, 1, 1], [0.5, 1, 0]):
        with pytest.raises(InputError, match=r"auc: .*0 or 1"):
            auc(np.array(truth), np.arange(3.0))
    with pytest.raises(InputError, match=r"precision: .*0 or 1"):
        precision(np.array([0, 1]), np.array([0.3, 0.6]))
    for truth in ([0, 1, 3], [-1, 1, 1], [0.5, 1, 0], [np.inf, 1, 0]):
        with pytest.raises(InputError, match=r"log loss: .*0 to 2"):
            log_loss(np.array(truth), np.full((3, 3), 1 / 3))


def test_probabilities_must_be_some() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        log_loss(np.array([0, 1]), np.array([-0.1, 0.5]))
    with pytest.raises(InputError, match="sum to 1"):
        log_loss(np.array([0, 1]), np.full((2, 3), 0.5))
    with pytest.raises(InputError, match="all classes"):
        macro_auc(np.array([0, 1]), np.array([0.5, 0.5]))


def test_a_curve_has_two_ends() -> None:
    with pytest.raises(InputError, match="2 points"):
        roc_curve(np.array([0, 1]), np.array([0.1, 0.2]), curve_points=1)
