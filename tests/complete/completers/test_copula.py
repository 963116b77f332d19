"""The Gaussian copula: correlations as they are, conditional draws as the normal distribution has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from scipy import stats

from unpooled.arrays import Floats
from unpooled.complete.completers.copula import CopulaSettings
from unpooled.complete.completers.filling import complete, fit
from unpooled.data import normal
from unpooled.data.table import Table, table_from_frame

CORRELATION = np.array([[1.0, 0.8, -0.5], [0.8, 1.0, -0.2], [-0.5, -0.2, 1.0]])
ROWS = 4000


def normal_columns(rows: int = ROWS) -> Floats:
    return np.random.default_rng(5).multivariate_normal(np.zeros(3), CORRELATION, rows)


def table_of(columns: Floats) -> Table:
    frame = pl.DataFrame({"id": range(len(columns)), **{name: columns[:, n] for n, name in enumerate("abc")}})
    return table_from_frame(frame, "id", "telco")


def test_the_normal_distribution_is_scipys() -> None:
    points = np.linspace(-7.9, 7.9, 9999)
    np.testing.assert_allclose(normal.cdf(points), stats.norm.cdf(points), atol=1e-6)
    chances = np.linspace(1e-6, 1 - 1e-6, 9999)
    np.testing.assert_allclose(normal.quantile(chances), stats.norm.ppf(chances), atol=1e-5)
    np.testing.assert_allclose(normal.quantile(normal.cdf(points[:5000])), points[:5000], atol=1e-9)


@pytest.mark.parametrize(
    ("mean", "low", "high"), [(0.0, -1.0, 0.5), (2.0, -1.0, 0.5), (0.0, 3.0, 8.0), (30.0, 1.0, 2.0)]
)
def test_truncated_draws_are_scipys(mean: float, low: float, high: float) -> None:
    means = np.full(4000, mean)
    drawn = normal.truncated(means, 0.7, np.full(4000, low), np.full(4000, high), np.random.default_rng(1))
    assert drawn.min() >= low
    assert drawn.max() <= high
    if abs(mean) < 8:
        reference = stats.truncnorm((low - mean) / 0.7, (high - mean) / 0.7, loc=mean, scale=0.7)
        assert stats.kstest(drawn, reference.cdf).statistic < 0.03


@pytest.mark.parametrize("cut", [None, "rounded", "two values", "three values"])
def test_correlations_are_those_of_the_hidden_variables(cut: str | None) -> None:
    """Also if one column is known only roughly: its correlation is not weakened by that, as that of ranks would be."""
    columns = normal_columns()
    if cut is not None:
        edges = {"rounded": np.arange(-3, 4) * 0.5, "two values": [0.4], "three values": [-0.5, 1.0]}[cut]
        columns[:, 1] = np.digitize(columns[:, 1], np.array(edges))
    columns[:, 0] = np.exp(columns[:, 0])  # any growing function leaves it as it is
    fitted = fit(CopulaSettings(held_out=0.0), table_of(columns), np.random.default_rng(1))
    np.testing.assert_allclose(fitted.state.correlation, CORRELATION, atol=0.05)


def test_missing_cells_do_not_bias_correlations() -> None:
    columns = normal_columns()
    columns[np.random.default_rng(1).random(columns.shape) < 0.3] = np.nan
    fitted = fit(CopulaSettings(held_out=0.0), table_of(columns), np.random.default_rng(1))
    np.testing.assert_allclose(fitted.state.correlation, CORRELATION, atol=0.05)


def test_draws_have_the_conditional_distribution() -> None:
    columns = normal_columns()
    fitted = fit(CopulaSettings(held_out=0.0), table_of(columns), np.random.default_rng(1))
    asked = np.full((3000, 3), np.nan)
    asked[:, 0] = 1.2
    done = complete(fitted, table_of(asked), np.random.default_rng(2)).table.frame
    drawn = done["b"].to_numpy()
    assert drawn.mean() == pytest.approx(0.8 * 1.2, abs=0.06)
    assert drawn.std() == pytest.approx((1 - 0.8**2) ** 0.5, abs=0.05)
    given = np.linalg.inv(np.linalg.inv(CORRELATION)[1:, 1:])  # the covariance of b and c, given a
    assert np.cov(drawn, done["c"].to_numpy()) == pytest.approx(given, abs=0.06)


def test_without_known_cells_draws_have_the_joint_distribution(mixed: Callable[[int], Table]) -> None:
    table = mixed(2000)
    mask = np.zeros((2000, 6), np.bool_)
    mask[:1000] = True
    fitted = fit(CopulaSettings(held_out=0.0), table, np.random.default_rng(1), mask)
    done = complete(fitted, table, np.random.default_rng(2), mask).table.frame
    new, old = done[:1000], done[1000:]
    assert stats.ks_2samp(new["income"], old["income"]).statistic < 0.06
    for one, two in (("income", "children"), ("income", "paper"), ("since", "size"), ("paper", "size")):
        found, expected = (
            stats.spearmanr(part[one].to_physical(), part[two].to_physical()).statistic for part in (new, old)
        )
        assert found == pytest.approx(expected, abs=0.1)
    means = [part.group_by("tariff").agg(pl.col("income").log().mean()).sort("tariff")["income"] for part in (new, old)]
    assert means[0].to_list() == pytest.approx(means[1].to_list(), abs=0.25)


def test_only_some_rows_are_needed_for_correlations() -> None:
    table = table_of(normal_columns(3000))
    fitted = fit(CopulaSettings(held_out=0.0, rows=800), table, np.random.default_rng(1))
    np.testing.assert_allclose(fitted.state.correlation, CORRELATION, atol=0.1)
    assert len(fitted.state.values) == 3000


def test_columns_that_are_equal_can_be_inverted_and_filled_from_each_other() -> None:
    column = np.random.default_rng(1).normal(size=500)
    table = table_of(np.column_stack([column, column, -column]))
    mask = np.zeros((500, 3), np.bool_)
    mask[:100, 0] = True
    fitted = fit(CopulaSettings(held_out=0.0), table, np.random.default_rng(1), mask)
    done = complete(fitted, table, np.random.default_rng(2), mask).table.frame["a"].to_numpy()
    assert np.corrcoef(done[:100], column[:100])[0, 1] > 0.97
