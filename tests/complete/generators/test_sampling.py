"""Generated tables: types, ids, files, seeds and checkpoints, with a neural model and with plain ones."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unpooled
from unpooled.complete.completers import files
from unpooled.complete.completers.filling import fit
from unpooled.complete.completers.simple import MedianSettings
from unpooled.complete.generators import generators, sampling
from unpooled.complete.generators.sampling import (
    LEAST_ROWS,
    SAMPLERS,
    check_learnable,
    fit_generator,
    learned_from,
    load_generator,
    sample_rows,
    sample_table,
    sampler_settings,
    split,
    without_ids,
)
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, ResumeError

ROWS = 60
SIZES = ("small", "middle", "large")
FEW_EPOCHS = {"epochs": 3}


def of_every_type(rows: int = ROWS) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    places = rng.integers(3, size=rows)
    return pl.DataFrame(
        {
            "income": np.exp(rng.normal(size=rows)).astype(np.float32),
            "children": pl.Series(places, dtype=pl.UInt8),
            "price": pl.Series([Decimal(int(one)) / 4 for one in rng.integers(1, 9, rows)], dtype=pl.Decimal(10, 2)),
            "since": [date(2020, 1, 1) + timedelta(days=int(day)) for day in rng.integers(900, size=rows)],
            "seen": [datetime(2020, 1, 1) + timedelta(days=int(day)) for day in rng.integers(900, size=rows)],
            "paper": rng.random(rows) > 0.5,
            "tariff": pl.Series(["a", "b", "c"]).gather(places),
            "city": pl.Series(["x", "y", "z"], dtype=pl.Categorical).gather(places),
            "size": pl.Series(SIZES, dtype=pl.Enum(SIZES)).gather(places),
            "same": np.full(rows, 7),
            "nothing": pl.Series([None] * rows, dtype=pl.Float64),
            "some": pl.Series(rng.normal(size=rows)).set(pl.Series(rng.random(rows) < 0.5), None),
        }
    )


def table(frame: pl.DataFrame | None = None, id: Any = ()) -> Table:
    return table_from_frame(of_every_type() if frame is None else frame, id, "telco")


@pytest.mark.parametrize("model", ["tvae", "marginal", "copula", "hot-deck", "smote"])
def test_columns_come_back_in_their_own_types_also_from_a_file(model: str, tmp_path: Path) -> None:
    frame = of_every_type()
    settings = sampler_settings(model, FEW_EPOCHS if model == "tvae" else {})
    fitted = fit_generator(settings, table(frame), np.random.default_rng(1))
    rows = sample_table(fitted, 200, np.random.default_rng(2))
    assert rows.schema == frame.schema
    assert rows.height == 200
    assert set(rows["same"]) == {7}
    assert rows["nothing"].null_count() == 200
    assert 40 < rows["some"].null_count() < 160
    assert set(rows["size"].cast(pl.String)) <= set(SIZES)
    for name in ("income", "children", "since", "price"):
        assert frame[name].min() <= rows[name].min()  # type: ignore[operator]
        assert rows[name].max() <= frame[name].max()  # type: ignore[operator]
    files.save(fitted, tmp_path / "model.npz")
    again = sample_table(load_generator(tmp_path / "model.npz"), 200, np.random.default_rng(2))
    assert again.equals(rows)
    assert again.schema == rows.schema


def test_without_types_of_a_source_whole_numbers_are_integers() -> None:
    known = table(of_every_type().select("children", "income", "tariff", "since"))
    untyped = Table(known.party, known.origin, (), known.kinds, known.frame)
    rows = sample_table(
        fit_generator(sampler_settings("marginal"), untyped, np.random.default_rng(1)), 5, np.random.default_rng(2)
    )
    assert list(rows.schema.values()) == [pl.Int64(), pl.Float64(), pl.Categorical(), pl.Date()]


def test_ids_and_texts_that_differ_in_nearly_every_row_are_left_out() -> None:
    frame = of_every_type().with_columns(
        name=pl.Series([f"person {number}" for number in range(ROWS)]),
        phone=pl.Series([f"{max(number, 2):09}" for number in range(ROWS)]),
        id=pl.int_range(ROWS),
    )
    rest, left_out = without_ids(table(frame, "id"))
    assert left_out == ("id", "name", "phone")
    assert list(rest.kinds) == of_every_type().columns
    assert rest.frame.columns == list(rest.kinds)
    assert without_ids(rest)[1] == ()


def test_a_held_out_part_follows_from_the_table_alone() -> None:
    one, two = split(table(), 0.25), split(table(), 0.25)
    assert one[0].frame.equals(two[0].frame)
    assert [part.frame.height for part in one] == [45, 15]
    assert [part.frame.height for part in split(table(), 0.0)] == [60, 0]


def test_a_model_knows_which_rows_it_has_learned_from(tmp_path: Path) -> None:
    settings = sampler_settings("copula", {"held_out": 0.25})
    training, held_out = split(table(), 0.25)
    files.save(fit_generator(settings, training, np.random.default_rng(1)), tmp_path / "model.npz")
    fitted = load_generator(tmp_path / "model.npz")
    found = learned_from(fitted, table())
    assert found
    assert found.training.frame.equals(training.frame)
    assert found.held_out
    assert found.held_out.frame.equals(held_out.frame)
    on_all = learned_from(fit_generator(settings, table(), np.random.default_rng(1)), table())
    assert on_all
    assert on_all.held_out is None
    assert learned_from(fitted, table(of_every_type(80))) is None


def test_the_same_seed_gives_the_same_rows() -> None:
    frame = of_every_type().select("income", "tariff", "paper")
    one, two, three = (unpooled.generate_table(frame, "tvae", 50, seed=seed, epochs=2) for seed in (1, 1, 2))
    assert one.equals(two)
    assert not one.equals(three)


def test_a_data_frame_of_pandas_is_learned_and_a_model_saved(tmp_path: Path) -> None:
    frame = pd.DataFrame({"who": [f"p{n}" for n in range(40)], "age": range(40), "sex": ["f", "m"] * 20})
    generator = unpooled.TableGenerator.fit(frame, "smote", id="who", seed=1, neighbours=3)
    assert generator.left_out == ("who",)
    generator.save(tmp_path / "people.npz")
    rows = unpooled.TableGenerator.load(tmp_path / "people.npz").sample(30, seed=2)
    assert rows.equals(generator.sample(30, seed=2))
    assert rows.schema == {"age": pl.Int64, "sex": pl.String}
    assert unpooled.generate_table(frame, "marginal").height == 40


def test_what_is_watched_can_interrupt_and_the_training_goes_on_from_there(tmp_path: Path) -> None:
    settings, checkpoint = sampler_settings("tvae", {"epochs": 6}), tmp_path / "training.npz"
    seen: list[int] = []

    def until(last: int) -> Any:
        def watch(progress: Any) -> None:
            seen.append(progress.epoch)
            if progress.epoch == last:
                raise KeyboardInterrupt

        return watch

    with pytest.raises(KeyboardInterrupt):
        fit_generator(settings, table(), np.random.default_rng(1), until(4), checkpoint)
    resumed = fit_generator(settings, table(), np.random.default_rng(1), until(0), checkpoint)
    assert seen == [1, 2, 3, 4, 5, 6]
    whole = fit_generator(settings, table(), np.random.default_rng(1))
    assert sample_rows(resumed, 20, np.random.default_rng(2)).frame.equals(
        sample_rows(whole, 20, np.random.default_rng(2)).frame
    )
    with pytest.raises(ResumeError, match="random seed"):
        fit_generator(settings, table(), np.random.default_rng(2), None, checkpoint)


@pytest.mark.parametrize(
    ("model", "given", "reason"),
    [
        ("gan", {}, "no model 'gan'.*tvae.*copula"),
        ("median", {}, "no model 'median'"),
        ("tvae", {"epochs": 0}, "'tvae': epochs"),
        ("copula", {"epochs": 3}, "'copula': epochs: unknown key"),
    ],
)
def test_wrong_models_and_settings_are_refused(model: str, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        sampler_settings(model, given)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (pl.DataFrame({"id": range(50)}), "no column to learn"),
        (pl.DataFrame({"id": range(9), "a": range(9)}), f"at least {LEAST_ROWS} rows.* 9"),
        (pl.DataFrame({"id": range(50), "a": [None] * 50}), "there are 0"),
        (pl.DataFrame({"id": range(50), "a": [2**60 + n for n in range(50)]}), "'a': numbers of more than 15 digits"),
        (pl.DataFrame({"id": range(50), "a": [np.inf] * 50}), "infinite"),
    ],
)
def test_tables_that_cannot_be_learned_are_refused(frame: pl.DataFrame, reason: str) -> None:
    rest, _ = without_ids(table(frame, "id"))
    with pytest.raises(InputError, match=reason):
        fit_generator(sampler_settings("copula"), rest, np.random.default_rng(1))


def test_a_time_of_day_is_dropped() -> None:
    frame = pl.DataFrame({"at": [datetime(2024, 1, 1 + n % 20, 12, 30) for n in range(40)], "a": range(40)})
    check_learnable(table(frame))
    assert unpooled.generate_table(frame, "marginal", 5, seed=1)["at"].dt.hour().to_list() == [0] * 5


def test_files_of_other_completers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    files.save(fit(MedianSettings(), table(), np.random.default_rng(1)), path)
    with pytest.raises(InputError, match=r"model\.npz: a fitted completer 'median', which draws no whole rows"):
        load_generator(path)
    files.save(
        fit(sampler_settings("hot-deck"), table(), np.random.default_rng(1), np.ones((ROWS, 12), np.bool_)), path
    )
    with pytest.raises(InputError, match="learned from no value"):
        load_generator(path)


def test_no_rows_cannot_be_generated() -> None:
    fitted = fit_generator(sampler_settings("marginal"), table(), np.random.default_rng(1))
    with pytest.raises(InputError, match="at least one row"):
        sample_table(fitted, 0, np.random.default_rng(1))


def test_without_jax_a_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise ModuleNotFoundError("No module named 'jax'", name="jax")

    models = dict.fromkeys(generators._MODELS, absent)
    monkeypatch.setattr(generators, "_MODELS", models)
    with pytest.raises(InputError, match=r"'tvae' needs: pip install 'unpooled\[generate\]'"):
        sampler_settings("tvae")
    assert sampler_settings("smote").completer == "smote"


def test_all_that_draws_rows_has_a_name() -> None:
    assert set(SAMPLERS) >= {"vae", "tvae", "marginal", "copula", "hot-deck", "smote"}
    assert len(set(SAMPLERS)) == len(SAMPLERS) == len(sampling._SAMPLERS)
