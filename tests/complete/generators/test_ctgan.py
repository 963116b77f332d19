"""CTGAN: rows with the levels asked for, rare ones too, from conditions that are drawn as the paper says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import Fitted, complete, fit
from unpooled.complete.generators import ctgan
from unpooled.complete.generators.conditional import (
    NOTHING,
    asked_units,
    draw_asked,
    frequencies_of,
    groups_to_ask,
    known_only,
    logarithmic,
    places_of,
    sampled,
    vector,
)
from unpooled.complete.generators.settings import CtganSettings
from unpooled.data.coding import Column, encode_all, learn_all
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import TrainingDiverged
from unpooled.networks.encoding import Encoding, learn_encoding

ROWS = 1000
TARIFFS = ("basic", "family", "plus")
SETTINGS = CtganSettings(epochs=50, batch_rows=100, held_out=0)


def example() -> Table:
    """Two of a hundred tariffs are `plus`, with a high income; a fifth of the scores is missing."""
    rng = np.random.default_rng(1)
    tariff = rng.choice(3, ROWS, p=[0.7, 0.28, 0.02])
    score = pl.Series(rng.normal(5.0, 1.0, ROWS)).set(pl.Series(rng.random(ROWS) < 0.2), None)
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "tariff": np.array(TARIFFS)[tariff],
            "income": rng.normal(10.0 * tariff, 1.0),
            "paper": rng.random(ROWS) < 0.3,
            "since": pl.Series((19000 + 300 * rng.standard_normal(ROWS)).astype(np.int32)).cast(pl.Date),
            "score": score,
        }
    )
    return table_from_frame(frame, "id", "telco")


def coded(table: Table) -> tuple[tuple[Column, ...], Floats, Encoding]:
    columns = learn_all(table)
    values = encode_all(columns, table)
    return columns, values, learn_encoding(columns, values, "modes", discrete_values=20)


@pytest.fixture(scope="module")
def table() -> Table:
    return example()


@pytest.fixture(scope="module")
def fitted(table: Table) -> Fitted:
    return fit(SETTINGS, table, np.random.default_rng(2))


def drawn(fitted: Fitted, rows: int, seed: int = 3, *, missing: bool = True) -> Floats:
    return ctgan.sample(SETTINGS, fitted.columns, fitted.state, rows, np.random.default_rng(seed), missing=missing)


def test_conditions_are_respected(fitted: Fitted) -> None:
    for group in groups_to_ask(fitted.state.encoding.layout):
        for level in range(group.units):
            asked = np.full(300, group.start + level)
            rng = np.random.default_rng(4)
            rows = ctgan._sample_asked(ctgan._FORMS["fast"], fitted.state, asked, rng, missing=True)
            assert np.mean(rows[:, group.column] == level) > 0.9


def test_levels_are_as_frequent_as_in_the_table_and_go_with_their_numbers(fitted: Fitted) -> None:
    rows = drawn(fitted, 4000)
    assert np.bincount(rows[:, 0].astype(int)) / 4000 == pytest.approx([0.7, 0.28, 0.02], abs=0.05)
    assert np.isnan(rows[:, 4]).mean() == pytest.approx(0.2, abs=0.08)
    assert not np.isnan(rows[:, :4]).any()
    incomes = [float(np.median(rows[rows[:, 0] == level, 1])) for level in range(3)]
    assert incomes[:2] == pytest.approx([0.0, 10.0], abs=3.0)
    assert incomes[2] > 5.0
    assert not np.isnan(drawn(fitted, 500, missing=False)).any()


def test_the_same_random_seed_gives_the_same_rows(fitted: Fitted, table: Table) -> None:
    assert np.array_equal(drawn(fitted, 300, 5), drawn(fitted, 300, 5), equal_nan=True)
    assert not np.array_equal(drawn(fitted, 300, 5), drawn(fitted, 300, 6), equal_nan=True)
    short = SETTINGS.model_copy(update={"epochs": 2})
    one, two = (fit(short, table, np.random.default_rng(7)).state.weights for _ in range(2))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_a_file_gives_the_same_rows(fitted: Fitted, tmp_path: Path) -> None:
    save(fitted, tmp_path / "fitted.npz")
    again = load(tmp_path / "fitted.npz")
    assert np.array_equal(drawn(fitted, 300), drawn(again, 300), equal_nan=True)


def test_known_cells_stay_and_types_are_kept(fitted: Fitted, table: Table) -> None:
    mask = np.random.default_rng(8).random((ROWS, 5)) < 0.3
    mask[0] = True
    done = complete(fitted, table, np.random.default_rng(9), mask).table.frame
    assert done.schema == table.frame.schema
    for place, name in enumerate(table.kinds):
        known = pl.Series(~mask[:, place])
        assert done[name].filter(known).equals(table.frame[name].filter(known))
        assert done[name].filter(~known).null_count() == 0
    low, high = done["tariff"] == "basic", done["tariff"] == "family"
    filled = pl.Series(mask[:, 1] & ~mask[:, 0])
    apart = done["income"].filter(high & filled).mean() - done["income"].filter(low & filled).mean()  # type: ignore[operator]
    assert apart > 5.0, "filled cells go with known ones"


def test_divergence_is_named(table: Table) -> None:
    settings = SETTINGS.model_copy(update={"learning_rate": 1.0, "epochs": 20})
    with pytest.raises(TrainingDiverged, match=r"'ctgan' diverged in epoch \d+: set a lower learning_rate than 1,"):
        fit(settings, table, np.random.default_rng(2))


def test_numbers_alone_few_rows_and_a_constant_as_in_the_paper() -> None:
    frame = pl.DataFrame({"id": range(30), "one": [1.5] * 30, "two": np.linspace(0.0, 7.0, 30)})
    settings = CtganSettings(preset="paper", epochs=2, batch_rows=25, held_out=0)
    learned = fit(settings, table_from_frame(frame, "id", "telco"), np.random.default_rng(1))
    rows = ctgan.sample(settings, learned.columns, learned.state, 50, np.random.default_rng(2))
    assert rows.shape == (50, 2)
    assert np.isfinite(rows).all()
    weights = learned.state.weights
    assert ctgan.shapes(settings, learned.state.encoding.layout) == {name: weights[name].shape for name in weights}


def test_units_are_drawn_by_the_logarithm_of_their_frequency(table: Table) -> None:
    _, values, encoding = coded(table)
    groups, units = groups_to_ask(encoding.layout), encoding.encode(values, np.random.default_rng(1))
    assert [group.column for group in groups] == [0, 2]
    assert [group.column for group in groups_to_ask(encoding.layout, modes=True)] == [0, 1, 2, 3, 4]
    likely = logarithmic(frequencies_of(groups, units), ROWS)
    asked = draw_asked(groups, likely, 60_000, np.random.default_rng(2))
    found = np.bincount(asked, minlength=encoding.layout.width) / 60_000
    for group in groups:
        counts = np.bincount(values[:, group.column].astype(int))
        expected = np.log1p(counts) / np.log1p(counts).sum() / len(groups)
        assert found[group.start : group.start + group.units] == pytest.approx(expected, abs=0.01)
    by_frequency = draw_asked(groups, frequencies_of(groups, units), 60_000, np.random.default_rng(2))
    rare = groups[0].start + 2
    assert np.mean(by_frequency == rare) == pytest.approx(np.mean(values[:, 0] == 2) / 2, abs=0.005)
    assert np.mean(asked == rare) > 5 * np.mean(by_frequency == rare)


def test_missing_cells_can_be_left_out(table: Table) -> None:
    _, values, encoding = coded(table)
    layout = encoding.layout
    groups = groups_to_ask(layout, modes=True)
    frequencies = frequencies_of(groups, encoding.encode(values, np.random.default_rng(1)))
    last = groups[-1].start + groups[-1].units - 1
    assert frequencies[last] == pytest.approx(np.isnan(values[:, 4]).mean())
    asked = draw_asked(groups, known_only(layout, frequencies), 5000, np.random.default_rng(2))
    assert last not in asked


def test_rows_have_what_was_asked_for(table: Table) -> None:
    _, values, encoding = coded(table)
    units = encoding.encode(values, np.random.default_rng(1))
    groups = groups_to_ask(encoding.layout)
    asked, rows = sampled(groups, units, 100)(np.random.default_rng(3))
    assert asked.shape == (10, 100)
    assert (np.take_along_axis(rows, asked[..., np.newaxis], axis=-1) == 1.0).all()
    assert len(np.unique(rows[asked == groups[0].start], axis=0)) > 100, "any row with the level can be drawn"
    places = places_of(groups)
    vectors = np.asarray(vector(asked[0], places))
    assert (vectors.sum(axis=1) == 1.0).all()
    assert (places[vectors.argmax(axis=1)] == asked[0]).all()
    assert (np.asarray(asked_units(asked[0], units.shape[1])).argmax(axis=1) == asked[0]).all()


def test_nothing_is_asked_of_numbers_alone() -> None:
    units = np.random.default_rng(1).random((40, 32)).astype(np.float32)
    asked, rows = sampled((), units, 20)(np.random.default_rng(2))
    assert (asked == NOTHING).all()
    assert rows.shape == (2, 20, 32)
    assert not np.asarray(vector(asked[0], places_of(()))).any()
