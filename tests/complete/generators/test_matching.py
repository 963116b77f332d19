"""Filling rows by the nearest of generated ones."""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats
from unpooled.complete.generators.matching import fill_by_matching
from unpooled.data.coding import Column

COLUMNS = [
    Column(name="x", kind="number", low=0.0, high=1.0, whole=False, spread=0.3),
    Column(name="level", kind="category", levels=tuple("abcd"), low=0.0, high=3.0, whole=True, spread=1.0),
    Column(name="y", kind="number", low=0.0, high=1.0, whole=False, spread=0.3),
]


def generate(rows: int, rng: np.random.Generator) -> Floats:
    """The level follows from x, and y is x."""
    x = rng.random(rows)
    return np.column_stack([x, np.floor(4 * x), x])


def test_wanted_cells_come_from_one_row_that_is_near() -> None:
    rng = np.random.default_rng(1)
    truth = generate(1_200, rng)
    wanted = np.zeros(truth.shape, np.bool_)
    wanted[:, 1:] = True
    filled = fill_by_matching(COLUMNS, generate, np.where(wanted, np.nan, truth), wanted, rng)
    np.testing.assert_array_equal(filled[:, 0], truth[:, 0])
    assert np.abs(filled[:, 2] - truth[:, 2]).max() < 0.05
    np.testing.assert_array_equal(filled[:, 1], np.floor(4 * filled[:, 2]))


def test_among_equally_near_rows_one_is_drawn() -> None:
    rng = np.random.default_rng(2)
    values = np.tile([np.nan, 2.0, np.nan], (2_000, 1))
    filled = fill_by_matching(COLUMNS, generate, values, np.isnan(values), rng)
    assert filled[:, 0].min() >= 0.5
    assert filled[:, 0].max() < 0.75
    assert np.abs(filled[:, 0].mean() - 0.625) < 0.02
    nothing = np.full((2_000, 3), np.nan)
    filled = fill_by_matching(COLUMNS, generate, nothing, np.isnan(nothing), rng)
    assert np.abs(filled[:, 0].mean() - 0.5) < 0.04


def test_values_of_wanted_cells_have_no_influence_and_other_gaps_stay() -> None:
    values = np.array([[0.2, 3.0, np.nan], [0.9, 0.0, np.nan]])
    wanted = np.array([[False, True, False]] * 2)
    filled = fill_by_matching(COLUMNS, generate, values, wanted, np.random.default_rng(3))
    np.testing.assert_array_equal(filled, [[0.2, 0.0, np.nan], [0.9, 3.0, np.nan]])
