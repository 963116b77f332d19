"""The scikit-learn estimators: that they are such, and that they do what the methods do."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from unpooled.arrays import Bools, Floats
from unpooled.errors import InputError
from unpooled.pu.bags import Bag, drawn_bags
from unpooled.pu.estimates.elkan_noto import HeldOut, folds_of, held_out
from unpooled.pu.methods import rank
from unpooled.pu.pooled.classifiers import PooledClassifiers, small_trees
from unpooled.pu.pooled.estimators import (
    BaggingPuClassifier,
    ElkanNotoClassifier,
    NaivePuClassifier,
    RandomPuClassifier,
    TwoStepPuClassifier,
    VfpuClassifier,
)
from unpooled.pu.pooled.trees import PooledTrees
from unpooled.pu.settings import BaggingSettings, VfpuSettings
from unpooled.vertical.trees.parameters import GbdtParameters

FOLDS = 2  # scikit-learn's checks have data sets of ten rows
ESTIMATORS: list[Any] = [
    VfpuClassifier(GaussianNB(), iterations=2, bags=3, random_state=1),
    BaggingPuClassifier(GaussianNB(), bags=3, random_state=1),
    TwoStepPuClassifier(GaussianNB(), folds=FOLDS, random_state=1),
    TwoStepPuClassifier(GaussianNB(), first="positives", folds=FOLDS, random_state=1),
    NaivePuClassifier(GaussianNB(), folds=FOLDS, random_state=1),
    ElkanNotoClassifier(GaussianNB(), folds=FOLDS, random_state=1),
    ElkanNotoClassifier(GaussianNB(), folds=FOLDS, weighted=True, random_state=1),
    RandomPuClassifier(random_state=1),
]


def made_up(rows: int = 400, seed: int = 0) -> tuple[Floats, Bools, Bools]:
    """Two columns of which the sum decides who is positive; a third of these are known."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, 2))
    positive = matrix.sum(axis=1) > 1
    known = positive & (rng.random(rows) < 1 / 3)
    return matrix, known, positive


def expected_failures(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, RandomPuClassifier):
        return {
            "check_classifiers_train": "it is no better than chance, as it should be",
            "check_methods_sample_order_invariance": "scores are drawn row by row",
            "check_methods_subset_invariance": "scores are drawn row by row",
        }
    return {}


@pytest.mark.parametrize(
    "estimator", list({type(each): each for each in ESTIMATORS}.values()), ids=lambda each: type(each).__name__
)
def test_scikit_learns_checks_pass_but_for_those_named(estimator: Any) -> None:
    expected = expected_failures(estimator)
    results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)


@pytest.mark.parametrize("estimator", ESTIMATORS[:-1], ids=lambda estimator: str(estimator)[:60])
def test_labels_below_the_known_ones_may_be_any(estimator: Any) -> None:
    matrix, known, _ = made_up()
    values = [np.where(known, 1, 0), np.where(known, 1, -1), known]
    made = [clone(estimator).fit(matrix, y) for y in values]
    for y, one in zip(values, made, strict=True):
        assert (one.ranking_.order == made[0].ranking_.order).all()
        assert set(one.predict(matrix).tolist()) == set(y.tolist())


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: str(estimator)[:60])
def test_rows_are_ranked_and_new_ones_scored(estimator: Any) -> None:
    matrix, known, positive = made_up()
    new, _, truth = made_up(seed=1)
    fitted = clone(estimator).fit(matrix, known.astype(int))
    order = fitted.ranking_.order
    assert sorted(order.tolist()) == np.flatnonzero(~known).tolist()
    found = fitted.predict_proba(new)
    assert ((found >= 0) & (found <= 1)).all()
    right = float(positive[order[:20]].mean()), float(truth[np.argsort(-found[:, 1])[:20]].mean())
    expected = (0.0, 0.7) if isinstance(estimator, RandomPuClassifier) else (0.9, 1.0)
    assert expected[0] <= min(right) <= max(right) <= expected[1]


