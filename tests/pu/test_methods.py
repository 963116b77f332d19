"""The methods against what they are on paper, with a learner that needs no training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Bools, Floats
from unpooled.errors import InputError
from unpooled.pu.bags import Bag
from unpooled.pu.methods import rank
from unpooled.pu.ranking import Ranking, likeliest
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings

SEED = 5
Remembered = list[Sequence[Bag]]


def made_up(rows: int = 60, positives: int = 6, seed: int = 0) -> tuple[Floats, Bools]:
    """One column, and known positives that are rather large."""
    column = np.random.default_rng(seed).normal(size=rows)
    known = np.zeros(rows, bool)
    known[np.argsort(-column)[: 2 * positives : 2]] = True
    return column, known


def means(column: Floats, remembered: Remembered | None = None) -> Callable[[Sequence[Bag]], list[Floats]]:
    """How near a row's value is to the weighted mean of positives, and how far from that of negatives.

    What it says of a bag's negatives is absurd, and must not be used.
    """

    def learn(bags: Sequence[Bag]) -> list[Floats]:
        if remembered is not None:
            remembered.append(bags)
        found = []
        for bag in bags:
            ours = np.average(column, weights=bag.weights * bag.positive)
            theirs = np.average(column, weights=bag.weights * ~bag.positive)
            scores = 1 / (1 + np.exp((column - ours) ** 2 - (column - theirs) ** 2))
            found.append(np.where(bag.negative, 7.0, scores))
        return found

    return learn


def by_the_book(
    known: Bools, learn: Callable[[Sequence[Bag]], list[Floats]], remembered: Remembered, m: int, t: int, theta: float
) -> list[int]:
    """Algorithm 3-1, line by line; the draws themselves are taken from the bags that the method has drawn."""
    label = {row: 1 if is_known else -1 for row, is_known in enumerate(known)}
    result: list[int] = []
    last: dict[int, float] = {}
    for iteration in range(m):
        p = {row for row in label if label[row] == 1}
        u = {row for row in label if label[row] == -1}
        if not u:
            break
        sums, counts = dict.fromkeys(u, 0.0), dict.fromkeys(u, 0)
        for number in range(t):
            bag = remembered[iteration][number]
            n = [row for row in u for _ in range(int(bag.weights[row]))]
            assert len(n) == len(p)
            assert {row for row in label if bag.positive[row]} == p
            o = u - set(n)
            weights = np.array([1.0 if row in p else float(n.count(row)) for row in range(len(known))])
            (scores,) = learn([Bag(np.array([row in p for row in range(len(known))]), weights, 0)])
            for row in o:
                sums[row] += scores[row]
                counts[row] += 1
        last = {row: sums[row] / counts[row] if counts[row] else -1.0 for row in u}
        ordered = sorted(u, key=lambda row: (-last[row], row))
        promoted = ordered[: max(round(len(u) * theta), 1)]
        for row in promoted:
            label[row] = 1
        result += promoted
    return result + sorted((row for row in last if label[row] == -1), key=lambda row: (-last[row], row))


@pytest.mark.parametrize(
    ("iterations", "bags", "fraction", "rows", "positives"),
    [
        (5, 10, 0.02, 200, 10),
        (3, 4, 0.2, 60, 6),
        (4, 1, 0.1, 40, 9),
        (6, 3, 0.5, 30, 3),
        (2, 3, 0.3, 12, 5),
        (1, 2, 0.001, 50, 1),
    ],
)
def test_vfpu_is_algorithm_3_1(iterations: int, bags: int, fraction: float, rows: int, positives: int) -> None:
    column, known = made_up(rows, positives)
    remembered: Remembered = []
    settings = VfpuSettings(iterations=iterations, bags=bags, fraction=fraction, order="promotion")
    found = rank(known, settings, means(column, remembered), SEED)
    expected = by_the_book(known, means(column), remembered, iterations, bags, fraction)
    assert found.order.tolist() == expected
    by_score = rank(known, settings.model_copy(update={"order": "score"}), means(column), SEED)
    assert (by_score.iterations == found.iterations).all(), "the order does not change who is promoted"


@pytest.mark.parametrize("settings", [VfpuSettings(), VfpuSettings(iterations=6, bags=2, fraction=0.3, gamma=1.0)])
def test_by_default_scores_order_rows_and_are_means_over_all_models_but_those_with_the_row_as_a_negative(
    settings: VfpuSettings,
) -> None:
    column, known = made_up(300, 10)
    remembered: Remembered = []
    found = rank(known, settings, means(column, remembered), SEED)
    bags = [bag for group in remembered for bag in group]
    counts = np.array([(bag.weights == 0) | bag.positive for bag in bags])
    said = np.array(means(column)(bags))
    assert counts[:, found.promoted].mean() > counts[:, found.order].mean(), "promoted rows are no negatives any more"
    expected = np.where(counts, said, 0).sum(axis=0) / counts.sum(axis=0)
    np.testing.assert_allclose(found.scores[~known], expected[~known], rtol=1e-12)
    assert np.isnan(found.scores[known]).all()
    assert (np.diff(found.scores[found.order]) <= 0).all()
    assert sorted(found.promoted.tolist()) == np.flatnonzero(found.iterations > 0).tolist()


def test_the_share_is_of_the_rows_that_are_still_unlabelled() -> None:
    column, known = made_up(110, 10)
    found = rank(known, VfpuSettings(iterations=4, bags=3, fraction=0.1), means(column), SEED)
    assert [int((found.iterations == m).sum()) for m in (1, 2, 3, 4)] == [10, 9, 8, 7]
    assert (found.iterations[known] == 0).all()
    assert np.isnan(found.scores[known]).all()


def test_promoted_rows_count_as_positive_and_in_the_order_of_promotion_keep_their_score() -> None:
    column, known = made_up(100, 5)
    remembered: Remembered = []
    so_far: list[Ranking] = []
    settings = VfpuSettings(iterations=3, bags=4, fraction=0.1, order="promotion")
    found = rank(known, settings, means(column, remembered), SEED, lambda ranking: not so_far.append(ranking))
    for place, bags in enumerate(remembered):
        earlier = known | ((found.iterations > 0) & (found.iterations <= place))
        assert all((bag.positive == earlier).all() for bag in bags)
        assert all(bag.weights.sum() == 2 * earlier.sum() for bag in bags)
    for place, ranking in enumerate(so_far):
        promoted = found.iterations == place + 1
        assert (ranking.scores[promoted] == found.scores[promoted]).all()


def test_draws_are_with_replacement_and_from_unlabelled_rows_alone() -> None:
    column, known = made_up(40, 15)
    remembered: Remembered = []
    rank(known, BaggingSettings(bags=20), means(column, remembered), SEED)
    (bags,) = remembered
    assert all((bag.weights[known] == 1).all() for bag in bags)
    assert any((bag.weights[~known] > 1).any() for bag in bags)
    assert len({bag.weights.tobytes() for bag in bags}) == len({bag.seed for bag in bags}) == 20
    drawn = np.sum([bag.weights[~known] for bag in bags], axis=0)
    assert drawn.sum() == 20 * 15
    assert drawn.min() > 0


def test_rows_that_are_in_every_bag_rank_last() -> None:
    column, known = made_up(14, 10)  # four others, ten draws
    found = rank(known, BaggingSettings(bags=1), means(column), SEED)
    unscored = np.flatnonzero(~known & np.isnan(found.scores))
    assert unscored.size
    assert found.order[-unscored.size :].tolist() == unscored.tolist()


def test_equal_scores_go_by_row() -> None:
    known = np.array([True, False, False, False, False])
    found = rank(known, VfpuSettings(iterations=2, bags=8, fraction=0.25), lambda bags: [np.full(5, 0.5)] * 8, SEED)
    assert not np.isnan(found.scores[1:]).any()
    assert found.order.tolist() == [1, 2, 3, 4]
    assert found.promoted.tolist() == [1, 2]


def test_order_is_by_score_then_row_or_by_iteration_first() -> None:
    known = np.array([False, True, False, False, False, False, False])
    scores = np.array([0.3, np.nan, 0.9, 0.5, np.nan, 0.6, 0.3])
    found = Ranking(known, scores, np.array([2, 0, 0, 1, 0, 1, 0]), by="promotion")
    assert found.order.tolist() == [5, 3, 0, 2, 6, 4]
    assert found.promoted.tolist() == [5, 3, 0]
    by_score = replace(found, by="score")
    assert by_score.order.tolist() == [2, 5, 3, 0, 6, 4]
    assert by_score.promoted.tolist() == [5, 3, 0]
    assert likeliest(scores, np.array([6, 4, 0, 2])).tolist() == [2, 0, 6, 4]


@pytest.mark.parametrize("rows", [2, 3, 8])
def test_it_ends_when_all_rows_are_promoted(rows: int) -> None:
    column, known = made_up(rows, 1)
    found = rank(known, VfpuSettings(iterations=50, bags=2, fraction=0.5), means(column), SEED)
    assert sorted(found.order.tolist()) == np.flatnonzero(~known).tolist()
    assert (found.iterations[~known] > 0).all()


def test_a_tiny_share_promotes_one_row_at_a_time() -> None:
    column, known = made_up(50, 4)
    found = rank(known, VfpuSettings(iterations=3, bags=3, fraction=1e-6), means(column), SEED)
    assert sorted(found.iterations[found.promoted].tolist()) == [1, 2, 3]


def test_keep_going_is_asked_after_each_iteration_and_obeyed() -> None:
    column, known = made_up()
    asked: list[int] = []

    def keep_going(ranking: Ranking) -> bool:
        asked.append(len(ranking.promoted))
        return len(asked) < 2

    found = rank(known, VfpuSettings(iterations=5, bags=2, fraction=0.1), means(column), SEED, keep_going)
    assert asked == [5, 10]
    assert found.iterations.max() == 2
    whole = rank(known, VfpuSettings(iterations=2, bags=2, fraction=0.1), means(column), SEED)
    assert (found.order == whole.order).all()


def test_reliable_negatives_are_the_only_ones_drawn() -> None:
    column, known = made_up(200, 8)
    remembered: Remembered = []
    settings = VfpuSettings(iterations=2, bags=5, fraction=0.1, negatives="reliable", negative_fraction=0.25)
    rank(known, settings, means(column, remembered), SEED)
    first, *iterations = remembered
    assert len(first) == NaiveSettings().folds
    drawn = {int(row) for bags in iterations for bag in bags for row in np.flatnonzero(~bag.positive & ~bag.outside)}
    assert len(drawn) <= 0.25 * 192
    unlikely = np.argsort(column)[: round(0.4 * 192)]
    assert drawn <= set(unlikely.tolist())


def test_gamma_draws_unlikely_rows_more_often() -> None:
    column, known = made_up(300, 30)

    def mean_of_drawn(gamma: float) -> float:
        remembered: Remembered = []
        rank(known, VfpuSettings(iterations=2, bags=20, gamma=gamma), means(column, remembered), SEED)
        weights = np.sum([bag.weights * ~bag.positive for bag in remembered[1]], axis=0)
        return float(np.average(column, weights=weights))

    assert mean_of_drawn(3.0) < mean_of_drawn(0.0) - 0.1


FOLDED: list[AnyMethod] = [
    NaiveSettings(folds=4),
    NaiveSettings(folds=4, balanced=False),
    TwoStepSettings(folds=4),
    TwoStepSettings(folds=4, first="positives", positive_fraction=0.1),
]


@pytest.mark.parametrize("settings", FOLDED, ids=repr)
def test_folds_leave_every_unlabelled_row_out_once(settings: Any) -> None:
    column, known = made_up(100, 10)
    remembered: Remembered = []
    found = rank(known, settings, means(column, remembered), SEED)
    for bags in remembered:
        times = np.sum([bag.outside for bag in bags], axis=0)
        taking_part = np.sum([~bag.outside for bag in bags], axis=0) > 0
        assert (times[known] == 0).all()
        assert (times[~known & taking_part] == 1).all()
        if settings.balanced:
            assert all(np.isclose(bag.weights[bag.positive].sum(), bag.weights[~bag.positive].sum()) for bag in bags)
        else:
            assert all(set(bag.weights.tolist()) <= {0.0, 1.0} for bag in bags)
    assert not np.isnan(found.scores[~known]).any()
    assert (found.scores[~known] <= 1).all()


def test_two_steps_in_both_readings() -> None:
    column, known = made_up(100, 10)
    for first in ("negatives", "positives"):
        remembered: Remembered = []
        settings = TwoStepSettings(first=first, negative_fraction=0.3, positive_fraction=0.1, balanced=False)
        rank(known, settings, means(column, remembered), SEED)
        step_one, step_two = remembered
        start = rank(known, NaiveSettings(balanced=False), means(column), SEED)
        assert all((bag.positive == known).all() for bag in step_one)
        positive = np.any([bag.positive for bag in step_two], axis=0)
        negative = np.any([~bag.positive & ~bag.outside for bag in step_two], axis=0)
        if first == "negatives":
            assert (positive == known).all()
            assert set(np.flatnonzero(negative)) == set(start.order[-27:].tolist())
        else:
            assert set(np.flatnonzero(positive)) == {*np.flatnonzero(known), *start.order[:9].tolist()}
            assert (negative == ~positive).all()


METHODS: list[AnyMethod] = [VfpuSettings(), VfpuSettings(gamma=1.0), BaggingSettings(), *FOLDED]


@pytest.mark.parametrize("settings", METHODS, ids=repr)
def test_the_seed_settles_everything(settings: AnyMethod) -> None:
    column, known = made_up(200, 10)
    first, again, other = (rank(known, settings, means(column), seed) for seed in (1, 1, 2))
    assert (first.order == again.order).all()
    assert not np.array_equal(first.scores, other.scores, equal_nan=True)


@pytest.mark.parametrize("settings", METHODS, ids=repr)
@pytest.mark.parametrize("all_known", [False, True])
def test_there_must_be_known_and_unlabelled_rows(settings: AnyMethod, all_known: bool) -> None:
    column, _ = made_up()
    with pytest.raises(InputError, match="positives"):
        rank(np.full(len(column), all_known), settings, means(column), SEED)


@pytest.mark.parametrize("settings", FOLDED, ids=repr)
def test_too_few_rows_for_the_folds(settings: AnyMethod) -> None:
    column, known = made_up(5, 2)
    with pytest.raises(InputError, match=r"3 .* 4"):
        rank(known, settings, means(column), SEED)
