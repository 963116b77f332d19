"""CTAB-GAN: long tails and frequent values are coded and come back, and rows are of the right types."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import Fitted, complete, fit
from unpooled.complete.generators import ctab_gan
from unpooled.complete.generators.settings import CtabGanSettings
from unpooled.data.coding import Column, encode_all, learn_all
from unpooled.data.table import Table, table_from_frame
from unpooled.networks.coders import LongTail, Modes
from unpooled.networks.encoding import encoding_from, learn_encoding
from unpooled.networks.groups import as_units, silent_units, units_of

ROWS = 600
SPIKE = 1.0 / 3.0
SETTINGS = CtabGanSettings(epochs=40, batch_rows=50, held_out=0)


def example() -> Table:
    """A third of the gains is one number, and the others have a long tail; every fifth score is missing."""
    rng = np.random.default_rng(1)
    income = rng.normal(10.0, 2.0, ROWS)
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "income": income,
            "gain": np.where(rng.random(ROWS) < 0.33, SPIKE, np.exp(rng.normal(3.0, 1.5, ROWS))),
            "debt": np.exp(rng.normal(0.0, 1.5, ROWS)) - 5.0,
            "since": pl.Series((19000 + 300 * rng.standard_normal(ROWS)).astype(np.int32)).cast(pl.Date),
            "score": pl.Series(rng.normal(5.0, 1.0, ROWS)).set(pl.Series(np.arange(ROWS) % 5 == 0), None),
            "tariff": np.array(["basic", "family", "plus"])[rng.choice(3, ROWS, p=[0.6, 0.3, 0.1])],
            "paper": income > 11.0,
        }
    )
    return table_from_frame(frame, "id", "telco")


@pytest.fixture(scope="module")
def table() -> Table:
    return example()


@pytest.fixture(scope="module")
def fitted(table: Table) -> Fitted:
    return fit(SETTINGS, table, np.random.default_rng(2))


def coded(table: Table) -> tuple[tuple[Column, ...], Floats]:
    columns = learn_all(table)
    return columns, encode_all(columns, table)


def drawn(fitted: Fitted, rows: int, seed: int = 3, *, missing: bool = True) -> Floats:
    return ctab_gan.sample(SETTINGS, fitted.columns, fitted.state, rows, np.random.default_rng(seed), missing=missing)


def test_long_tails_come_back(table: Table) -> None:
    columns, values = coded(table)
    encoding = learn_encoding(columns, values, "long tails", discrete_values=20)
    kinds = {column.name: type(coder) for column, coder in zip(columns, encoding.coders, strict=True)}
    assert kinds["gain"] is kinds["debt"] is LongTail
    assert kinds["income"] is kinds["since"] is kinds["score"] is Modes
    rng = np.random.default_rng(1)
    again = encoding_from(columns, encoding.arrays())
    back = again.decode(again.encode(values, rng), rng)
    np.testing.assert_allclose(back, values, rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(back[:, 1] == SPIKE, values[:, 1] == SPIKE)


def test_what_is_below_the_tail_is_coded_too() -> None:
    table = table_from_frame(pl.DataFrame({"id": range(300), "x": np.exp(np.linspace(0.0, 8.0, 300))}), "id", "telco")
    columns, values = coded(table)
    encoding = learn_encoding(columns, values, "long tails")
    assert isinstance(encoding.coders[0], LongTail)
    rng = np.random.default_rng(1)
    low = encoding.decode(encoding.encode(np.array([[-3.0], [1e9]]), rng), rng)
    assert np.isfinite(low).all()
    with pytest.raises(ValueError, match="coder"):
        encoding_from(columns, {**encoding.arrays(), "encoding.0.shift": np.zeros(2)})


def test_scalars_of_frequent_values_and_missing_cells_are_silent(table: Table) -> None:
    columns, values = coded(table)
    encoding = learn_encoding(columns, values, "long tails", discrete_values=20)
    layout, rows = encoding.layout, encoding.encode(values, np.random.default_rng(1))
    raw = jax.random.normal(jax.random.key(1), rows.shape)
    groups = jnp.asarray(rows) * (jnp.arange(layout.width) >= layout.scalar_units)
    made = np.asarray(as_units(raw, groups, units_of(layout), silent_units(encoding)))
    np.testing.assert_array_equal(made[:, layout.scalar_units :], rows[:, layout.scalar_units :])
    np.testing.assert_array_equal(made[:, layout.scalars[1]] == 0.0, values[:, 1] == SPIKE)
    np.testing.assert_array_equal(made[:, layout.scalars[4]] == 0.0, np.isnan(values[:, 4]))


def test_rows_are_like_the_table(table: Table, fitted: Fitted) -> None:
    _, values = coded(table)
    rows = drawn(fitted, 700)
    for place, column in enumerate(fitted.columns):
        assert np.isnan(rows[:, place]).any() == (column.name == "score")
        if not column.is_number:
            assert set(np.unique(rows[:, place])) == set(np.unique(values[:, place])), column.name
    for place in (0, 3, 4):
        assert 0.4 < np.nanstd(rows[:, place]) / np.nanstd(values[:, place]) < 2.5, fitted.columns[place].name
    assert 0.1 < (rows[:, 1] == SPIKE).mean() < 0.6
    assert not np.isnan(drawn(fitted, 100, missing=False)).any()


def test_the_same_seed_gives_the_same_rows(table: Table, fitted: Fitted) -> None:
    np.testing.assert_array_equal(drawn(fitted, 30), drawn(fitted, 30))
    assert not np.array_equal(drawn(fitted, 30), drawn(fitted, 30, seed=4), equal_nan=True)
    short = SETTINGS.model_copy(update={"epochs": 1})
    one, two = (fit(short, table, np.random.default_rng(2)) for _ in range(2))
    np.testing.assert_array_equal(drawn(one, 30), drawn(two, 30))


def test_filling_keeps_known_cells_and_types(table: Table, fitted: Fitted, tmp_path: Path) -> None:
    mask = np.random.default_rng(5).random((ROWS, len(fitted.columns))) < 0.2
    mask[0] = True
    filled = complete(fitted, table, np.random.default_rng(6), mask).draws[0].frame
    assert filled.schema == table.frame.schema
    for place, column in enumerate(fitted.columns):
        assert filled[column.name].filter(~mask[:, place]).equals(table.frame[column.name].filter(~mask[:, place]))
        assert filled[column.name].filter(mask[:, place]).null_count() == 0
    save(fitted, tmp_path / "fitted.npz")
    after = complete(load(tmp_path / "fitted.npz"), table, np.random.default_rng(6), mask).draws[0].frame
    assert after.equals(filled)
