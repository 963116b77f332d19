"""GAIN and VGAIN as completers: what is filled, drawn, kept, told and refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.complete.completers.completers import completer_of, settings_from
from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import Fitted, complete, fit
from unpooled.complete.imputers import gain
from unpooled.complete.imputers.settings import GainSettings, VgainSettings
from unpooled.complete.settings import GenerateSettings
from unpooled.data.coding import encode_all, learn_all
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, TrainingDiverged
from unpooled.networks import training
from unpooled.networks.training import Progress
from unpooled.networks.watching import told

ROWS = 600
BILL, TARIFF, AGE = 1, 0, 2


def example(rows: int = ROWS) -> Table:
    """The tariff says nearly everything of the bill, and the bill of the level; ages are noise."""
    rng = np.random.default_rng(1)
    tariff = rng.choice(2, rows, p=[0.6, 0.4])
    bill = rng.normal(20.0 + 30.0 * tariff, 3.0)
    frame = pl.DataFrame(
        {
            "id": range(rows),
            "tariff": np.array(["basic", "plus"])[tariff],
            "bill": bill,
            "age": rng.integers(20, 80, rows),
            "twice": 2.0 * bill + rng.normal(size=rows),
            "paper": rng.random(rows) < 0.4,
        }
    )
    return table_from_frame(frame, "id", "telco")


def mask_of(table: Table) -> Any:
    """A fifth at random; in a third of the rows bill and its double are missing together; some rows wholly."""
    mask = np.random.default_rng(2).random((table.frame.height, 5)) < 0.2
    mask[::3, [1, 3]] = True
    mask[:3] = True
    return mask


@pytest.fixture(scope="module", params=["gain", "vgain"])
def fitted(request: pytest.FixtureRequest) -> Fitted:
    table = example()
    settings = settings_from({"completer": request.param, "steps": 1_500, "held_out": 0.0})
    return fit(settings, table, np.random.default_rng(3), mask_of(table))


def sampling(fitted: Fitted) -> Fitted:
    return Fitted(fitted.settings.model_copy(update={"sample": True}), fitted.columns, fitted.state, {})


def cells(table: Table, name: str, rows: Any) -> Any:
    return table.frame[name].to_numpy()[rows]


def test_filled_cells_are_near(fitted: Fitted) -> None:
    table, mask = example(), mask_of(example())
    done = complete(fitted, table, np.random.default_rng(4), mask)
    rows = mask[:, BILL] & ~mask[:, TARIFF]
    truth, found = (cells(each, "bill", rows) for each in (table, done.table))
    assert np.sqrt(((truth - found) ** 2).mean()) < 0.4 * truth.std()
    rows = mask[:, TARIFF] & ~mask[:, BILL]
    assert (cells(table, "tariff", rows) == cells(done.table, "tariff", rows)).mean() > 0.95
    assert done.table.frame.null_count().sum_horizontal()[0] == 0
    ages = done.table.frame["age"]
    assert (ages == ages.round()).all()
    assert 40 < ages[0] < 60, "of a row of which nothing is known: about the mean"


def test_without_sample_there_is_one_answer_and_with_it_draws_differ(fitted: Fitted) -> None:
    """Draws have about the spread of the column; ages, of which nothing is known, are trusted little."""
    table, mask = example(), mask_of(example())
    single = complete(fitted, table, np.random.default_rng(4), mask, draws=2)
    assert single.draws[0].frame.equals(single.draws[1].frame)
    done = complete(sampling(fitted), table, np.random.default_rng(4), mask, draws=6)
    again = complete(sampling(fitted), table, np.random.default_rng(4), mask, draws=6)
    assert not done.draws[0].frame.equals(done.draws[1].frame)
    assert done.draws[5].frame.equals(again.draws[5].frame)
    ages = mask[:, AGE]
    assert cells(single.table, "age", ages).std() < 8 < 11 < cells(done.draws[0], "age", ages).std() < 24
    assert done.trust[ages, AGE].mean() < 0.4
    rows = mask[:, BILL] & ~mask[:, TARIFF]
    assert done.trust[rows, BILL].mean() > 0.8


def test_cells_drawn_in_one_row_fit_each_other(fitted: Fitted) -> None:
    table, mask = example(), mask_of(example())
    rows = mask[:, 1] & mask[:, 3] & mask[:, 0]
    draws = complete(sampling(fitted), table, np.random.default_rng(4), mask, draws=5).draws
    bills, doubles = (np.concatenate([cells(each, name, rows) for each in draws]) for name in ("bill", "twice"))
    assert np.corrcoef(bills, doubles)[0, 1] > 0.5


def test_a_file_gives_the_same_cells_and_other_shapes_are_refused(fitted: Fitted, tmp_path: Path) -> None:
    table, mask = example(), mask_of(example())
    save(fitted, tmp_path / "model.npz")
    one, two = (
        complete(each, table, np.random.default_rng(5), mask).table.frame
        for each in (fitted, load(tmp_path / "model.npz"))
    )
    assert one.equals(two)
    with np.load(tmp_path / "model.npz") as archive:
        arrays = dict(archive)
    for name in ("weights.generator.0.weights", "weights.deviations", "weights.centre"):
        for wrong in (arrays[name][..., :-1], arrays[name] * np.nan, arrays[name].astype(np.float64)):
            np.savez(tmp_path / "wrong.npz", **arrays | {name: wrong})
            with pytest.raises(InputError, match="is no fitted completer"):
                load(tmp_path / "wrong.npz")


def test_training_stops_early_and_tells_how_far_it_is() -> None:
    table = example()
    columns, seen = learn_all(table), list[Progress]()
    values = np.where(mask_of(table), np.nan, encode_all(columns, table))
    gain.fit(GainSettings(patience=2, steps=20_000), columns, values, np.random.default_rng(6), seen.append)
    assert 2 < len(seen) < 200
    assert all(np.isfinite(each.loss) and each.seconds_left >= 0 for each in seen)
    with_watch = list[tuple[str, int, int]]()
    with told(lambda *what: with_watch.append(what)):
        fit(GainSettings(steps=200, patience=0, held_out=0), table, np.random.default_rng(7), mask_of(table))
    assert with_watch == [("training gain", 1, 2), ("training gain", 2, 2)]


def test_divergence_says_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_LARGEST_LOSS", 0.0)
    with pytest.raises(TrainingDiverged, match=r"'gain' diverged in epoch 1: set a lower learning_rate than 0\.001"):
        fit(GainSettings(steps=100), example(), np.random.default_rng(8), mask_of(example()))


def test_without_jax_the_check_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import unpooled.complete.imputers as room

    for name in ("gain", "vgain"):
        monkeypatch.delitem(sys.modules, f"unpooled.complete.imputers.{name}", raising=False)
        monkeypatch.delattr(room, name, raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    for settings in (GainSettings(), VgainSettings()):
        with pytest.raises(InputError, match=rf"'{settings.completer}' needs: pip install 'unpooled\[generate\]'"):
            completer_of(settings).check(settings)


def test_listing_completers_does_not_import_jax() -> None:
    command = "import sys, unpooled.complete.completers.completers; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0


def test_a_forecast_counts_them_as_networks() -> None:
    settings = GenerateSettings.model_validate({"completer": {"completer": "gain"}})
    assert settings.networks == ("gain",)
    assert settings.untrained().networks == ()
