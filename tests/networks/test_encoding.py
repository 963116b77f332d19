"""Tables as units of a network, and back: every type, in every way of coding numbers."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.data.coding import Column, encode_all, learn_all
from unpooled.data.table import Table, table_from_frame
from unpooled.networks.coders import OneHot, Way
from unpooled.networks.encoding import Encoding, encoding_from, learn_encoding
from unpooled.networks.modes import fit_modes

WAYS: tuple[Way, ...] = ("modes", "quantiles", "range")
GRADES = ("low", "middle", "high")


def example(rows: int = 400, seed: int = 1) -> Table:
    """A column of every type; some numbers are missing, one column is constant."""
    rng = np.random.default_rng(seed)
    income = pl.Series(np.exp(rng.normal(7.0, 1.0, rows))).set(pl.Series(rng.random(rows) < 0.1), None)
    frame = pl.DataFrame(
        {
            "id": range(rows),
            "income": income,
            "children": rng.integers(0, 4, rows),
            "born": [dt.date(1950, 1, 1) + dt.timedelta(int(day)) for day in rng.integers(0, 20_000, rows)],
            "member": rng.random(rows) < 0.5,
            "grade": rng.choice(GRADES, rows),
            "city": rng.choice(["Aachen", "Bonn", "Celle"], rows),
            "constant": [7.5] * rows,
        }
    )
    return table_from_frame(frame, "id", "telco", {"grade": GRADES})


def coded(table: Table) -> tuple[tuple[Column, ...], Floats]:
    columns = learn_all(table)
    return columns, encode_all(columns, table)


@pytest.mark.parametrize("rows", [400, 30])
@pytest.mark.parametrize("way", WAYS)
def test_cells_come_back(way: Way, rows: int) -> None:
    columns, values = coded(example(rows))
    encoding = learn_encoding(columns, values, way, discrete_values=5)
    rng = np.random.default_rng(2)
    units = encoding.encode(values, rng)
    assert units.dtype == np.float32
    assert units.shape == (rows, encoding.layout.width)
    back = encoding.decode(units, rng)
    names = [column.name for column in columns]
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    for name in ("children", "member", "grade", "city", "constant"):
        np.testing.assert_array_equal(back[:, names.index(name)], values[:, names.index(name)])
    for name in ("income", "born"):
        one, two = (matrix[:, names.index(name)] for matrix in (back, values))
        near = np.abs(one - two)[~np.isnan(two)] <= 0.02 * np.nanstd(two)
        assert near.mean() > 0.98, "but for cells far from every mode"


@pytest.mark.parametrize("way", WAYS)
def test_one_unit_of_every_group_is_set(way: Way) -> None:
    columns, values = coded(example())
    encoding = learn_encoding(columns, values, way)
    units = encoding.encode(values, np.random.default_rng(1))
    for group in encoding.layout.groups:
        assert (units[:, group.start : group.start + group.units].sum(axis=1) == 1).all()
    assert (units[:, encoding.layout.column_of < 0] == 0).all(), "padding"
    without = encoding.decode(units, np.random.default_rng(1), missing=False)
    assert not np.isnan(without).any()


def test_rare_levels_share_a_unit_and_are_drawn_by_frequency() -> None:
    """Of 3,000 levels 100 are learned one by one; the others come back as they were distributed."""
    rng = np.random.default_rng(3)
    cells = np.concatenate([np.repeat(np.arange(100), 50), np.repeat(np.arange(100, 3_000), 2)]).astype(float)
    column = Column(
        name="city",
        kind="category",
        levels=tuple(map(str, range(3_000))),
        low=0.0,
        high=2_999.0,
        whole=True,
        spread=1.0,
    )
    encoding = learn_encoding([column], cells[:, np.newaxis], "modes", levels=100)
    (coder,) = encoding.coders
    assert isinstance(coder, OneHot)
    assert coder.units == 101
    back = encoding.decode(encoding.encode(cells[:, np.newaxis], rng), rng)[:, 0]
    np.testing.assert_array_equal(back[:5_000], cells[:5_000])
    assert back[5_000:].min() >= 100
    assert len(np.unique(back[5_000:])) > 1_500


def test_a_mask_of_cells_covers_their_units() -> None:
    columns, values = coded(example())
    encoding = learn_encoding(columns, values, "modes")
    cells = np.zeros((1, len(columns)), bool)
    cells[0, 0] = True
    (found,) = encoding.unit_mask(cells)
    assert set(encoding.layout.column_of[found]) == {0}
    assert found.sum() == (encoding.layout.column_of == 0).sum() > 1


def test_an_encoding_is_kept_as_arrays() -> None:
    columns, values = coded(example())
    for way in WAYS:
        encoding = learn_encoding(columns, values, way)
        again = encoding_from(columns, encoding.arrays())
        assert isinstance(again, Encoding)
        one, two = (each.encode(values, np.random.default_rng(4)) for each in (encoding, again))
        np.testing.assert_array_equal(one, two)


def test_arrays_that_do_not_fit_are_refused() -> None:
    columns, values = coded(example())
    arrays = learn_encoding(columns, values, "quantiles").arrays()
    name = next(name for name in arrays if name.endswith(".points"))
    for wrong in (arrays[name][::-1], arrays[name] * np.nan, np.empty(0)):
        with pytest.raises(ValueError, match="coder"):
            encoding_from(columns, arrays | {name: wrong})
    with pytest.raises(ValueError, match="does not belong to a column"):
        encoding_from(columns[:2], arrays)


def test_modes_are_found() -> None:
    """Two normal distributions, and one value that is frequent by itself."""
    rng = np.random.default_rng(5)
    cells = np.concatenate([rng.normal(-10.0, 1.0, 3_000), rng.normal(10.0, 2.0, 3_000), np.zeros(2_000)])
    means, spreads, weights = fit_modes(cells)
    assert weights.sum() == pytest.approx(1.0, abs=0.02)
    assert (means[0], spreads[0], weights[0]) == (0.0, 0.0, pytest.approx(0.25))
    for side in (means < -5, means > 5):
        assert weights[side].sum() == pytest.approx(0.375, abs=0.02)
    assert fit_modes(np.full(10, 3.0))[0].tolist() == [3.0]
