"""Rows as imputers see them: what becomes units and comes back, and which cells are hidden in training."""

from __future__ import annotations

import numpy as np
import polars as pl

from unpooled.complete.imputers.cells import (
    decoded,
    encoded,
    learn_cells,
    most_likely,
    narrowed,
    patterns_of,
    shown_cells,
)
from unpooled.data.coding import encode_all, learn_all
from unpooled.data.table import table_from_frame


def test_cells_become_units_and_come_back() -> None:
    frame = pl.DataFrame({"x": [2.0, 4.0, None, 6.0], "text": ["a", None, "b", "a"], "flag": [True, False, True, None]})
    table = table_from_frame(frame, (), "telco")
    columns = learn_all(table)
    values = encode_all(columns, table)
    encoding = learn_cells(columns, values, levels=5)
    units, known = encoded(encoding, values, np.random.default_rng(1))
    np.testing.assert_array_equal(known, ~np.isnan(values))
    np.testing.assert_allclose(units[[0, 1, 3], 0], [0.0, 0.5, 1.0])
    assert units.shape[1] == narrowed(encoding.layout).width < encoding.layout.width
    back = decoded(encoding, units, np.random.default_rng(1))
    np.testing.assert_allclose(back[known], values[known])


def test_a_level_that_was_not_learned_is_not_known() -> None:
    table = table_from_frame(pl.DataFrame({"text": ["a", "b", "c", "a"]}), (), "telco")
    columns = learn_all(table)
    values = encode_all(columns, table)
    encoding = learn_cells(columns, values[:2], levels=5)
    _, known = encoded(encoding, values, np.random.default_rng(1))
    assert known[:, 0].tolist() == [True, True, False, True]


def test_levels_that_share_a_unit_are_never_the_most_likely() -> None:
    table = table_from_frame(pl.DataFrame({"text": ["a", "a", "b", "c", "d"]}), (), "telco")
    columns = learn_all(table)
    encoding = learn_cells(columns, encode_all(columns, table), levels=1)
    (group,) = encoding.layout.groups
    units = np.zeros((3, narrowed(encoding.layout).width), np.float32)
    units[:, group.start + 1] = 0.9
    units[:, group.start] = 0.1
    assert decoded(encoding, most_likely(encoding, units), np.random.default_rng(1))[:, 0].tolist() == [0.0] * 3


def test_some_rows_are_hidden_as_others_are() -> None:
    """Columns that miss together in some rows are hidden together in half of the rows, single cells in the others."""
    values = np.ones((4_000, 5))
    values[2_000:, 3:] = np.nan
    patterns = patterns_of(values, np.random.default_rng(1))
    assert len(patterns) == 2_000
    shown = shown_cells(np.ones((4_000, 5), np.bool_), patterns, 0.2, np.random.default_rng(2))
    together = (shown == [True, True, True, False, False]).all(axis=1).mean()
    assert 0.48 < together < 0.56
    assert 0.01 < (~shown).all(axis=1).mean() < 0.03
    alone = shown_cells(np.ones((4_000, 5), np.bool_), patterns[:0], 0.2, np.random.default_rng(3))
    assert 0.75 < alone.mean() < 0.82
    assert not shown_cells(np.zeros((9, 5), np.bool_), patterns, 0.2, np.random.default_rng(4)).any()