def test_it_is_the_method_with_that_learner() -> None:
    matrix, known, _ = made_up()
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    settings = VfpuSettings(iterations=2, bags=3, fraction=0.05)
    fitted = VfpuClassifier(GaussianNB(), iterations=2, bags=3, fraction=0.05, random_state=3).fit(matrix, known)
    expected = rank(known, settings, PooledClassifiers(matrix, GaussianNB()), seed)
    np.testing.assert_array_equal(fitted.scores_, expected.scores)
    assert (fitted.ranking_.order == expected.order).all()


def test_without_an_estimator_it_is_small_trees_and_takes_missing_values() -> None:
    matrix, known, positive = made_up()
    matrix[::7, 0] = np.nan
    fitted = VfpuClassifier(bags=3, random_state=1).fit(matrix, known)
    assert positive[fitted.ranking_.order[:20]].mean() >= 0.7
    again = VfpuClassifier(small_trees(), bags=3, random_state=1).fit(np.nan_to_num(matrix), known)
    assert not np.array_equal(again.scores_, fitted.scores_, equal_nan=True)
    with pytest.raises(ValueError, match="NaN"):
        BaggingPuClassifier(GaussianNB(), bags=3).fit(matrix, known)


def test_new_rows_are_scored_by_the_models_of_the_last_iteration() -> None:
    matrix, known, _ = made_up()
    made: list[list[Any]] = []

    class Remembering(PooledClassifiers):
        def __call__(self, bags: Any) -> list[Floats]:
            found = super().__call__(bags)
            made.append(self._made)
            return found

    learner = Remembering(matrix, GaussianNB())
    rank(known, VfpuSettings(iterations=2, bags=3), learner, 1)
    assert [len(models) for models in made] == [3, 3]
    expected = np.mean([model.predict_proba(matrix)[:, 1] for model in made[1]], axis=0)
    np.testing.assert_allclose(learner.score(matrix), expected, rtol=1e-12)


def test_parameters_can_be_searched() -> None:
    matrix, known, _ = made_up()
    estimator = VfpuClassifier(LogisticRegression(), iterations=1, bags=2, random_state=1)
    search = GridSearchCV(estimator, {"bags": [1, 2], "estimator__C": [0.1, 1.0]}, cv=2).fit(matrix, known)
    assert set(search.best_params_) == {"bags", "estimator__C"}


# Learners


def test_weights_count_as_repetitions() -> None:
    """A row that was drawn twice is there twice, which for an exact model is the same as a weight of two."""
    matrix, known, _ = made_up(80)
    (bag,) = drawn_bags(known, np.flatnonzero(~known)[:10], 1, (1,))
    assert bag.weights.max() > 1
    halves = Bag(bag.positive, bag.weights / 2, bag.seed)
    (weighed,) = PooledClassifiers(matrix, GaussianNB())([halves])
    (repeated,) = PooledClassifiers(matrix, make_pipeline(GaussianNB()))([bag])
    np.testing.assert_allclose(weighed, repeated, rtol=1e-6)


def test_rows_outside_the_bag_do_not_matter() -> None:
    matrix, known, _ = made_up(80)
    (bag,) = drawn_bags(known, np.flatnonzero(~known)[:10], 1, (1,))
    spoilt = np.where(bag.outside[:, np.newaxis], 1e6, matrix)
    for classifier in (GaussianNB(), KNeighborsClassifier(3)):
        (found,), (with_spoilt,) = (PooledClassifiers(values, classifier)([bag]) for values in (matrix, spoilt))
        np.testing.assert_array_equal(found[~bag.outside], with_spoilt[~bag.outside])


