"""Comparisons of samples against scipy's and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import contingency
from sklearn.metrics import f1_score

from unpooled.evaluate.distribution import (
    correlation_ratio,
    cramers_v,
    kolmogorov_smirnov,
    macro_f1,
    moments,
    spearman,
    total_variation,
    wasserstein,
)
from unpooled.evaluate.metrics import Undefined

SEEDS = range(5)


def samples(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Two samples of different size; every second time with many ties."""
    rng = np.random.default_rng(seed)
    one, two = rng.normal(size=150), rng.normal(0.3, 1.4, size=220)
    return rng, np.round(one, 1 - seed % 2), np.round(two, 1 - seed % 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_distances_of_samples_are_scipys(seed: int) -> None:
    _, one, two = samples(seed)
    assert kolmogorov_smirnov(one, two) == pytest.approx(stats.ks_2samp(one, two).statistic)
    assert wasserstein(one, two) == pytest.approx(stats.wasserstein_distance(one, two))


@pytest.mark.parametrize("seed", SEEDS)
def test_moments_are_scipys(seed: int) -> None:
    _, _, values = samples(seed)
    found = moments(values)
    expected = (values.mean(), values.var(), stats.skew(values), stats.kurtosis(values))
    assert tuple(found.values()) == pytest.approx(expected)
    same = moments(np.full(3, 0.1))
    assert (same["skewness"], same["kurtosis"]) == (0.0, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_associations_are_scipys(seed: int) -> None:
    rng, one, _ = samples(seed)
    two = np.round(one + rng.normal(size=len(one)), 1)
    assert spearman(one, two) == pytest.approx(stats.spearmanr(one, two).statistic)
    classes, others = np.digitize(one, [-1, 0, 1]), np.digitize(two, [0, 0.7])
    table = contingency.crosstab(classes, others).count
    assert cramers_v(classes, others) == pytest.approx(contingency.association(table, method="cramer"))
    groups = [two[classes == one_class] for one_class in np.unique(classes)]
    assert correlation_ratio(classes, two) ** 2 == pytest.approx(stats.kruskal(*groups).statistic / (len(two) - 1))


def test_a_constant_column_is_associated_with_nothing() -> None:
    same, other = np.ones(10), np.arange(10.0)
    assert spearman(same, other) == cramers_v(same, other) == correlation_ratio(other > 4, same) == 0.0
    assert correlation_ratio(same, other) == 0.0


def test_total_variation_is_half_the_difference_of_frequencies() -> None:
    one, two = np.array(["a"] * 6 + ["b"] * 4), np.array(["a"] * 1 + ["c"] * 4)
    assert total_variation(one, two) == pytest.approx((abs(0.6 - 0.2) + 0.4 + 0.8) / 2)
    assert total_variation(one, one[::-1]) == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_macro_f1_is_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 100)
    said = np.where(rng.random(100) < 0.6, truth, rng.integers(0, 6, 100))
    assert macro_f1(truth, said) == pytest.approx(f1_score(truth, said, average="macro", zero_division=0.0))
    with pytest.raises(Undefined):
        macro_f1(truth[:0], said[:0])
