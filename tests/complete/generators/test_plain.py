"""Plain samplers of whole rows: what each keeps of a table, and where cells are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.complete.completers.filling import complete, fit
from unpooled.complete.completers.smote import SmoteSettings
from unpooled.complete.generators.plain import PLAIN, fit_plain, sample_plain
from unpooled.data.coding import Column, encode_all, learn_all
from unpooled.data.table import Table, table_from_frame

NAMES = [one.name for one in PLAIN]


def related(rows: int = 400, missing: float = 0.0) -> Table:
    """Two numbers that go together, a category that follows from them, and cells missing in pairs."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=rows)
    gone = pl.Series(rng.random(rows) < missing)
    frame = pl.DataFrame({"x": x, "y": x + 0.3 * rng.normal(size=rows), "side": np.where(x > 0, "right", "left")})
    return table_from_frame(frame.with_columns(pl.when(~gone).then(pl.col("x", "side"))), (), "telco")


def sampled(name: str, table: Table, rows: int, **settings: Any) -> tuple[tuple[Column, ...], Floats, Floats]:
    kind = next(one.settings for one in PLAIN if one.name == name)
    chosen, columns = kind.model_validate(settings), learn_all(table)
    values = encode_all(columns, table)
    state = fit_plain(chosen, columns, values, np.random.default_rng(2))
    return columns, values, sample_plain(chosen, columns, state, rows, np.random.default_rng(3))


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_distributions_of_the_columns(name: str) -> None:
    _, real, rows = sampled(name, related(), 12_000)
    assert rows.shape == (12_000, 3)
    assert rows.mean(axis=0) == pytest.approx(real.mean(axis=0), abs=0.1)
    together = np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]
    assert (abs(together) < 0.05) if name == "marginal" else (together > 0.85)
    apart = rows[rows[:, 2] == 1.0, 0].mean() - rows[rows[:, 2] == 0.0, 0].mean()
    assert (abs(apart) < 0.1) if name == "marginal" else (apart > 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_as_many_cells_are_missing_as_there_were(name: str) -> None:
    _, real, rows = sampled(name, related(missing=0.3), 4000)
    assert np.isnan(rows).mean(axis=0) == pytest.approx(np.isnan(real).mean(axis=0), abs=0.03)
    if name in ("hot-deck", "smote"):
        assert (np.isnan(rows[:, 0]) == np.isnan(rows[:, 2])).all()


def test_a_hot_deck_draws_rows_of_the_table_and_smote_does_not() -> None:
    _, real, copied = sampled("hot-deck", related(), 500)
    known = set(map(tuple, real))
    assert all(tuple(row) in known for row in copied)
    _, _, between = sampled("smote", related(), 500)
    assert sum(tuple(row) in known for row in between) < 5
    assert between[:, 0].min() >= real[:, 0].min()
    assert between[:, 0].max() <= real[:, 0].max()


def test_smote_takes_the_majority_of_the_neighbours() -> None:
    x = [0.0, 0.1, 0.2, 0.3, 9.0, 9.1, 9.2, 9.3]
    frame = pl.DataFrame({"x": x, "y": x, "side": [*"aaab", *"bbba"]})
    _, _, rows = sampled("smote", table_from_frame(frame, (), "telco"), 300, neighbours=3)
    near = rows[:, 0] < 1.0
    assert (rows[near, 2] == 0.0).mean() > 0.7
    assert (rows[~near, 2] == 1.0).mean() > 0.7
    assert ((rows[:, 0] <= 0.3) | (rows[:, 0] >= 9.0)).all()  # no row is between the two groups


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_smote_of_very_few_rows(rows: int) -> None:
    _, real, new = sampled("smote", related().take(np.arange(rows)), 20)
    assert new.shape == (20, 3)
    assert (new[:, :2] >= real[:, :2].min(axis=0)).all()
    assert (new[:, :2] <= real[:, :2].max(axis=0)).all()


def test_smote_fills_cells_given_the_known_ones() -> None:
    table = related()
    mask = np.zeros((400, 3), np.bool_)
    mask[:100, [0, 2]] = True
    fitted = fit(SmoteSettings(), table, np.random.default_rng(1), mask)
    done = complete(fitted, table, np.random.default_rng(2), mask).table.frame
    assert np.corrcoef(done["x"][:100], table.frame["x"][:100])[0, 1] > 0.8
    assert (done["side"] == table.frame["side"])[:100].mean() > 0.8
