"""TVAE's preset for two cores: hidden numbers that follow the table, and cells filled where most are missing."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.complete.generators.settings import TvaeSettings
from unpooled.complete.generators.tvae import TVAE
from unpooled.data.coding import Column, encode_all, learn_all
from unpooled.data.table import table_from_frame
from unpooled.networks.trained import Trained

ROWS, KNOWN = 1_500, 400
SETTINGS = TvaeSettings(epochs=80, batch_rows=100)


def example() -> tuple[tuple[Column, ...], Floats]:
    """The level and the bill follow from the region; level and bill are missing in most rows, level also by itself."""
    rng = np.random.default_rng(1)
    region = rng.choice(4, ROWS, p=[0.4, 0.3, 0.2, 0.1])
    frame = pl.DataFrame(
        {
            "region": np.array(["east", "north", "south", "west"])[region],
            "level": np.array(["a", "b", "c", "d"])[
                np.where(rng.random(ROWS) < 0.9, region, rng.integers(4, size=ROWS))
            ],
            "bill": np.where(rng.random(ROWS) < 0.3, 0.0, rng.normal(20.0 * region, 2.0)),
            "paper": rng.random(ROWS) < 0.2,
        }
    )
    table = table_from_frame(frame, (), "telco")
    columns = learn_all(table)
    return columns, encode_all(columns, table)


@pytest.fixture(scope="module")
def learned() -> tuple[tuple[Column, ...], Floats, Trained]:
    columns, truth = example()
    values = truth.copy()
    values[KNOWN:, 1:3] = np.nan
    return columns, truth, TVAE.fit(SETTINGS, columns, values, np.random.default_rng(2))


def test_drawn_rows_have_every_level_as_often_as_the_table(
    learned: tuple[tuple[Column, ...], Floats, Trained],
) -> None:
    columns, truth, trained = learned
    rows = TVAE.sample(SETTINGS, columns, trained, 10_000, np.random.default_rng(3))
    for place in (0, 3):
        levels, counts = np.unique(truth[:, place], return_counts=True)
        found = [(rows[:, place] == level).mean() for level in levels]
        np.testing.assert_allclose(found, counts / ROWS, atol=0.02)
    np.testing.assert_allclose(np.isnan(rows).mean(axis=0), [0, 1 - KNOWN / ROWS, 1 - KNOWN / ROWS, 0], atol=0.03)
    assert (rows[:, 2] == 0).mean() == pytest.approx(0.3 * KNOWN / ROWS, abs=0.03)
    without = TVAE.sample(SETTINGS, columns, trained, 100, np.random.default_rng(3), missing=False)
    assert not np.isnan(without).any()


def test_cells_are_filled_where_most_were_missing(learned: tuple[tuple[Column, ...], Floats, Trained]) -> None:
    """Draws of the level agree with the truth far more often than draws from the column, about three in ten."""
    columns, truth, trained = learned
    wanted = np.zeros(truth.shape, np.bool_)
    wanted[:, 1:3] = True
    filled = TVAE.fill(SETTINGS, columns, trained, np.where(wanted, np.nan, truth), wanted, np.random.default_rng(4))
    np.testing.assert_array_equal(filled[:, [0, 3]], truth[:, [0, 3]])
    assert not np.isnan(filled).any()
    assert (filled[:, 1] == truth[:, 1])[KNOWN:].mean() > 0.55
    assert (filled[:, 2] == 0.0).mean() == pytest.approx(0.3, abs=0.12)


def test_rows_of_which_nothing_is_known_are_drawn_whole(learned: tuple[tuple[Column, ...], Floats, Trained]) -> None:
    columns, truth, trained = learned
    nothing = np.full((5_000, 4), np.nan)
    wanted = np.isnan(nothing)
    filled = TVAE.fill(SETTINGS, columns, trained, nothing, wanted, np.random.default_rng(5))
    assert not np.isnan(filled).any()
    for place in (0, 3):
        assert (filled[:, place] == 0).mean() == pytest.approx((truth[:, place] == 0).mean(), abs=0.03)
    wanted[:, 3] = False
    filled = TVAE.fill(SETTINGS, columns, trained, nothing, wanted, np.random.default_rng(6))
    assert np.isnan(filled[:, 3]).all(), "not wanted"
    assert not np.isnan(filled[:, :3]).any()


def test_a_level_that_was_never_seen_says_nothing(learned: tuple[tuple[Column, ...], Floats, Trained]) -> None:
    columns, _, trained = learned
    values = np.tile([np.nan, np.nan, np.nan, 1.0], (500, 1))
    wanted = np.zeros(values.shape, np.bool_)
    wanted[:, 1] = True
    filled = TVAE.fill(SETTINGS, columns, trained, values, wanted, np.random.default_rng(7))
    assert len(np.unique(filled[:, 1])) == 4
    assert np.isnan(filled[:, [0, 2]]).all()
