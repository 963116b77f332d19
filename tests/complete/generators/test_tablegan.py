"""TableGAN: cells as pixels and back, rows of the right types, the label's classifier."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import Fitted, complete, fit
from unpooled.complete.generators import tablegan
from unpooled.complete.generators.labels import label_place
from unpooled.complete.generators.settings import TableGanSettings
from unpooled.complete.generators.tablegan import _as_pixels, _as_values, _batches
from unpooled.data.coding import Column, encode_all, learn_all
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.networks.encoding import encoding_from, learn_encoding

ROWS = 600
SIZES = ("small", "middle", "large")
SETTINGS = TableGanSettings(epochs=40, batch_rows=50, held_out=0)


def example() -> Table:
    """Half the gains are 0, every fifth score is missing, the size follows the income."""
    rng = np.random.default_rng(1)
    income = rng.normal(10.0, 2.0, ROWS)
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "income": income,
            "gain": np.where(rng.random(ROWS) < 0.5, 0.0, rng.exponential(3.0, ROWS)),
            "children": rng.integers(0, 5, ROWS),
            "tariff": np.array(["basic", "family", "plus"])[rng.choice(3, ROWS, p=[0.6, 0.3, 0.1])],
            "since": pl.Series((19000 + 300 * rng.standard_normal(ROWS)).astype(np.int32)).cast(pl.Date),
            "score": pl.Series(rng.normal(5.0, 1.0, ROWS)).set(pl.Series(np.arange(ROWS) % 5 == 0), None),
            "paper": rng.random(ROWS) < 0.3,
            "size": np.array(SIZES)[np.digitize(income, [8.0, 12.0])],
        }
    )
    return table_from_frame(frame, "id", "telco", {"size": SIZES})


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
    return tablegan.sample(SETTINGS, fitted.columns, fitted.state, rows, np.random.default_rng(seed), missing=missing)


@pytest.mark.parametrize("way", ["positions", "ranks"])
def test_pixels_come_back_as_cells(table: Table, way: tablegan.Way) -> None:
    columns, values = coded(table)
    rng = np.random.default_rng(1)
    encoding = learn_encoding(columns, values, way, discrete_values=20)
    pixels, widths = _as_pixels(encoding, values, rng)
    assert pixels.shape == (ROWS, len(columns) + 1)
    assert np.abs(pixels).max() <= 1.0
    np.testing.assert_allclose(_as_values(encoding, pixels, rng, missing=True), values, rtol=1e-3, atol=2e-2)
    again = encoding_from(columns, encoding.arrays())
    np.testing.assert_array_equal(
        _as_values(again, pixels, np.random.default_rng(2), missing=True),
        _as_values(encoding, pixels, np.random.default_rng(2), missing=True),
    )
    if way == "ranks":
        spread = _batches(pixels, widths, ROWS, spread=True)(rng)[0]
        back = _as_values(encoding, spread, rng, missing=True)
        for place, column in enumerate(columns):
            for value in np.unique(values[:, place]) if column.whole and column.kind != "date" else [0.0]:
                frequent = (values[:, place] == value).sum()
                assert abs((back[:, place] == value).sum() - frequent) <= 3, column.name


def test_positions_of_another_column_are_refused(table: Table) -> None:
    columns, values = coded(table)
    arrays = learn_encoding(columns, values, "positions").arrays()
    place = [column.name for column in columns].index("tariff")
    for name, wrong in (("positions", [0.0, 1.0, 3.0]), ("positions", [0.0, 2.0, 1.0]), ("shares", [1.0])):
        with pytest.raises(ValueError, match="coder"):
            encoding_from(columns, {**arrays, f"encoding.{place}.{name}": np.array(wrong)})


def test_rows_are_like_the_table(table: Table, fitted: Fitted) -> None:
    _, values = coded(table)
    rows = drawn(fitted, 700)
    assert rows.shape == (700, len(fitted.columns))
    for place, column in enumerate(fitted.columns):
        known, found = values[:, place], rows[:, place]
        assert np.isnan(found).any() == (column.name == "score")
        if column.is_number:
            assert 0.5 < np.nanstd(found) / np.nanstd(known) < 2.0, column.name
        else:
            assert set(np.unique(found)) == set(np.unique(known)), column.name
    gain = rows[:, [column.name for column in fitted.columns].index("gain")]
    assert 0.3 < (gain == 0.0).mean() < 0.7


def test_the_same_seed_gives_the_same_rows(table: Table, fitted: Fitted) -> None:
    np.testing.assert_array_equal(drawn(fitted, 30), drawn(fitted, 30))
    assert not np.array_equal(drawn(fitted, 30), drawn(fitted, 30, seed=4), equal_nan=True)
    again = fit(SETTINGS, table, np.random.default_rng(2))
    np.testing.assert_array_equal(drawn(again, 30), drawn(fitted, 30))


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


def test_tables_without_classes_need_no_classifier(table: Table) -> None:
    columns, values = coded(table)
    assert label_place(None, columns) == 7
    assert label_place("tariff", columns) == 3
    assert label_place(None, columns[:2]) is None
    settings = TableGanSettings(epochs=1, batch_rows=50, margin=0.2, preset="paper")
    trained = tablegan.fit(settings, columns[:2], values[:, :2], np.random.default_rng(1))
    rows = tablegan.sample(settings, columns[:2], trained, 10, np.random.default_rng(1))
    assert np.isfinite(rows).all()
    with pytest.raises(InputError, match="label: must be a column of classes that has values: tariff, paper, size"):
        label_place("income", columns)
