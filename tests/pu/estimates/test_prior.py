"""Priors, chances, spies and warnings on made-up scores of which everything is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.pu.estimates.calibration import chances, isotonic
from unpooled.pu.estimates.elkan_noto import HeldOut
from unpooled.pu.estimates.prior import best_bin, best_number, elkan_noto, most, suggested
from unpooled.pu.estimates.scar import unlike_the_top
from unpooled.pu.estimates.spies import Spies, StopWhenFalling, hidden
from unpooled.pu.ranking import Ranking


def scores(
    fraction: float, apart: float, seed: int = 0, known: int = 1000, unlabelled: int = 10_000
) -> tuple[Floats, ...]:
    """Scores of known rows, of unlabelled ones, and which of the latter are positive."""
    rng = np.random.default_rng(seed)
    positive = rng.random(unlabelled) < fraction
    return rng.normal(apart, 1, known), rng.normal(apart * positive, 1), positive


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_best_bin_finds_the_share_where_classes_are_apart(fraction: float, seed: int) -> None:
    known, unlabelled, _ = scores(fraction, 4.0, seed)
    assert best_bin(known, unlabelled) == pytest.approx(fraction, abs=0.03)


def test_best_bin_is_the_least_ratio_by_the_book() -> None:
    known, unlabelled, _ = scores(0.3, 2.0, known=40, unlabelled=90)
    width = np.sqrt(np.log(4 / 0.1) / (2 * 40)) + np.sqrt(np.log(4 / 0.1) / (2 * 90))
    found = []
    for threshold in known.tolist() + unlabelled.tolist():
        q_known, q_unlabelled = (known >= threshold).mean(), (unlabelled >= threshold).mean()
        if q_known:
            found.append(((q_unlabelled + 1.01 * width) / q_known, q_unlabelled / q_known))
    assert best_bin(known, unlabelled) == pytest.approx(min(found)[1], rel=1e-12)


@pytest.mark.parametrize("apart", [0.0, 0.5, 1.0, 3.0])
def test_the_bound_is_one_of_the_share(apart: float) -> None:
    for seed in range(20):
        known, unlabelled, positive = scores(0.2, apart, seed, known=300, unlabelled=2000)
        assert most(known, unlabelled) >= positive.mean()
    assert most(*scores(0.2, 3.0)[:2]) < 0.3


def test_elkan_noto_counts_those_not_known() -> None:
    """40 are known, half of all positives, so another 40 among 160 are positive."""
    found = HeldOut(np.arange(200) < 40, np.where(np.arange(200) < 80, 0.5, 0.0))
    assert found.c == 0.5
    assert elkan_noto(found) == pytest.approx(0.25)


def test_suggested_numbers() -> None:
    assert [suggested(fraction, 50) for fraction in (1e-9, 0.1, 1.0)] == [1, 5, 50]
    likely = np.array([1.0, 1.0, 0.9, 0.1, 0.0])
    by_hand = [2 * likely[:k].sum() / (k + 3.0) for k in range(1, 6)]
    assert best_number(likely, 0.6) == 3 == int(np.argmax(by_hand)) + 1


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 5)), min_size=1, max_size=40))
@settings(deadline=None, derandomize=True)
def test_isotonic_is_that_of_scikit_learn(pairs: list[tuple[float, int]]) -> None:
    values, weights = (np.array(column, float) for column in zip(*pairs, strict=True))
    expected = IsotonicRegression().fit_transform(np.arange(len(values)), values, sample_weight=weights)
    np.testing.assert_allclose(isotonic(values, weights), expected, atol=1e-9)


def test_chances_are_right_on_average_and_never_fall() -> None:
    known, unlabelled, positive = scores(0.2, 2.0, known=5000, unlabelled=20_000)
    found = chances(known, unlabelled, 0.2)
    order = np.argsort(unlabelled)
    assert (np.diff(found[order]) >= 0).all()
    for band in np.array_split(order, 10):
        assert found[band].mean() == pytest.approx(positive[band].mean(), abs=0.05)
    ideal = 0.2 * np.exp(2 * unlabelled - 2) / (0.2 * np.exp(2 * unlabelled - 2) + 0.8)
    assert np.abs(found - ideal).mean() < 0.02


def test_chances_need_scores() -> None:
    for known, unlabelled in ((0, 5), (5, 0)):
        with pytest.raises(InputError, match="calibration"):
            chances(np.zeros(known), np.zeros(unlabelled), 0.5)
        with pytest.raises(InputError, match="prior"):
            best_bin(np.zeros(known), np.zeros(unlabelled))


# Spies


def test_spies_are_a_part_of_the_known_rows() -> None:
    known = np.arange(100) < 30
    spies = hidden(known, 0.2, np.random.default_rng(1))
    assert spies.spies.sum() == 6
    assert (spies.known | spies.spies == known).all()
    assert not (spies.known & spies.spies).any()
    assert hidden(known, 0.999, np.random.default_rng(1)).known.sum() == 1
    with pytest.raises(InputError, match="spies"):
        hidden(np.arange(5) < 1, 0.5, np.random.default_rng(1))


def test_recall_and_precision_by_hand() -> None:
    """Four known rows left, four spies, forty others of which eight are positive; six found, three of them spies."""
    rows = np.arange(48)
    spies = Spies(rows < 4, (rows >= 4) & (rows < 8))
    chosen = np.isin(rows, [4, 5, 6, *range(8, 18)])
    assert spies.recall(chosen) == 0.75
    assert spies.precision(chosen, 0.2) == pytest.approx(0.2 * 0.75 / (10 / 40))
    assert spies.precision(np.isin(rows, [4, 5, 6, 7, 9]), 0.2) == 1.0
    assert spies.precision(rows < 8, 0.2) == 1.0, "spies alone"
    with pytest.raises(InputError, match="spies"):
        spies.precision(rows < 4, 0.2)


def test_a_ranking_without_its_spies() -> None:
    known = np.array([True, False, False, False, False, False])
    spies = Spies(known, np.array([False, True, False, True, False, False]))
    ranking = Ranking(known, np.array([np.nan, 0.9, 0.8, 0.3, 0.2, 0.1]), np.zeros(6, np.int64))
    judged = spies.ranked(ranking)
    assert judged.order.tolist() == [2, 4, 5]
    found = judged.chances(1 / 3)
    assert (np.diff(found) <= 0).all()
    assert found[0] > found[-1] == 0.0


def promoted(*each: list[int]) -> list[Ranking]:
    """What is known after each of these promotions of 1050 rows."""
    iterations, found = np.zeros(1050, np.int64), []
    for number, rows in enumerate(each):
        iterations[rows] = number + 1
        found.append(Ranking(np.arange(1050) < 10, np.zeros(1050), iterations.copy()))
    return found


def test_it_stops_when_spies_are_no_longer_found() -> None:
    """40 spies; promotions of 50 others each hold 20, 8 and 1 of them."""
    rows = np.arange(1050)
    spies = Spies(rows < 10, (rows >= 10) & (rows < 50))
    first, second, third = promoted(
        [*range(10, 30), *range(50, 100)], [*range(30, 38), *range(100, 150)], [38, *range(150, 200)]
    )
    stop = StopWhenFalling(spies, fraction=0.3)
    assert [stop(first), stop(second), stop(third)] == [True, True, False]
    assert stop.lifts == [pytest.approx(count / 40 / (50 / 1000)) for count in (20, 8, 1)]
    assert not StopWhenFalling(spies, fraction=0.5)(second)
    assert StopWhenFalling(spies, fraction=0.5, least=20.1)(second)  # twenty would be expected: too few to tell


# Labels that are no random sample


def test_a_random_sample_is_not_warned_of() -> None:
    for seed in range(10):
        known, unlabelled, _ = scores(0.2, 4.0, seed)
        found = unlike_the_top(known, unlabelled, 1000)
        assert found is not None
        assert found.warning is None
        assert most(known, unlabelled) >= 0.2


def test_known_rows_of_a_special_kind_are_warned_of() -> None:
    rng = np.random.default_rng(1)
    _, unlabelled, _ = scores(0.2, 4.0)
    special = rng.normal(5.5, 0.5, 500)
    found = unlike_the_top(special, unlabelled, 1000)
    assert found is not None
    assert found.warning is not None
    assert "1000 rows" in found.warning
    assert most(special, unlabelled) < 0.2


def test_unlike_is_the_rank_sum_test() -> None:
    rng = np.random.default_rng(3)
    known, unlabelled = np.round(rng.normal(0.3, 1, 60), 1), np.round(rng.normal(0, 1, 80), 1)
    found = unlike_the_top(known, unlabelled, 80)
    assert found is not None
    inside = known[known >= unlabelled.min()]
    expected = scipy.stats.mannwhitneyu(
        inside, unlabelled, alternative="greater", use_continuity=False, method="asymptotic"
    )
    assert found.auc == pytest.approx(expected.statistic / (len(inside) * 80))
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)


def test_few_rows_tell_nothing() -> None:
    assert unlike_the_top(np.ones(5), np.linspace(0, 1, 100), 50) is None
    with pytest.raises(InputError, match="top"):
        unlike_the_top(np.ones(5), np.ones(5), 6)
