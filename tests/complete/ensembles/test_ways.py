"""What each way makes of members' answers, beside cells computed by hand and by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge as ReferenceRidge
from sklearn.linear_model import RidgeClassifier

from unpooled.arrays import Floats
from unpooled.complete.ensembles import dynamic, stacking
from unpooled.complete.ensembles.settings import DynamicSettings, VoteSettings, WeightedSettings
from unpooled.complete.ensembles.trial import Trial, best_members, clearly_better, hidden_cells, mean_losses
from unpooled.complete.ensembles.votes import VOTE, WEIGHTED, Nothing, Weights, column_weights, weighted_vote
from unpooled.data.coding import Column

NUMBER = Column(name="income", kind="number", low=-9.0, high=9.0, whole=False, spread=2.0)
LEVELS = Column(name="tariff", kind="category", levels=("a", "b", "c"), low=0.0, high=2.0, whole=True, spread=1.0)
ALL = np.ones((2, 2), np.bool_)
ANSWERS = np.array([[[1.0, 0.0], [2.0, 1.0]], [[2.0, 1.0], [4.0, 2.0]], [[9.0, 1.0], [3.0, 0.0]]])


def trial_of(truth: Floats, answers: Floats, known: Floats | None = None) -> Trial:
    """One column that was hidden in all rows, or the last of two."""
    hidden = np.zeros((len(truth), 1 if known is None else 2), np.bool_)
    hidden[:, -1] = True
    wide = np.full((len(answers), *hidden.shape), np.nan)
    wide[:, :, -1] = answers
    left = np.full(hidden.shape, np.nan)
    if known is not None:
        left[:, 0] = known
    return Trial(left, hidden, np.where(hidden, truth[:, np.newaxis], left), wide)


def test_votes_by_hand() -> None:
    combine = VOTE.prepare(VoteSettings(), [NUMBER, LEVELS], Nothing(), np.full((2, 2), np.nan), ALL)
    assert combine(ANSWERS).tolist() == [[2.0, 1.0], [3.0, 1.0]], "of three different votes the first member's"


def test_weights_by_hand() -> None:
    weights = Weights(np.array([[0.5, 0.6], [0.5, 0.2], [0.0, 0.2]]))
    combine = WEIGHTED.prepare(WeightedSettings(), [NUMBER, LEVELS], weights, np.full((2, 2), np.nan), ALL)
    assert combine(ANSWERS).tolist() == [[1.5, 0.0], [3.0, 1.0]]
    assert column_weights(NUMBER, 9, np.array([1.0, 3.0])).tolist() == [0.75, 0.25]
    right = np.array([0.8, 0.5, 0.2])
    odds = np.log([0.8 * 2 / 0.2, 0.5 * 2 / 0.5])
    np.testing.assert_allclose(column_weights(LEVELS, 3, 1 - right), [*(odds / odds.sum()), 0.0], atol=1e-12)
    assert column_weights(LEVELS, 2, np.array([0.9, 0.9])).tolist() == [0.5, 0.5], "all worse than chance"
    assert weighted_vote(np.array([[0.0], [1.0], [1.0]]), np.array([0.5, 0.3, 0.3])).tolist() == [1.0]


def test_losses_by_hand() -> None:
    trial = Trial(
        np.full((2, 2), np.nan), np.array([[True, True], [False, True]]), np.array([[3.0, 1.0], [9, 2]]), ANSWERS
    )
    losses = trial.losses([NUMBER, LEVELS])
    np.testing.assert_array_equal(losses[:, :, 0], [[1.0, np.nan], [0.25, np.nan], [9.0, np.nan]])
    assert losses[:, :, 1].tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]
    first = mean_losses(losses)[0]
    np.testing.assert_allclose(first, [(1 + 5 * 1) / 6, (2 + 5 * 1) / 7])
    assert best_members([NUMBER, LEVELS], losses).tolist() == [1, 1]
    assert best_members([NUMBER, LEVELS], losses[:, :0]).tolist() == [0, 0]


def test_one_columns_best_member_must_be_clearly_better_than_that_of_all() -> None:
    rng = np.random.default_rng(1)
    losses = np.stack([np.full((200, 3), 1.0), np.full((200, 3), 1.2)]) + 0.3 * rng.random((2, 200, 3))
    losses[1, :, 2] -= 0.5
    assert best_members([NUMBER] * 3, losses).tolist() == [0, 0, 1]
    losses[1, :, 2] = losses[0, :, 2] + np.where(np.arange(200) == 7, -1.0, 0.004)
    assert losses[:, :, 2].mean(axis=1).argmin() == 1
    assert best_members([NUMBER] * 3, losses).tolist() == [0, 0, 0], "by a single cell"
    assert not clearly_better(np.array([0.0]), np.array([1.0]))


@pytest.mark.parametrize("penalty", [0.5, 30.0])
def test_ridge_is_scikit_learns(penalty: float) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(5.0, 2.0, size=(40, 3))
    targets = features @ rng.normal(size=(3, 2)) + rng.normal(size=(40, 2))
    (found,) = stacking.ridge(features, targets, [penalty])
    reference = ReferenceRidge(alpha=penalty).fit(features, targets)
    np.testing.assert_allclose(found.coefficients, reference.coef_.T, atol=1e-9)
    np.testing.assert_allclose(found.intercept, reference.intercept_, atol=1e-9)
    others = np.arange(40) != 11
    without = ReferenceRidge(alpha=penalty).fit(features[others], targets[others]).predict(features[[11]])
    np.testing.assert_allclose(found.without[11], without[0], atol=1e-9)


def test_scores_of_classes_are_those_of_scikit_learns_classifier() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(3, size=200)
    votes = np.where(rng.random((4, 200)) < 0.6, truth, rng.integers(3, size=(4, 200)))
    features = (votes.T[:, :, np.newaxis] == np.arange(3)).reshape(200, -1).astype(float)
    (found,) = stacking.ridge(features, 2.0 * (truth[:, np.newaxis] == np.arange(3)) - 1.0, [10.0])
    reference = RidgeClassifier(alpha=10.0).fit(features, truth)
    scores = features @ found.coefficients + found.intercept
    np.testing.assert_allclose(scores, reference.decision_function(features), atol=1e-9)


def test_stacking_corrects_what_members_have_in_common_and_nothing_else() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=400)
    biased = np.stack([truth + 1.0 + 0.3 * rng.normal(size=400), truth + 0.3 * rng.normal(size=400) + 1.0])
    learned = stacking.learned_from(trial_of(truth, biased), [NUMBER])
    assert learned.weights.any()
    combine = stacking.STACKING.prepare(None, [NUMBER], learned, np.empty((400, 1)), np.ones((400, 1), np.bool_))
    error = np.mean((combine(biased[:, :, np.newaxis])[:, 0] - truth) ** 2)
    assert error < 0.6 * 0.09, "two members' independent errors, without their bias"
    exact = np.stack([truth, rng.normal(size=400)])
    untouched = stacking.learned_from(trial_of(truth, exact), [NUMBER])
    assert untouched.best.tolist() == [0.0]
    assert not untouched.weights.any()


def test_stacking_of_classes_learns_whose_votes_mean_what() -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(3, size=600).astype(float)
    swapped = np.array([1.0, 2.0, 0.0])[truth.astype(int)]
    answers = np.stack([np.where(rng.random(600) < 0.5, truth, 0.0), swapped])
    learned = stacking.learned_from(trial_of(truth, answers), [LEVELS])
    combine = stacking.STACKING.prepare(None, [LEVELS], learned, np.empty((600, 1)), np.ones((600, 1), np.bool_))
    assert (combine(answers[:, :, np.newaxis])[:, 0] == truth).mean() > 0.99


def test_a_rare_level_is_kept_where_the_best_member_names_it() -> None:
    column = LEVELS.model_copy(update={"levels": tuple(map(str, range(40))), "high": 39.0})
    levels = np.arange(20.0)
    scores = np.full((2, 20), 0.2)
    scores[1, 3] = 1.4
    assert stacking._decided(column, levels, np.array([35.0, 36.0]), scores).tolist() == [35.0, 3.0]


def test_dynamic_choice_follows_each_member_where_it_is_right() -> None:
    rng = np.random.default_rng(5)
    known, truth = rng.uniform(-9, 9, 400), rng.normal(size=400)
    noise = rng.normal(size=(2, 400))
    answers = truth + np.where([known < 0, known >= 0], noise, 0.0)
    columns = [NUMBER.model_copy(update={"name": "age"}), NUMBER]
    settings = DynamicSettings(neighbours=10)
    learned = dynamic.learned_from(settings, trial_of(truth, answers, known), columns)
    assert np.isfinite(learned.shrinking).tolist() == [False, True]
    rows = np.array([[-5.0, np.nan], [5.0, np.nan], [np.nan, np.nan]])
    combine = dynamic.DYNAMIC.prepare(settings, columns, learned, rows, np.isnan(rows) & [False, True])
    found = combine(np.stack([np.full((3, 2), 10.0), np.full((3, 2), 20.0)]))[:, 1]
    best = [10.0, 20.0][int(best_members(columns, learned.losses)[1])]
    assert found.tolist() == [20.0, 10.0, best], "where nothing is known, the best of the column"


def test_dynamic_choice_is_the_best_member_where_rows_tell_nothing() -> None:
    rng = np.random.default_rng(6)
    known, truth = rng.uniform(-9, 9, 300), rng.normal(size=300)
    answers = truth + np.array([[0.5], [1.0]]) * rng.normal(size=(2, 300))
    columns = [NUMBER.model_copy(update={"name": "age"}), NUMBER]
    learned = dynamic.learned_from(DynamicSettings(), trial_of(truth, answers, known), columns)
    assert np.isinf(learned.shrinking).all()


def test_cells_are_hidden_as_they_are_missing() -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=(60, 4))
    values[:20, 2:] = np.nan
    values[20:30] = np.nan
    values[30:40, 3] = np.nan
    complete = hidden_cells(values, np.arange(40, 60), rng)
    assert {tuple(row) for row in complete.tolist()} == {
        (False, False, True, True),
        (True,) * 4,
        (False, False, False, True),
    }
    lacking = hidden_cells(values, np.arange(30, 40), rng)
    assert {tuple(row) for row in lacking.tolist()} <= {(False, False, True, False), (True, True, True, False)}
    everything = hidden_cells(rng.normal(size=(3000, 2)), np.arange(3000), rng)
    assert everything.mean() == pytest.approx(1 / 3, abs=0.03)
