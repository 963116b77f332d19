"""The methods: from known positives to a ranking of all other rows.

They are given `learn`, which does not care whether columns are pooled or apart, and `seed`, which settles every draw;
whoever holds the labels keeps it to itself. Same seed, same learner: same ranking.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError
from unpooled.pu.bags import Learn, Means, drawn_bags, folded_bags, outside_means
from unpooled.pu.ranking import Ranking, likeliest
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings

KeepGoing = Callable[[Ranking], bool]
"""Told after each iteration what is known so far; says whether another one is wanted."""

_FIRST_STEP, _SECOND_STEP = 1, 2
_RELIABLE = 0


def rank(known: Bools, settings: AnyMethod, learn: Learn, seed: int, keep_going: KeepGoing | None = None) -> Ranking:
    """The ranking by any of the methods; `keep_going` is asked by those that have iterations."""
    _check(known)
    match settings:
        case VfpuSettings():
            return vfpu(known, settings, learn, seed, keep_going)
        case BaggingSettings():
            return bagging(known, settings, learn, seed)
        case TwoStepSettings():
            return two_step(known, settings, learn, seed)
        case NaiveSettings():
            return naive(known, settings, learn, seed)


def naive(known: Bools, settings: NaiveSettings, learn: Learn, seed: int) -> Ranking:
    """Unlabelled rows count as negative; each is scored by the model for which its fold was left out."""
    return _unpromoted(known, _against_all(known, settings, learn, (seed, _FIRST_STEP)))


def bagging(known: Bools, settings: BaggingSettings, learn: Learn, seed: int) -> Ranking:
    """The mean over bags of all positives and as many draws from the unlabelled rows (Mordelet and Vert, 2014)."""
    bags = drawn_bags(known, np.flatnonzero(~known), settings.bags, (seed, _FIRST_STEP))
    return _unpromoted(known, outside_means(bags, learn(bags)))


def two_step(known: Bools, settings: TwoStepSettings, learn: Learn, seed: int) -> Ranking:
    """Learn positives against all others; then again, with only the reliable ones of either side.

    With `first = "negatives"` the second model learns from positives and the least likely rows. With "positives" the
    likeliest rows count as positives, all others as negatives.
    """
    first = _against_all(known, settings, learn, (seed, _FIRST_STEP))
    positive, negative = known.copy(), np.zeros(len(known), bool)
    if settings.first == "negatives":
        negative[reliable(first, known, settings.negative_fraction)] = True
    else:
        ranked = likeliest(first, np.flatnonzero(~known))
        positive[ranked[: _part(settings.positive_fraction, len(ranked))]] = True
        negative = ~positive
    bags = folded_bags(known, positive, negative, settings.folds, (seed, _SECOND_STEP), balanced=settings.balanced)
    return _unpromoted(known, outside_means(bags, learn(bags)))


def vfpu(known: Bools, settings: VfpuSettings, learn: Learn, seed: int, keep_going: KeepGoing | None = None) -> Ranking:
    """Algorithm 3-1: in each iteration a bagging, after which the likeliest rows count as positive.

    Who is promoted depends on that iteration's models that had not seen the row. With `order = "score"` a row's place
    depends on all models but those that learned it as a negative. Models that learned a promoted row as a positive
    count: without them the top of the list is worse (`unseen` in `make bench-order`).
    """
    positive, scores, iterations = known.copy(), np.full(len(known), np.nan), np.zeros(len(known), np.int64)
    candidates, means, ranking = ~known, Means(len(known)), Ranking(known, scores, iterations)
    if settings.negatives == "reliable":
        first = _against_all(known, NaiveSettings(), learn, (seed, _RELIABLE))
        candidates = np.zeros(len(known), bool)
        candidates[reliable(first, known, settings.negative_fraction)] = True
    for iteration in range(1, settings.iterations + 1):
        unlabelled = np.flatnonzero(~positive)
        drawn_from = np.flatnonzero(candidates & ~positive)
        if not drawn_from.size:
            break
        likely = scores if iteration > 1 else None
        bags = drawn_bags(positive, drawn_from, settings.bags, (seed, iteration), likely, settings.gamma)
        learned = learn(bags)
        found = outside_means(bags, learned)
        for bag, each in zip(bags, learned, strict=True):
            means.add(each, ~bag.negative & ~known)
        scores[unlabelled] = found[unlabelled]
        chosen = likeliest(found, unlabelled)[: _part(settings.fraction, len(unlabelled))]
        iterations[chosen] = iteration
        positive = positive | (iterations == iteration)  # a new one: bags keep theirs
        by_score = settings.order == "score"
        ranking = Ranking(known, means.values if by_score else scores.copy(), iterations.copy(), settings.order)
        if keep_going is not None and not keep_going(ranking):
            break
    return ranking


def reliable(scores: Floats, known: Bools, fraction: float) -> Ints:
    """The least likely of the unlabelled rows."""
    ranked = likeliest(scores, np.flatnonzero(~known))
    return ranked[len(ranked) - _part(fraction, len(ranked)) :]


def _against_all(
    known: Bools, settings: NaiveSettings | TwoStepSettings, learn: Learn, seeds: tuple[int, ...]
) -> Floats:
    bags = folded_bags(known, known, ~known, settings.folds, seeds, balanced=settings.balanced)
    return outside_means(bags, learn(bags))


def _unpromoted(known: Bools, scores: Floats) -> Ranking:
    return Ranking(known, np.where(known, np.nan, scores), np.zeros(len(known), np.int64))


def _part(fraction: float, rows: int) -> int:
    return max(round(fraction * rows), 1)


def _check(known: Bools) -> None:
    if not known.any():
        raise InputError("positives: none of the rows is one, so there is nothing to look like")
    if known.all():
        raise InputError("positives: all rows are known, so there is nobody left to find")
