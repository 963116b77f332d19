"""TabDDPM: rows like those of the table, and cells that fit the known ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import Fitted, complete, fit
from unpooled.complete.generators import tabddpm
from unpooled.complete.generators.sampling import sample_table
from unpooled.complete.generators.settings import TabDdpmSettings
from unpooled.data.coding import encode_all
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, TrainingDiverged
from unpooled.networks import training
from unpooled.networks.training import Progress

ROWS = 800
DRAWN = 250  # as many as are compiled for once
SETTINGS = TabDdpmSettings(epochs=120, batch_rows=100, learning_rate=3e-3, held_out=0, rounds=2)
SHORT = SETTINGS.model_copy(update={"epochs": 3})
LABELLED = SETTINGS.model_copy(update={"label": "tariff"})
TARIFFS = ("basic", "family", "plus")


def example() -> Table:
    """All but `paper` follows from one number; a quarter of the scores is missing."""
    rng = np.random.default_rng(1)
    hidden = rng.standard_normal(ROWS)

    def noisy(spread: float) -> Floats:
        return hidden + spread * rng.standard_normal(ROWS)

    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "income": np.exp(hidden),
            "children": np.clip(np.rint(noisy(0.2) + 1), 0, 4).astype(np.int64),
            "tariff": np.array(TARIFFS)[np.digitize(noisy(0.1), [-0.5, 0.5])],
            "since": pl.Series((19000 + 300 * noisy(0.1)).astype(np.int32)).cast(pl.Date),
            "paper": rng.random(ROWS) < 0.3,
            "score": pl.Series(noisy(0.2)).set(pl.Series(rng.random(ROWS) < 0.25), None),
        }
    )
    return table_from_frame(frame, "id", "telco")


@pytest.fixture(scope="module")
def table() -> Table:
    return example()


@pytest.fixture(scope="module")
def fitted(table: Table) -> Fitted:
    return fit(SETTINGS, table, np.random.default_rng(2))


def drawn(fitted: Fitted, seed: int = 3, *, missing: bool = True) -> Floats:
    return tabddpm.sample(SETTINGS, fitted.columns, fitted.state, DRAWN, np.random.default_rng(seed), missing=missing)


def test_rows_are_like_those_of_the_table(fitted: Fitted, table: Table) -> None:
    rows, real = drawn(fitted), encode_all(fitted.columns, table)
    assert np.bincount(rows[:, 2].astype(int)) / DRAWN == pytest.approx(
        np.bincount(real[:, 2].astype(int)) / ROWS, abs=0.12
    )
    assert rows[:, 4].mean() == pytest.approx(0.3, abs=0.12)
    assert np.isnan(rows[:, 5]).mean() == pytest.approx(0.25, abs=0.12)
    assert not np.isnan(rows[:, :5]).any()
    assert set(rows[:, 1]) <= {0.0, 1.0, 2.0, 3.0, 4.0}, "few whole numbers are classes"
    for place in (1, 2, 3):
        assert np.corrcoef(np.log(rows[:, 0]), rows[:, place])[0, 1] > 0.7
    assert not np.isnan(drawn(fitted, missing=False)).any()


def test_the_same_random_seed_gives_the_same_rows(fitted: Fitted, table: Table) -> None:
    assert np.array_equal(drawn(fitted, 5), drawn(fitted, 5), equal_nan=True)
    assert not np.array_equal(drawn(fitted, 5), drawn(fitted, 6), equal_nan=True)
    one, two = (fit(SHORT, table, np.random.default_rng(7)).state.weights for _ in range(2))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_a_file_gives_the_same_rows(fitted: Fitted, tmp_path: Path) -> None:
    save(fitted, tmp_path / "fitted.npz")
    again = load(tmp_path / "fitted.npz")
    assert np.array_equal(drawn(fitted), drawn(again), equal_nan=True)


def test_rows_have_the_types_of_the_table(fitted: Fitted, table: Table) -> None:
    rows = sample_table(fitted, DRAWN, np.random.default_rng(4))
    types = (pl.Float64(), pl.Int64(), pl.String(), pl.Date(), pl.Boolean(), pl.Float64())
    assert dict(rows.schema) == dict(zip(table.kinds, types, strict=True))
    assert rows["income"].is_between(*(table.frame["income"].min(), table.frame["income"].max())).all()


def test_known_cells_stay_and_filled_ones_fit_them_better_than_draws_from_the_column(
    fitted: Fitted, table: Table
) -> None:
    some = table.take(np.arange(DRAWN))
    mask = np.random.default_rng(8).random((DRAWN, 6)) < 0.3
    mask[0] = True
    done = complete(fitted, some, np.random.default_rng(9), mask).table.frame
    assert done.schema == some.frame.schema
    for place, name in enumerate(some.kinds):
        known = pl.Series(~mask[:, place])
        assert done[name].filter(known).equals(some.frame[name].filter(known))
        assert done[name].filter(~known).null_count() == 0
    wanted = mask[:, 0] & ~mask.all(axis=1)
    truth, filled = (np.log(frame["income"].to_numpy()[wanted]) for frame in (some.frame, done))
    drawn_from_column = np.random.default_rng(10).permutation(np.log(some.frame["income"].to_numpy()))[wanted]
    assert np.mean((filled - truth) ** 2) < 0.4 * np.mean((drawn_from_column - truth) ** 2)
    wanted = mask[:, 2] & ~mask.all(axis=1)
    assert np.mean((some.frame["tariff"] == done["tariff"]).to_numpy()[wanted]) > 0.6


@pytest.fixture(scope="module")
def labelled(table: Table) -> Fitted:
    """With a label that is missing in a fifth of the rows."""
    absent = pl.Series(np.random.default_rng(4).random(ROWS) < 0.2)
    frame = table.frame.with_columns(pl.when(absent).then(None).otherwise(pl.col("tariff")).alias("tariff"))
    return fit(LABELLED, replace(table, frame=frame), np.random.default_rng(2))


def test_labels_are_drawn_by_their_frequencies_and_the_rest_fits_them(labelled: Fitted) -> None:
    state = labelled.state
    frequencies = state.weights["label.frequencies"]
    (group,) = (group for group in state.encoding.layout.groups if group.column == 2)
    assert group.missing
    own = frequencies[group.start : group.start + group.units]
    assert (frequencies.sum(), own.sum(), own[-1]) == pytest.approx((1.0, 1.0, 0.2), abs=0.03)
    rows = tabddpm.sample(LABELLED, labelled.columns, state, DRAWN, np.random.default_rng(3))
    absent = np.isnan(rows[:, 2])
    assert absent.mean() == pytest.approx(own[-1], abs=0.1)
    found = np.bincount(rows[~absent, 2].astype(int), minlength=3) / DRAWN
    assert found == pytest.approx(own[:3], abs=0.1)
    assert np.corrcoef(np.log(rows[~absent, 0]), rows[~absent, 2])[0, 1] > 0.7
    whole = tabddpm.sample(LABELLED, labelled.columns, state, DRAWN, np.random.default_rng(3), missing=False)
    assert not np.isnan(whole).any()


def test_guidance_makes_rows_differ_more_by_their_label(labelled: Fitted, fitted: Fitted) -> None:
    def sampled(one: Fitted, settings: TabDdpmSettings, guidance: float) -> Floats:
        settings = settings.model_copy(update={"guidance": guidance})
        return tabddpm.sample(settings, one.columns, one.state, DRAWN, np.random.default_rng(3), missing=False)

    def between(rows: Floats) -> float:
        """The part of the variance of incomes that is one between labels."""
        incomes, labels = np.log(rows[:, 0]), rows[:, 2].astype(int)
        means = np.array([incomes[labels == label].mean() for label in range(len(TARIFFS))])
        return float(means[labels].var() / incomes.var())

    plain, guided = (sampled(labelled, LABELLED, guidance) for guidance in (0.0, 1.5))
    assert np.array_equal(plain[:, 2], guided[:, 2]), "labels are drawn as they were"
    assert between(guided) > between(plain) + 0.02
    preset = tabddpm.sample(SETTINGS, fitted.columns, fitted.state, DRAWN, np.random.default_rng(3), missing=False)
    assert np.array_equal(preset, sampled(fitted, SETTINGS, 0.3))


def test_a_label_that_is_wanted_is_filled_and_a_known_one_tells_about_others(labelled: Fitted, table: Table) -> None:
    truth = encode_all(labelled.columns, table)[:DRAWN]
    wanted = np.zeros(truth.shape, np.bool_)
    wanted[:100, 2] = True
    wanted[100:, [0, 1, 3, 4, 5]] = True
    filled = tabddpm.fill(LABELLED, labelled.columns, labelled.state, truth, wanted, np.random.default_rng(1))
    assert np.mean(filled[:100, 2] == truth[:100, 2]) > 0.6
    assert np.array_equal(filled[100:, 2], truth[100:, 2])
    assert np.corrcoef(np.log(filled[100:, 0]), truth[100:, 2])[0, 1] > 0.7


def test_the_label_must_be_a_column_of_classes(table: Table) -> None:
    with pytest.raises(InputError, match="label: must be a column of classes that has values: tariff, paper"):
        fit(SHORT.model_copy(update={"label": "income"}), table, np.random.default_rng(2))


def test_a_level_never_seen_and_cells_unknown_everywhere_say_nothing(fitted: Fitted) -> None:
    values = np.full((20, 6), np.nan)
    values[:10, 2] = 7.0
    wanted = np.ones(values.shape, np.bool_)
    wanted[:, 2] = False
    filled = tabddpm.fill(SETTINGS, fitted.columns, fitted.state, values, wanted, np.random.default_rng(1))
    assert np.isfinite(filled[:, [0, 1, 3, 4, 5]]).all()
    assert np.array_equal(filled[:, 2], values[:, 2], equal_nan=True)


def test_a_training_that_is_resumed_gives_the_same_weights(table: Table, fitted: Fitted, tmp_path: Path) -> None:
    values = encode_all(fitted.columns, table)

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    path = tmp_path / "training.npz"
    whole = tabddpm.fit(SHORT, fitted.columns, values, np.random.default_rng(3))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(training.train.__kwdefaults__, "checkpoint_seconds", 0.0)  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            tabddpm.fit(SHORT, fitted.columns, values, np.random.default_rng(3), stop, path)
    assert path.exists()
    resumed = tabddpm.fit(SHORT, fitted.columns, values, np.random.default_rng(3), checkpoint=path)
    assert all(np.array_equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)


def test_divergence_is_named(table: Table) -> None:
    settings = SETTINGS.model_copy(update={"learning_rate": 1.0})
    with pytest.raises(TrainingDiverged, match=r"'tabddpm' diverged in epoch \d+: set a lower learning_rate than 1,"):
        fit(settings, table, np.random.default_rng(2))


def test_a_preset_has_so_many_steps_of_training_whatever_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).standard_normal((400, 1))
    frame = pl.DataFrame({"id": range(400), "one": values[:, 0]})
    table = table_from_frame(frame, "id", "telco")
    seen: list[int] = []

    def trained(*given: Any, **_: object) -> Any:
        _name, schedule, _steps, _form, state, *_rest = given
        seen.append(schedule.epochs)
        return state

    monkeypatch.setattr(tabddpm, "train", trained)
    for changes in ({}, {"batch_rows": 10}, {"batch_rows": 10, "epochs": 900}):
        fit(TabDdpmSettings(held_out=0, **changes), table, np.random.default_rng(1))  # type: ignore[arg-type]
    assert seen == [1050, 188, 900]


def test_numbers_alone_few_rows_and_a_constant() -> None:
    frame = pl.DataFrame({"id": range(30), "one": [1.5] * 30, "two": np.linspace(0.0, 7.0, 30)})
    learned = fit(SHORT, table_from_frame(frame, "id", "telco"), np.random.default_rng(1))
    assert np.isfinite(drawn(learned)).all()
    paper = SHORT.model_copy(update={"preset": "paper"})
    layout, fast = learned.state.encoding.layout, learned.state.weights
    assert tabddpm.shapes(SHORT, layout) == {name: fast[name].shape for name in fast}
    assert tabddpm.shapes(paper, layout) != tabddpm.shapes(SHORT, layout)
