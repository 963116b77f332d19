"""Mixtures of normal distributions: clusters are found, and draws are like the points."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled.complete.generators.mixture import fit_mixture


def test_clusters_with_their_own_covariances_are_found() -> None:
    rng = np.random.default_rng(1)
    first = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]], 3_000)
    second = rng.multivariate_normal([8.0, 0.0], [[1.0, -0.9], [-0.9, 1.0]], 1_000)
    found = fit_mixture(np.concatenate([first, second]), 2, rng)
    order = np.argsort(found.means[:, 0])
    np.testing.assert_allclose(found.weights[order], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(found.means[order], [[0, 0], [8, 0]], atol=0.1)
    covariances = found.roots[order] @ found.roots[order].transpose(0, 2, 1)
    np.testing.assert_allclose(covariances[:, 0, 1], [0.9, -0.9], atol=0.1)
    drawn = found.draw(20_000, rng)
    left = drawn[drawn[:, 0] < 4]
    assert len(left) / len(drawn) == pytest.approx(0.75, abs=0.02)
    assert np.corrcoef(left.T)[0, 1] == pytest.approx(0.9, abs=0.03)


def test_draws_of_one_part_have_the_mean_and_covariance_of_the_points() -> None:
    rng = np.random.default_rng(2)
    points = rng.standard_normal((2_000, 3)) @ np.array([[2.0, 0, 0], [1, 1, 0], [0, 0, 0.1]]) + [1.0, 2.0, 3.0]
    drawn = fit_mixture(points, 1, rng).draw(50_000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), points.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(points.T), atol=0.1)


@pytest.mark.parametrize("rows", [1, 3])
def test_very_few_points(rows: int) -> None:
    found = fit_mixture(np.ones((rows, 5)), 1, np.random.default_rng(3))
    np.testing.assert_allclose(found.draw(10, np.random.default_rng(4)), 1.0, atol=0.01)


def test_parts_without_weight_are_never_drawn() -> None:
    rng = np.random.default_rng(5)
    found = fit_mixture(rng.standard_normal((100, 2)), 2, rng)
    found.weights[0], found.means[0] = 0.0, 1e6
    assert np.abs(found.draw(1_000, rng)).max() < 100
