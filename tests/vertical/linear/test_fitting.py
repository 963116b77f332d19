"""Linear models: the same on every engine, as pooled to a tolerance, and at the minimum that they promise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients
from sklearn.linear_model import LogisticRegression, Ridge

from unpooled.arrays import Floats
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.agreement import widths_apart
from unpooled.vertical.linear.descent import batches, order_of
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit
from unpooled.vertical.linear.parameters import PAPER_PRESETS, outputs_of
from unpooled.vertical.linear.predictor import score
from unpooled.vertical.targets import one_hot
from unpooled.vertical.team import alone

Make = Callable[..., Any]

TEAMS = ["two", "three", "five", "the active without columns", "a passive one without columns"]
KINDS: dict[str, dict[str, Any]] = {
    "two classes": {"classes": 2},
    "softmax": {"classes": 3},
    "one-versus-rest": {"classes": 3, "several": "one-versus-rest"},
    "a number": {"classes": 0},
}
SMALL = {"epochs": 2, "batch_rows": 300, "insecure_batch": True}
TINY = {"epochs": 1, "batch_rows": 30, "insecure_batch": True}
OPTIMISERS: dict[str, dict[str, Any]] = {
    "momentum": {},
    "adam": {"optimiser": "adam", "learning_rate": 0.05},
    "plain": {"optimiser": "plain", "learning_rate": 0.8},
}


def same(one: Any, other: Any) -> None:
    """Equal to the last digit: weights, what optimisers remember, losses, and scores."""
    assert one.weights() == other.weights()
    assert one.losses == other.losses
    np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize(
    ("team", "kind"), [(team, kind) for n, team in enumerate(TEAMS) for kind in list(KINDS)[n % 2 :: 2]]
)
def test_shares_equal_plain_and_come_near_pooled(together: Make, scene: Make, team: str, kind: str) -> None:
    parameters, data = with_gradients(**KINDS[kind] | SMALL), scene()
    run = together(parameters, team, "shares", data=data)
    same(run, together(parameters, team, "plain", data=data))
    pooled = fit(alone(), parameters, data.columns(), data.target(parameters.classes))
    np.testing.assert_allclose(run.scores, score(alone(), pooled.model, data.matrix), atol=2e-4)
    np.testing.assert_allclose(run.losses, pooled.losses, rtol=1e-3)
    assert run.losses[1] < run.losses[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("team", ["two", "three"])
def test_paillier_equals_plain(together: Make, scene: Make, team: str, kind: str) -> None:
    parameters, data = with_gradients(**KINDS[kind] | TINY), scene(60)
    same(together(parameters, team, "paillier", data=data), together(parameters, team, "plain", data=data))


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_each_optimiser_on_shares(together: Make, optimiser: str) -> None:
    parameters = with_gradients(**SMALL | {"epochs": 4} | OPTIMISERS[optimiser])
    run = together(parameters, "three", "shares")
    same(run, together(parameters, "three", "plain"))
    assert run.losses[-1] < 0.9 * run.losses[0]


@pytest.mark.parametrize("limit", [0.5, 8.0])
def test_any_limit(together: Make, scene: Make, limit: float) -> None:
    parameters, data = with_gradients(**SMALL, limit=limit), scene()
    run = together(parameters, "two", "shares", data=data)
    pooled = fit(alone(), parameters, data.columns(), data.target())
    np.testing.assert_allclose(run.scores, score(alone(), pooled.model, data.matrix), atol=2e-4)
    clipped = data.__class__(np.clip(data.matrix, -limit, limit), data.truth, data.weights)
    assert together(parameters, "two", "shares", data=clipped).weights() == run.weights()


# against floating point, written down once more


def slopes_of(parameters: LinearParameters, z: Floats, truth: Floats) -> Floats:
    """The derivative of the approximate loss by the scores."""
    if not parameters.classes:
        return z - truth[:, np.newaxis]
    if parameters.classes == 2:
        return z / 4 + 0.5 - truth[:, np.newaxis]
    labels = one_hot(truth, parameters.classes)
    if parameters.several == "one-versus-rest":
        return z / 4 + 0.5 - labels
    return (z - z.mean(axis=1, keepdims=True)) / parameters.classes + 1 / parameters.classes - labels


def by_hand(parameters: LinearParameters, matrix: Floats, truth: Floats) -> Floats:
    """The scores after so many epochs."""
    rows = len(matrix)
    x = np.concatenate([np.clip(matrix, -4, 4), np.ones((rows, 1))], axis=1)
    weights = np.zeros((x.shape[1], outputs_of(parameters)))
    velocity, squares, penalised = np.zeros_like(weights), np.zeros_like(weights), np.ones((x.shape[1], 1))
    penalised[-1] = 0
    steps, order = 0, order_of(rows)
    rate = parameters.learning_rate if parameters.classes else parameters.learning_rate / 4
    for _ in range(parameters.epochs):
        for part in batches(parameters, rows, {"": x.shape[1]}):
            inside, y = x[order[part]], truth[order[part]]
            slope = inside.T @ slopes_of(parameters, inside @ weights, y) / len(y) + parameters.l2 * penalised * weights
            steps += 1
            if parameters.optimiser == "plain":
                weights = weights - rate * slope
            elif parameters.optimiser == "momentum":
                velocity = 0.9 * velocity + slope
                weights = weights - rate * velocity
            else:
                velocity, squares = 0.9 * velocity + 0.1 * slope, 0.999 * squares + 0.001 * slope**2
                mean, spread = velocity / (1 - 0.9**steps), np.sqrt(squares / (1 - 0.999**steps))
                weights = weights - rate * mean / (spread + 1e-8)
    return x @ weights


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_descent_is_what_it_says(scene: Make, kind: str, optimiser: str) -> None:
    parameters = with_gradients(**KINDS[kind] | SMALL | {"l2": 0.05, "tolerance": 0} | OPTIMISERS[optimiser])
    data = scene()
    truth = data.truth[parameters.classes]
    if not parameters.classes:
        truth = (truth - truth.mean()) / truth.std()
    fitted = fit(alone(), parameters, data.columns(), data.target(parameters.classes))
    expected = by_hand(parameters, data.matrix, truth)
    np.testing.assert_allclose(score(alone(), fitted.model, data.matrix), expected, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_objective_over_its_curvature(scene: Make, kind: str) -> None:
    parameters, data = with_gradients(**KINDS[kind] | SMALL | {"l2": 0.3}), scene()
    truth = data.truth[parameters.classes]
    if not parameters.classes:
        truth = (truth - truth.mean()) / truth.std()
    fitted = fit(alone(), parameters, data.columns(), data.target(parameters.classes))
    curvature = {"two classes": 2, "one-versus-rest": 2, "softmax": 3 / 2, "a number": 1 / 2}[kind]
    residuals = slopes_of(parameters, score(alone(), fitted.model, data.matrix), truth)
    penalty = parameters.l2 / 2 * np.sum(np.array(fitted.model.part.weights) ** 2)
    expected = (residuals**2).sum(axis=1).mean() + penalty / curvature
    assert fitted.losses[-1] == pytest.approx(expected, rel=1e-3)


def test_l2_of_a_number_is_that_of_ridge_regression(scene: Make) -> None:
    data = scene()
    l2 = 0.2
    parameters = with_gradients(classes=0, l2=l2, epochs=300, patience=300, batch_rows=1200, limit=8.0)
    fitted = fit(alone(), parameters, data.columns(), data.target(0))
    ridge = Ridge(alpha=l2 * len(data.matrix)).fit(data.matrix, data.truth[0])
    ours = fitted.model.scale * np.array(fitted.model.part.weights)[:, 0]
    np.testing.assert_allclose(ours, ridge.coef_, atol=2e-3)


def test_l2_of_two_classes_is_scikit_learns_c(scene: Make) -> None:
    """Where l2 is so strong that all scores are near zero, the approximate loss is the loss."""
    data, l2 = scene(), 20.0
    parameters = with_gradients(l2=l2, learning_rate=0.01, epochs=300, patience=300, batch_rows=1200, limit=8.0)
    fitted = fit(alone(), parameters, data.columns(), data.target())
    reference = LogisticRegression(C=1 / (l2 * len(data.matrix)), tol=1e-10).fit(data.matrix, data.truth[2])
    np.testing.assert_allclose(np.array(fitted.model.part.weights)[:, 0], reference.coef_[0], atol=1e-4)


def test_the_seeds_settings_are_there(scene: Make) -> None:
    found = {name: (p.l2, p.learning_rate, p.batch_rows) for name, p in PAPER_PRESETS.items()}
    assert found == {"experiments 1 and 2": (0.8, 0.001, 64), "experiment 3": (0.4, 0.0002, 32)}
    data = scene()
    fitted = fit(alone(), PAPER_PRESETS["experiments 1 and 2"], data.columns(), data.target())
    found_scores = score(alone(), fitted.model, data.matrix)[:, 0]
    assert found_scores[data.truth[2] == 1].mean() > found_scores[data.truth[2] == 0].mean() + 0.1


# odd data


def accuracy(matrix: Floats, truth: Floats, **settings: Any) -> float:
    names = tuple(f"c{number}" for number in range(matrix.shape[1]))
    fitted = fit(alone(), with_gradients(**settings), Columns(matrix, names), Target(truth))
    assert np.isfinite(fitted.model.part.weights).all()
    return float(((score(alone(), fitted.model, matrix)[:, 0] > 0) == truth).mean())


def test_collinear_and_constant_columns_and_separable_data(scene: Make) -> None:
    data = scene()
    ordinary = accuracy(data.matrix, data.truth[2])
    twice = np.concatenate([data.matrix, data.matrix, -data.matrix[:, :1]], axis=1)
    assert accuracy(twice, data.truth[2]) == pytest.approx(ordinary, abs=0.01)
    constant = np.concatenate([data.matrix, np.zeros((1200, 1)), np.full((1200, 1), 3.0)], axis=1)
    assert accuracy(constant, data.truth[2], learning_rate=0.05) == pytest.approx(ordinary, abs=0.01)
    assert accuracy(data.matrix, (data.matrix[:, 0] > 0).astype(float)) > 0.97


def test_rows_may_come_sorted(scene: Make) -> None:
    data = scene(4000)
    by_label = np.argsort(data.truth[2], kind="stable")
    mixed = accuracy(data.matrix, data.truth[2], validation_fraction=0.25)
    assert accuracy(data.matrix[by_label], data.truth[2][by_label], validation_fraction=0.25) == pytest.approx(
        mixed, abs=0.01
    )


def test_batches_are_cut_once_and_as_large_as_promised() -> None:
    order = order_of(50_000)
    assert np.array_equal(order, order_of(50_000))
    assert np.array_equal(np.sort(order), np.arange(50_000))
    assert abs(np.corrcoef(order, np.arange(50_000))[0, 1]) < 0.05
    for rows, width in ((1, 3), (999, 3), (1000, 50), (50_000, 51), (50_000, 3000)):
        sizes = [part.stop - part.start for part in batches(with_gradients(), rows, {"a": 2, "b": width})]
        assert sum(sizes) == rows
        assert min(sizes) >= min(max(1000, 20 * width), rows)
        assert max(sizes) - min(sizes) <= 1


GOLDEN = {"momentum": "e3afde01bbd18453", "adam": "1332a63aaa241b32", "plain": "b4e1b09062bcb5bb"}
"""Digests of weights, which are to be the same on every machine."""


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_the_same_bits_on_every_machine(optimiser: str) -> None:
    numbers = np.arange(2000 * 4).reshape(2000, 4)
    matrix = (numbers * 7919 % 1009) / 300 - 1.7
    truth = (matrix[:, 0] + matrix[:, 1] ** 2 > matrix[:, 2] + 1).astype(float)
    weights = 1 + numbers[:, 0] % 5 / 3
    parameters = with_gradients(epochs=4, batch_rows=500, **OPTIMISERS[optimiser])
    fitted = fit(alone(), parameters, Columns(matrix, ("a", "b", "c", "d")), Target(truth, weights))
    text = f"{fitted.model.part.weights} {fitted.model.intercept} {fitted.losses}"
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == GOLDEN[optimiser]


def test_pooled_columns_are_cut_into_the_batches_of_parties_that_are_apart() -> None:
    """Two parties of 40 columns have batches of 1,000 rows, one of 80 columns would have more."""
    rng, names = np.random.default_rng(3), tuple(map(str, range(80)))
    matrix = rng.normal(size=(3_300, 80))
    target = Target((matrix[:, 0] + rng.normal(size=3_300) > 0).astype(float))

    def weights(blocks: tuple[int, ...] = (), **settings: Any) -> Any:
        columns = Columns(matrix, names, blocks, active=1 if blocks else None)
        return fit(alone(), LinearParameters(epochs=1, **settings), columns, target).model.part.weights

    assert weights((40, 40)) == weights(batch_rows=1_000) != weights()
    assert widths_apart(Columns(matrix, names, (40, 40), active=1)) == {"block 1": 40, "block 2": 41}
