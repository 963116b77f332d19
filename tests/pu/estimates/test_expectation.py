"""What to expect of a list: the band covers the truth where classes overlap, and claims nothing impossible."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled.arrays import Floats
from unpooled.pu.estimates.expectation import expected_of, lengths_of


def drawn(distance: float, seed: int = 1) -> tuple[Floats, Floats, Floats]:
    """Scores of known rows, of unlabelled rows, and which of the latter are positive."""
    rng = np.random.default_rng(seed)
    positive = rng.random(8000) < 0.15
    return rng.normal(distance, 1, 300), rng.normal(positive * distance, 1), positive


@pytest.mark.parametrize("distance", [1.5, 2.5, 4.0])
def test_the_band_covers_the_truth(distance: float) -> None:
    known, unlabelled, positive = drawn(distance)
    found = expected_of(known, unlabelled)
    ranked = positive[np.argsort(-unlabelled)]
    true = np.array([ranked[:length].mean() for length in found.lengths])
    assert np.mean((found.low <= true) & (true <= found.high)) > 0.9
    assert found.fewest <= positive.sum() <= found.most
    assert found.fewest < found.suggested == found.positives < found.most


def test_what_is_expected_is_possible_and_does_not_grow_with_the_length() -> None:
    found = expected_of(*drawn(1.0)[:2], [7, 77, 1_000_000])
    assert {7, 77, 8000, found.suggested} <= set(found.lengths.tolist())
    assert found.lengths.max() == found.rows == 8000
    assert (np.diff(found.precision) <= 1e-12).all()
    for low, middle, high in zip(found.low, found.precision, found.high, strict=True):
        assert 0 <= low <= middle <= high <= 1


@pytest.mark.parametrize(("known", "rows"), [(1, 2), (3, 40), (500, 25)])
def test_few_rows_are_no_error(known: int, rows: int) -> None:
    rng = np.random.default_rng(3)
    found = expected_of(rng.random(known), rng.random(rows))
    assert found.lengths.tolist() == lengths_of(rows, [found.suggested]).tolist()
    assert np.isfinite([found.precision, found.low, found.high]).all()


def test_scores_that_are_all_the_same_tell_nothing() -> None:
    found = expected_of(np.full(50, 0.5), np.full(900, 0.5))
    assert (found.most, found.low.max()) == (900, found.low.min())
