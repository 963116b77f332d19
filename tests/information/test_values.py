"""Information values in whole numbers are those of floats, whatever the counts."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.information.values import (
    CUT_BITS,
    MOST_ROWS,
    as_fraction,
    by_chance,
    class_weights,
    information_value,
    rounding_of,
    verdict,
    weights_of_evidence,
)


def in_floats(positive: np.ndarray, negative: np.ndarray) -> tuple[float, np.ndarray]:
    woe = np.log((positive + 0.5) / positive.sum()) - np.log((negative + 0.5) / negative.sum())
    return float(((positive / positive.sum() - negative / negative.sum()) * woe).sum()), woe


@pytest.mark.parametrize("rows", [60, 30_000, 10_000_000])
@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_values_are_those_of_floats(rows: int, rate: float) -> None:
    rng = np.random.default_rng(rows)
    for bins in (2, 10, 101):
        every = rng.multinomial(rows, rng.dirichlet(np.ones(bins)))
        positive = rng.binomial(every, np.clip(rate * rng.uniform(0.2, 1.1, bins), 0, 1))
        positive[0], every[0] = positive[0] + 1, every[0] + 2
        iv, woe = in_floats(positive, every - positive)
        assert abs(as_fraction(information_value(positive, every - positive)) - iv) < 5e-5
        assert np.abs(weights_of_evidence(positive, every - positive, 3) / 1000 - woe).max() <= 0.0015


def test_the_largest_sums_fit() -> None:
    """Two bins that tell the classes apart altogether, with as many rows as can be."""
    for positives in (1, MOST_ROWS // 2, MOST_ROWS - 1):
        positive, negative = np.array([positives, 0]), np.array([0, MOST_ROWS - positives])
        assert abs(as_fraction(information_value(positive, negative)) - in_floats(positive, negative)[0]) < 1e-4
    largest = 2 * class_weights(1, 1)[0] * round(np.log(2 * MOST_ROWS + 1) * 2**19) + abs(rounding_of(1, MOST_ROWS - 1))
    assert largest + 2**CUT_BITS < 2**63
    with pytest.raises(InputError, match="rows of both classes"):
        class_weights(5, 0)
    with pytest.raises(InputError, match="at most 16,777,215"):
        class_weights(MOST_ROWS, 1)


def test_verdicts_change_at_the_usual_values() -> None:
    values = (-0.001, 0.0199, 0.02, 0.1, 0.3, 0.4999, 0.5)
    assert [verdict(value) for value in values] == ["none", "none", "weak", "medium", "strong", "strong", "suspicious"]


def test_what_chance_gives_is_about_what_is_foretold() -> None:
    rng, bins = np.random.default_rng(3), 10
    found = []
    for _ in range(200):
        column, labels = rng.integers(bins, size=2000), rng.random(2000) < 0.2
        positive = np.bincount(column[labels], minlength=bins)
        found.append(as_fraction(information_value(positive, np.bincount(column, minlength=bins) - positive)))
    assert np.mean(found) == pytest.approx(by_chance(bins, 400, 1600), rel=0.15)
