"""VAE and TVAE: what is learned comes back, and trainings can be watched, interrupted, kept and refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import Fitted, complete, fit
from unpooled.complete.generators.generators import model_of
from unpooled.complete.generators.settings import GeneratorSettings, TvaeSettings, VaeSettings
from unpooled.complete.generators.tvae import TVAE
from unpooled.data.coding import encode_all, learn_all
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, ResumeError, TrainingDiverged
from unpooled.networks import training
from unpooled.networks.training import Progress

ROWS = 600
SETTINGS: dict[str, GeneratorSettings] = {
    "vae": VaeSettings(epochs=300, batch_rows=100, held_out=0),
    "tvae": TvaeSettings(epochs=300, batch_rows=100, held_out=0),
}
APART = {"vae": 10.0, "tvae": 24.0}
"""By how much the bills of two tariffs are apart at least, of 30: a plain autoencoder loses about half of it."""

SHORT = TvaeSettings(epochs=4, batch_rows=100, held_out=0)


def example(rows: int = ROWS) -> Table:
    """The tariff says nearly everything of the bill; a tenth of the ages is missing."""
    rng = np.random.default_rng(1)
    tariff = rng.choice(2, rows, p=[0.7, 0.3])
    age = pl.Series(rng.integers(20, 80, rows)).set(pl.Series(rng.random(rows) < 0.1), None)
    frame = pl.DataFrame(
        {
            "id": range(rows),
            "tariff": np.array(["basic", "plus"])[tariff],
            "bill": rng.normal(20.0 + 30.0 * tariff, 2.0),
            "age": age,
            "paper": rng.random(rows) < 0.4,
        }
    )
    return table_from_frame(frame, "id", "telco")


@pytest.fixture(scope="module", params=list(SETTINGS))
def fitted(request: pytest.FixtureRequest) -> Fitted:
    return fit(SETTINGS[request.param], example(), np.random.default_rng(2))


def rows_of(fitted: Fitted, rows: int, seed: int = 3) -> Any:
    settings: Any = fitted.settings
    return model_of(settings).sample(settings, fitted.columns, fitted.state, rows, np.random.default_rng(seed))


def test_rows_have_the_distribution_that_was_learned(fitted: Fitted) -> None:
    found = rows_of(fitted, 2_000)
    tariff, bill, age, paper = found.T
    assert tariff.mean() == pytest.approx(0.3, abs=0.08)
    assert np.isnan(age).mean() == pytest.approx(0.1, abs=0.07)
    assert paper.mean() == pytest.approx(0.4, abs=0.1)
    found_apart = bill[tariff == 1].mean() - bill[tariff == 0].mean()
    assert APART[fitted.settings.completer] < found_apart < 33.0


def test_the_same_seed_gives_the_same_rows(fitted: Fitted) -> None:
    np.testing.assert_array_equal(rows_of(fitted, 50), rows_of(fitted, 50))
    assert not np.array_equal(rows_of(fitted, 50), rows_of(fitted, 50, seed=4), equal_nan=True)


def test_a_file_gives_the_same_rows(fitted: Fitted, tmp_path: Path) -> None:
    save(fitted, tmp_path / "model.npz")
    np.testing.assert_array_equal(rows_of(load(tmp_path / "model.npz"), 50), rows_of(fitted, 50))


def test_a_file_of_other_shapes_is_refused(fitted: Fitted, tmp_path: Path) -> None:
    save(fitted, tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as archive:
        arrays = dict(archive)
    name = next(name for name in arrays if name.startswith("weights.encoder.0"))
    for wrong in (arrays[name][..., :-1], arrays[name] * np.nan, arrays[name].astype(np.float64)):
        np.savez(tmp_path / "wrong.npz", **arrays | {name: wrong})
        with pytest.raises(InputError, match="is no fitted completer"):
            load(tmp_path / "wrong.npz")


def test_cells_are_filled_given_the_known_ones(fitted: Fitted) -> None:
    """Bills of people with a known tariff are far nearer than draws from all bills would be."""
    table = example()
    mask = np.zeros((ROWS, 4), bool)
    mask[:200, 1] = True
    found = complete(fitted, table, np.random.default_rng(5), mask)
    truth, filled = (each.frame["bill"].to_numpy()[:200] for each in (table, found.table))
    assert np.abs(truth - filled).mean() < 0.6 * np.abs(truth - truth.mean()).mean()
    assert np.isfinite(filled).all()
    assert found.table.frame["bill"][200:].equals(table.frame["bill"][200:])
    assert found.table.frame.drop("bill").equals(table.frame.drop("bill"))


def test_a_resumed_training_ends_as_one_that_was_not_interrupted(tmp_path: Path) -> None:
    table = example()
    columns = learn_all(table)
    values = encode_all(columns, table)

    def trained(checkpoint: Path | None = None, **more: Any) -> Any:
        return TVAE.fit(SHORT, columns, values, np.random.default_rng(6), checkpoint=checkpoint, **more)

    class Stopped(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            raise Stopped

    whole, path = trained(), tmp_path / "checkpoint.npz"
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(training.time, "monotonic", iter(range(0, 100_000, 1_000)).__next__)  # a checkpoint is due
        with pytest.raises(Stopped):
            trained(path, watch=stop)
    assert path.exists()
    resumed = trained(path)
    assert resumed.weights.keys() == whole.weights.keys()
    for name, array in whole.weights.items():
        np.testing.assert_array_equal(resumed.weights[name], array)
    with pytest.raises(ResumeError, match="settings changed"):
        TVAE.fit(TvaeSettings(epochs=5), columns, values, np.random.default_rng(6), checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ResumeError, match="no checkpoint of this training, or a damaged one"):
        trained(path)


def test_progress_is_told() -> None:
    table = example()
    columns, told = learn_all(table), list[Progress]()
    TVAE.fit(SHORT, columns, encode_all(columns, table), np.random.default_rng(7), watch=told.append)
    assert [progress.epoch for progress in told] == [1, 2, 3, 4]
    assert all(np.isfinite(progress.loss) and progress.seconds_left >= 0 for progress in told)
    assert told[-1].seconds_left == 0


def test_divergence_says_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_LARGEST_LOSS", 0.0)
    with pytest.raises(TrainingDiverged, match=r"'tvae' diverged in epoch 1: set a lower learning_rate than 0\.002"):
        fit(SHORT, example(), np.random.default_rng(8))


def test_tiny_tables_are_learned() -> None:
    found = rows_of(fit(SHORT, example(30), np.random.default_rng(9)), 20)
    assert found.shape == (20, 4)


def test_without_jax_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("unpooled.complete.generators.")]:
        if name.rpartition(".")[2] in ("vae", "tvae", "autoencoder", "groups", "networks", "training", "checkpoints"):
            monkeypatch.delitem(sys.modules, name)
    import unpooled.complete.generators as room

    monkeypatch.delattr(room, "tvae", raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(InputError, match=r"'tvae' needs: pip install 'unpooled\[generate\]'"):
        model_of(SHORT)


def test_listing_completers_does_not_import_jax() -> None:
    command = "import sys, unpooled.complete.completers.completers; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
