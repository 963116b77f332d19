"""What opened splits leave possible of each cell, against a search of all bins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from unpooled.attacks.opened_sides import Held, OpenedSides
from unpooled.errors import InputError
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.split_table import SplitTable, right_of

ROWS = 60
LAYOUT = Layout(
    (Feature(5, False, 0), Feature(4, True, 1), Feature(1, True, 1), Feature(1, False, 0)), ((0,), (1,), (2,), (3,))
)


def table(seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, feature.size, ROWS) for feature in LAYOUT.features]).astype(np.uint16)


def some_splits(seed: int, count: int) -> list[tuple[int, int, bool, Any]]:
    """Feature, place, whether missing values go left, and the rows that are told, of some splits."""
    rng = np.random.default_rng(seed + 100)
    found = []
    for _ in range(count):
        feature = int(rng.integers(3))
        told = np.flatnonzero(rng.random(ROWS) < 0.6) if rng.random() < 0.7 else slice(None)
        found.append((feature, int(rng.integers(LAYOUT.features[feature].values)), bool(rng.integers(2)), told))
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_bins_are_possible_that_would_have_answered_alike(seed: int, count: int) -> None:
    bins, sides, splits = table(seed), OpenedSides(LAYOUT, ROWS), some_splits(seed, count)
    answers = []
    for feature, place, left, rows in splits:
        right = right_of(SplitTable([(feature, place, left)]), LAYOUT, bins, rows, 0)
        sides.open(feature, place, left, rows, right)
        answers.append((feature, place, left, dict(zip(np.arange(ROWS)[rows].tolist(), right.tolist(), strict=True))))
    expected = np.zeros(bins.shape, int)
    for row in range(ROWS):
        for number, feature in enumerate(LAYOUT.features):
            for other in range(feature.size):
                alike = all(
                    row not in told or told[row] == (not left if other == feature.values else other > place)
                    for asked, place, left, told in answers
                    if asked == number
                )
                expected[row, number] += alike * int((bins[:, number] == other).sum())
    possible = sides.possible(bins)
    assert (possible == expected).all()
    alike = np.column_stack([np.bincount(column, minlength=6)[column] for column in bins.T])
    held = sides.held(bins)
    assert held.known == pytest.approx((possible == alike)[:, :3].mean())
    assert held.bits == pytest.approx(np.log2(ROWS / possible).sum(), abs=1e-5)
    assert held.table_bits == pytest.approx(np.log2(ROWS / alike).sum(), abs=1e-5)
    assert held.all_thresholds == 4 + 3
    thresholds = {(asked, place) for asked, place, *_ in answers if place < LAYOUT.features[asked].values - 1}
    assert held.thresholds == len(thresholds)
    assert 0.0 <= held.fraction <= 1.0
    assert count or held.fraction == 0.0


def test_all_sides_tell_the_whole_table() -> None:
    bins, sides = table(1), OpenedSides(LAYOUT, ROWS)
    for number, feature in enumerate(LAYOUT.features):
        for place in range(feature.values):
            sides.open(number, place, False, slice(None), bins[:, number] > place)
    held = sides.held(bins)
    assert (held.known, held.thresholds, held.fraction) == (1.0, held.all_thresholds, 1.0)
    values = bins.astype(float)
    values[:, 1][bins[:, 1] == 4] = math.nan
    values[:, 2:] = 7.0
    assert sides.rank(values) == pytest.approx(0.5), "two columns are known in order, and two have none"
    assert OpenedSides(LAYOUT, ROWS).rank(values) == 0.0


def test_nothing_to_learn_is_nothing_held() -> None:
    empty = Layout((), ())
    assert OpenedSides(empty, 3).held(np.empty((3, 0), np.uint16)) == Held(0, 0, 0.0, 0.0, 0.0)
    assert OpenedSides(empty, 3).held(np.empty((3, 0), np.uint16)).fraction == 0.0


def test_bins_that_cannot_be_are_noticed() -> None:
    bins, sides = table(2), OpenedSides(LAYOUT, ROWS)
    sides.open(0, 1, False, slice(None), ~(bins[:, 0] > 1))
    with pytest.raises(InputError, match="feature 0"):
        sides.possible(bins)
