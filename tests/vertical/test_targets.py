"""Targets and weights: what is accepted, and what comes of it."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.vertical.targets import (
    Target,
    checked_weights,
    class_fractions,
    counted,
    inputs_of,
    one_hot,
    set_aside,
    targets_from,
)


def checked(
    values: list[float], weights: list[float] | None = None, classes: int = 2, *, balanced: bool = False
) -> list:
    target = Target(np.array(values, float), None if weights is None else np.array(weights, float))
    return checked_weights(target, len(values), classes, balanced=balanced).tolist()


# weights


def test_without_weights_all_rows_count_the_same() -> None:
    assert checked([0, 1, 1]) == [1.0, 1.0, 1.0]
    assert checked([0.5, -3, 1e12], classes=0) == [1.0, 1.0, 1.0]
    assert checked([0, 1, 1], [0.5, 2, 0]) == [0.5, 2.0, 0.0]


def test_weights_of_rows_come_on_top() -> None:
    values, bag, rows = np.array([0.0, 1.0, 1.0]), np.array([2.0, 1.0, 0.0]), np.array([0.25, 0.5, 1.0])
    target = Target(values, bag, 7, rows)
    assert checked_weights(target, 3, 2, balanced=False).tolist() == [0.5, 0.5, 0.0]
    inputs = inputs_of([target, Target(values, rows, 8, rows)])
    first, second = targets_from(inputs)
    assert (first.seed, second.seed) == (7, 8)
    for found in (first, second):
        np.testing.assert_array_equal(found.row_weights, rows)
    assert "row_weights" not in inputs_of([Target(values, bag)])
    assert targets_from(inputs_of([Target(values, bag)]))[0].row_weights is None
    for other in (rows[:2], rows[np.newaxis], np.array([1, 1, 1]), np.array(["a", "b", "c"])):
        with pytest.raises(InputError, match="do not fit together"):
            targets_from({**inputs, "row_weights": other})
    for wrong in (np.array([1.0, -1.0, 1.0]), np.array([1.0, np.nan, 1.0]), np.ones(2)):
        with pytest.raises(InputError, match="weights"):
            checked_weights(Target(values, np.ones(3), 0, wrong), 3, 2, balanced=False)


def test_what_rows_of_weight_zero_have_does_not_matter() -> None:
    assert checked([0, 1, math.nan, math.inf, 7, -1, 0.5], [1, 1, 0, 0, 0, 0, 0]) == [1, 1, 0, 0, 0, 0, 0]
    assert checked([0, math.nan], [1, 0], classes=0) == [1, 0]


@pytest.mark.parametrize(
    ("values", "weights", "classes", "text"),
    [
        ([0, 1], [1, -1], 2, "weights"),
        ([0, 1], [1, math.nan], 2, "weights"),
        ([0, 1], [1, math.inf], 0, "weights"),
        ([0, 1], [1], 2, "weights"),
        ([0, 1], [1, 1, 1], 2, "weights"),
        ([0, 1], [0, 0], 2, "weights"),
        ([0, 1], [0, 0], 0, "weights"),
        ([0, math.nan], None, 0, "target"),
        ([0, math.inf], [1, 2], 0, "target"),
        ([0, math.nan], None, 2, "target"),
        ([0, 2], None, 2, "target.*0 to 1"),
        ([0, -1], None, 2, "target.*0 to 1"),
        ([0, 0.5], None, 2, "target.*0 to 1"),
        ([0, 0], None, 1, "two"),
        ([0, 0], None, 2, "target.*1 of 2"),
        ([0, 1, 2], [1, 0, 1], 3, "target.*1 of 3"),
        ([0, 1], None, 10, "target.*8 of 10"),
    ],
)
def test_targets_that_cannot_be_are_refused_without_showing_them(
    values: list[float], weights: list[float] | None, classes: int, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        checked(values, weights, classes)


def test_there_is_one_value_for_each_row() -> None:
    with pytest.raises(InputError, match=r"target.* 3 .* 4"):
        checked_weights(Target(np.zeros(3)), 4, 0, balanced=False)
    with pytest.raises(InputError, match="target"):
        checked_weights(Target(np.zeros((4, 1))), 4, 0, balanced=False)


def test_balanced_classes_weigh_the_same_and_all_together_what_they_did() -> None:
    values, weights = [0, 0, 0, 1, 2, 2, 2, 1], [1, 1, 2, 0.5, 3, 0, 1, 0]
    found = checked(values, weights, 3, balanced=True)
    by_class = [sum(w for v, w in zip(values, found, strict=True) if v == number) for number in range(3)]
    assert by_class == pytest.approx([8.5 / 3] * 3, rel=1e-14)
    assert found[5] == found[7] == 0.0
    assert found[2] == pytest.approx(2 * found[0], rel=1e-14)


def test_numbers_have_no_balance() -> None:
    assert checked([1, 2, 3], [1, 2, 3], 0, balanced=True) == [1, 2, 3]


# shares and draws


def test_shares_of_classes_go_by_weight() -> None:
    shares = class_fractions(np.array([0.0, 1, 2, 2]), np.array([1.0, 2, 1, 0]), 3)
    assert shares == [0.25, 0.5, 0.25]


@pytest.mark.parametrize(("share", "expected"), [(0.1, 8), (0.5, 40), (0.999, 79), (1e-9, 1)])
def test_rows_set_aside_are_a_share_of_those_that_take_part(share: float, expected: int) -> None:
    weights = np.where(np.arange(100) % 5 == 0, 0.0, 2.0)
    aside = set_aside(weights, share, np.random.default_rng(3))
    assert aside.sum() == expected
    assert not (aside & (weights == 0)).any()
    again = set_aside(weights, share, np.random.default_rng(3))
    assert (aside == again).all()


def test_rows_are_set_aside_at_random() -> None:
    rng = np.random.default_rng(0)
    times = Counter(row for _ in range(300) for row in np.flatnonzero(set_aside(np.ones(10), 0.3, rng)).tolist())
    assert sum(times.values()) == 900
    assert min(times.values()) > 50


def test_a_single_row_cannot_be_set_aside() -> None:
    with pytest.raises(InputError, match="patience"):
        set_aside(np.array([0.0, 1.0, 0.0]), 0.5, np.random.default_rng(0))
    assert set_aside(np.array([0.0, 1.0, 1.0]), 0.9, np.random.default_rng(0)).sum() == 1


def test_columns_of_classes_and_counts_of_draws() -> None:
    assert one_hot(np.array([2.0, 0.0, np.nan]), 3).tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert counted(np.array([3, 3, 0]), 5).tolist() == [1, 0, 0, 2, 0]