def test_chance_is_the_bags() -> None:
    matrix, known, _ = made_up(80)
    (bag,) = drawn_bags(known, np.flatnonzero(~known), 1, (1,))
    classifier = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_features=1, splitter="random"))
    other = Bag(bag.positive, bag.weights, bag.seed + 1)
    first, again, third = (PooledClassifiers(matrix, classifier)([one])[0] for one in (bag, bag, other))
    assert (first == again).all()
    assert not (first == third).all()


def test_a_classifier_without_probabilities_is_refused() -> None:
    matrix, known, _ = made_up(80)
    with pytest.raises(InputError, match="LinearSVC"):
        BaggingPuClassifier(LinearSVC()).fit(matrix, known)


def test_trees_score_alike_hidden_or_not_where_no_bins_are_merged() -> None:
    matrix, known, _ = made_up(200)
    found = [
        rank(
            known,
            BaggingSettings(bags=3),
            PooledTrees(matrix, GbdtParameters(trees=5, min_rows=1, hide_bags=hide)),
            seed=1,
        )
        for hide in (True, False)
    ]
    np.testing.assert_array_equal(found[0].scores, found[1].scores)


def test_a_learner_says_when_it_has_learned_nothing() -> None:
    matrix, _, _ = made_up(20)
    for learner in (PooledTrees(matrix), PooledClassifiers(matrix, GaussianNB())):
        with pytest.raises(InputError):
            learner.score(matrix)


def test_the_package_does_without_scikit_learn() -> None:
    look = "import sys, unpooled.pu.pooled.trees, unpooled.pu.estimates.elkan_noto; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "False\n"


# Elkan and Noto


def test_elkan_noto_by_hand() -> None:
    """Fold by fold with scikit-learn alone."""
    matrix, known, _ = made_up()
    found = held_out(known, PooledClassifiers(matrix, GaussianNB()), seed=4, folds=3)
    fold, g = folds_of(known, 3, 4), np.empty(len(known))
    for number in range(3):
        inside = fold != number
        g[~inside] = GaussianNB().fit(matrix[inside], known[inside]).predict_proba(matrix[~inside])[:, 1]
    np.testing.assert_allclose(found.scores, g, rtol=1e-9)
    assert found.c == pytest.approx(np.mean([g[known & (fold == number)].mean() for number in range(3)]), rel=0.05)
    np.testing.assert_allclose(found.positive(g), np.minimum(g / found.c, 1.0), rtol=1e-9)


def test_both_probabilities_agree_by_bayes() -> None:
    """p = P(known) + P(not known) P(positive | not known), wherever neither is clipped."""
    found = HeldOut(np.array([True, True, False]), np.array([0.3, 0.5, 0.1]))
    g = np.linspace(0.0, 0.39, 9)
    np.testing.assert_allclose(found.positive(g), g + (1 - g) * found.positive_if_unlabelled(g), rtol=1e-12)
    assert found.positive(np.array([0.9]))[0] == found.positive_if_unlabelled(np.array([1.0]))[0] == 1.0


def test_c_is_the_share_that_is_known_where_classes_are_apart() -> None:
    rng = np.random.default_rng(2)
    positive = rng.random(3000) < 0.3
    matrix = rng.normal(size=(3000, 1)) + 8 * positive[:, np.newaxis]
    known = positive & (rng.random(3000) < 0.4)
    for weighted in (False, True):
        tree = DecisionTreeClassifier(max_depth=2)
        made = ElkanNotoClassifier(tree, weighted=weighted, random_state=1).fit(matrix, known)
        assert made.c_ == pytest.approx(0.4, abs=0.04)
        assert made.predict_proba(matrix)[positive, 1].mean() == pytest.approx(1.0, abs=0.1)
        assert made.predict_proba(matrix)[~positive, 1].mean() == pytest.approx(0.0, abs=0.02)


def test_folds_need_known_rows_each() -> None:
    known = np.arange(50) < 3
    with pytest.raises(InputError, match=r"3 .* 5"):
        folds_of(known, 5, 1)
