"""Metrics without known negatives, against those with the truth."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.evaluate import metrics, pu
from unpooled.evaluate.metrics import Undefined

SHARE = 0.3


@pytest.mark.parametrize("apart", [0.5, 2.0, 4.0])
def test_estimates_are_near_the_truth(apart: float) -> None:
    rng = np.random.default_rng(1)
    truth = (np.arange(50_000) < SHARE * 50_000).astype(int)
    scores, known = rng.normal(apart * truth), rng.normal(apart, 1, 50_000)
    said, said_known = (scores > apart / 2).astype(int), (known > apart / 2).astype(int)
    assert pu.auc(known, scores, SHARE) == pytest.approx(metrics.auc(truth, scores), abs=0.01)
    found = pu.summary(said_known, said, SHARE)
    for name in ("recall", "precision", "f1", "accuracy"):
        assert found[name] == pytest.approx(getattr(metrics, name)(truth, said), abs=0.015), name
    assert found["lee_liu"] == pytest.approx(found["precision"] * found["recall"] / SHARE, rel=1e-9)


def test_exactly_right_if_known_rows_are_found_as_often_as_all_positives() -> None:
    truth = np.repeat([1, 0], [40, 160])
    said = np.concatenate([np.repeat([1, 0], [30, 10]), np.repeat([1, 0], [20, 140])])
    known = np.array([1, 1, 1, 0])
    found = pu.summary(known, said, 0.2)
    for name in ("recall", "precision", "f1", "accuracy"):
        assert found[name] == pytest.approx(getattr(metrics, name)(truth, said), rel=1e-12), name


def test_estimates_stay_within_what_is_possible() -> None:
    everything, little = np.ones(5), np.repeat([1, 0], [1, 99])
    assert pu.precision(everything, little, 0.5) == 1.0
    assert 0.0 <= pu.accuracy(np.zeros(5), np.ones(10), 0.5) <= 1.0
    assert pu.auc(np.full(5, 2.0), np.zeros(10), 0.9) == 1.0
    assert pu.auc(np.zeros(5), np.full(10, 2.0), 0.9) == 0.0


def test_what_has_no_value() -> None:
    with pytest.raises(Undefined, match="predicted"):
        pu.precision(np.ones(3), np.zeros(4), 0.5)
    with pytest.raises(Undefined, match="positive"):
        pu.recall(np.zeros(0))
    with pytest.raises(Undefined, match="unlabelled"):
        pu.auc(np.ones(3), np.zeros(4), 1.0)
    assert set(pu.summary(np.ones(3), np.zeros(4), 0.5)) == {"recall", "f1", "accuracy"}
    for fraction in (0.0, -1.0, 1.5):
        with pytest.raises(InputError, match="positives"):
            pu.f1(np.ones(3), np.ones(4), fraction)
