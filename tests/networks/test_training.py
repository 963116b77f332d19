"""The training loop by itself, with a model of one number: the mean of the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from jax import Array

from unpooled.complete.generators.settings import VaeSettings
from unpooled.data.coding import learn
from unpooled.errors import ResumeError, TrainingDiverged
from unpooled.networks.schedule import Schedule
from unpooled.networks.training import (
    EarlyStop,
    Progress,
    about_training,
    chunked,
    fitting_batch,
    shuffled,
    train,
    unwatched,
)

ROWS = np.arange(24, dtype=np.float32)[:, np.newaxis]
ABOUT = {"settings": "one", "table": "two"}
traced: list[int] = []


def step(form: str, state: Any, rows: Array, key: Array, fixed: Array) -> tuple[Any, Array]:
    """Towards the mean of the rows; `form` says what goes wrong."""
    traced.append(1)
    away = state["mean"] - rows.mean()
    loss = away**2 + (jnp.nan if form == "nan" else 0.0)
    mean = state["mean"] - fixed * away
    return {"mean": jnp.where(form == "hidden nan", jnp.nan, mean), "count": state["count"] + 1}, loss


STEPS = chunked(step)


def start() -> Any:
    return {"mean": jnp.float32(0.0), "count": jnp.int32(0)}


def trained(epochs: int = 6, form: str = "fine", rows: Any = ROWS, seed: int = 1, **more: Any) -> Any:
    schedule, batches, rng = Schedule(epochs, 10, 0.002), shuffled(rows, 10), np.random.default_rng(seed)
    more = {"about": ABOUT, **more}
    return train("vae", schedule, STEPS, form, start(), batches, jnp.float32(0.1), rng, **more)


def interrupted(path: Path, at: int, **more: Any) -> None:
    """A training that ends after so many epochs, and keeps a checkpoint."""

    def stop(progress: Progress) -> None:
        if progress.epoch == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(checkpoint=path, watch=stop, **more)


def test_every_epoch_has_full_batches_of_all_rows() -> None:
    batches = shuffled(ROWS, 8)(np.random.default_rng(1))
    assert batches.shape == (3, 8, 1)
    assert sorted(batches.ravel()) == ROWS.ravel().tolist()
    assert shuffled(ROWS, 10)(np.random.default_rng(1)).shape == (2, 10, 1)
    few = shuffled(ROWS[:3], 10)(np.random.default_rng(1))
    assert few.shape == (1, 10, 1)
    assert np.unique(few, return_counts=True)[1].max() == 4


def test_small_tables_have_smaller_batches() -> None:
    assert [fitting_batch(500, rows) for rows in (1, 1_999, 2_000)] == [200, 200, 500]
    assert fitting_batch(10, 30) == 10


def test_a_training_learns_and_the_same_seed_gives_the_same() -> None:
    state = trained(40)
    assert float(state["mean"]) == pytest.approx(ROWS.mean(), abs=1.0)
    assert int(state["count"]) == 80
    assert float(trained(40)["mean"]) == float(state["mean"])
    assert float(trained(40, seed=2)["mean"]) != float(state["mean"])


def test_tables_of_other_lengths_need_no_new_compilation() -> None:
    trained()
    traced.clear()
    trained(rows=ROWS[:11])
    trained(rows=np.tile(ROWS, (40, 1)))
    assert not traced


def test_batches_beyond_the_last_are_not_trained_on() -> None:
    """Nine batches are handed over as eight and one."""
    assert int(trained(1, rows=np.tile(ROWS, (4, 1))[:90])["count"]) == 9


@pytest.mark.parametrize("early_stop", [None, EarlyStop(lambda state: jnp.abs(state["mean"] - 8.0), 50)])
def test_a_resumed_training_is_as_one_that_was_not_interrupted(early_stop: EarlyStop | None, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    interrupted(path, 5, epochs=20, early_stop=early_stop)
    told: list[Progress] = []
    resumed = trained(20, checkpoint=path, watch=told.append, early_stop=early_stop)
    assert [progress.epoch for progress in told] == list(range(6, 21))
    whole = trained(20, early_stop=early_stop)
    assert {name: leaf.tolist() for name, leaf in resumed.items()} == {
        name: leaf.tolist() for name, leaf in whole.items()
    }
    told.clear()
    assert float(trained(20, checkpoint=path, watch=told.append, early_stop=early_stop)["mean"]) == float(whole["mean"])
    assert not told, "it had ended"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_best_state_on_held_out_rows_is_kept() -> None:
    """The mean passes 8 on its way to 11.5; it is stopped three epochs later."""
    told: list[Progress] = []
    early_stop = EarlyStop(lambda state: jnp.abs(state["mean"] - 8.0), 3)
    state = trained(100, early_stop=early_stop, watch=told.append)
    assert float(state["mean"]) == pytest.approx(8.0, abs=1.0)
    assert len(told) == int(state["count"]) / 2 + 3


@pytest.mark.parametrize("form", ["nan", "hidden nan"])
def test_numbers_that_are_not_finite_are_named(form: str) -> None:
    with pytest.raises(TrainingDiverged, match=r"'vae' diverged in epoch [12]: set a lower learning_rate than 0\.002"):
        trained(2, form=form)


def test_a_loss_that_is_much_too_large_is_named() -> None:
    with pytest.raises(TrainingDiverged, match="more rows, or choose another preset"):
        trained(2, rows=ROWS * 1e4)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def other_shapes(path: Path) -> None:
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | {"state.0": np.zeros(3, np.int32)})


def one_more(path: Path) -> None:
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | {"state.9": np.zeros(3, np.int32)})


@pytest.mark.parametrize("damage", [cut_off, other_shapes, one_more])
def test_damaged_checkpoints_are_refused(damage: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    trained(checkpoint=path)
    damage(path)
    with pytest.raises(ResumeError, match=r"checkpoint\.npz: is no checkpoint of this training, or a damaged one"):
        trained(checkpoint=path)


def test_checkpoints_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    trained(checkpoint=path)
    with pytest.raises(ResumeError, match="the table changed since it began"):
        trained(checkpoint=path, about=ABOUT | {"table": "three"})
    with pytest.raises(ResumeError, match="the random seed changed"):
        trained(checkpoint=path, seed=2)


def test_checkpoints_are_told_apart_by_settings_and_cells() -> None:
    column, values = learn("x", "number", pl.Series([1.0, 2.0])), np.array([[1.0], [2.0]])
    first = about_training(VaeSettings(), [column], values)
    assert first == about_training(VaeSettings(), [column], values.copy())
    for other in (
        about_training(VaeSettings(epochs=3), [column], values),
        about_training(VaeSettings(), [column], values + 1),
    ):
        assert sum(first[name] != other[name] for name in first) == 1


def test_nobody_needs_to_watch() -> None:
    assert unwatched(Progress(1, 2, 0.5, 3.0)) is None
