"""Views, networks and losses by themselves."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unpooled.networks.encoding import Encoding
from unpooled.networks.groups import units_of
from unpooled.semisup import augmenting, comatch, fitting, networks, rows
from unpooled.semisup.fitting import Stop, Task, fit, network_of, score, shapes
from unpooled.semisup.method import Batch, Fixed, Form, Given, aligned, labelled_loss, warmed_up
from unpooled.semisup.methods import BY_NAME
from unpooled.semisup.networks import initial, logits_of, with_statistics
from unpooled.semisup.settings import (
    ALL,
    CoMatchSettings,
    FixMatchSettings,
    NetworkSettings,
    SupervisedSettings,
    chosen,
    kind_of,
)

KEY = jax.random.key(1)


def table(count: int = 200) -> tuple[Encoding, Any]:
    """Three numbers and a category of five levels."""
    rng = np.random.default_rng(1)
    matrix = np.column_stack([rng.normal(size=(count, 3)), rng.integers(0, 5, count)])
    frame = rows.frame_of(matrix, [3])
    columns = rows.learn_columns(frame)
    values = rows.values_of(columns, frame)
    return rows.encoding_of(columns, values), values


def fixed_of(encoding: Encoding, prior: float = 0.5, chance: float = 0.5) -> Fixed:
    units = units_of(encoding.layout)
    both = jnp.array([1 - prior, prior])
    return Fixed(units, jnp.full(len(units.columns), chance), both, jnp.zeros(2), jnp.float32(1e-3), jnp.float32(100.0))


def test_a_category_is_redrawn_as_a_whole() -> None:
    encoding, values = table()
    units = units_of(encoding.layout)
    coded = jnp.asarray(encoding.encode(values, np.random.default_rng(0)))
    found = np.asarray(augmenting.corrupted(coded, KEY, units, jnp.full(len(units.columns), 0.5), coded))
    group = encoding.layout.groups[0]
    cells, before = (np.asarray(each)[:, group.start : group.start + group.units] for each in (found, coded))
    assert set(cells.sum(axis=1)) == {1.0}
    assert set(np.unique(cells)) == {0.0, 1.0}
    changed = (cells != before).any(axis=1).mean()
    assert 0.3 < changed < 0.5, "half of the rows are redrawn, a fifth of these the same"
    numbers = found[:, :3]
    assert np.isin(numbers, np.asarray(coded)[:, :3]).all(), "numbers come from the column itself"
    assert (found[:, -1] == 0).all()


def test_noise_moves_numbers_alone() -> None:
    encoding, values = table()
    units = units_of(encoding.layout)
    coded = jnp.asarray(encoding.encode(values, np.random.default_rng(0)))
    moved = np.asarray(augmenting.weak(SupervisedSettings(weak_noise=0.2), coded, KEY, units) - coded)
    assert moved[:, :3].std() == pytest.approx(0.2, rel=0.15)
    assert (moved[:, 3:] == 0).all()
    none = SupervisedSettings(corruption=0.0, strong_noise=0.0)
    same = augmenting.strong(none, coded, KEY, units, jnp.ones(len(units.columns)), coded)
    np.testing.assert_array_equal(same, coded)


def test_two_columns_are_too_few_to_redraw_one() -> None:
    """A fraction of 0.3 is rounded down to whole columns."""
    found: list[Any] = []

    def watched(*given: Any, **_: Any) -> Any:
        found.append(given[6].chance)
        raise KeyboardInterrupt

    real, fitting.train = fitting.train, watched  # type: ignore[assignment]
    try:
        for columns in (2, 4):
            matrix = np.random.default_rng(1).normal(size=(20, columns))
            frame = rows.frame_of(matrix, [])
            names = rows.learn_columns(frame)
            task = Task(np.arange(20) % 2, np.arange(20), 0.5, False)
            with pytest.raises(KeyboardInterrupt):
                fit(FixMatchSettings(), rows.encoding_of(names, matrix), matrix, task, np.random.default_rng(1))
    finally:
        fitting.train = real
    assert found[0].sum() == 0
    assert found[1][:4].tolist() == [0.25] * 4


def test_the_risk_of_positives_and_unlabelled_rows() -> None:
    """By hand: prior × loss of positives + what is left of the unlabelled rows' loss as negatives."""
    encoding, _ = table(20)
    network = network_of(SupervisedSettings(), encoding.layout)
    form = Form(BY_NAME["supervised"], SupervisedSettings(), network, risk=True)
    logits = jnp.array([[0.0, 1.0], [0.0, -1.0], [0.0, 2.0]])
    labels = jnp.array([1.0, -1.0, -1.0])
    as_positive, as_negative = (-np.log(1 / (1 + np.exp(-sign * np.array([1.0, -1.0, 2.0])))) for sign in (1, -1))
    wanted = 0.3 * as_positive[0] + max(as_negative[1:].mean() - 0.3 * as_negative[0], 0)
    assert float(labelled_loss(form, logits, labels, fixed_of(encoding, 0.3))) == pytest.approx(wanted, rel=1e-5)
    sure = jnp.array([[0.0, 9.0], [0.0, -9.0], [0.0, -9.0]])
    assert float(labelled_loss(form, sure, labels, fixed_of(encoding, 0.9))) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("network", ["mlp", "wrn"])
def test_networks_give_two_logits_and_keep_what_files_check(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_BLOCKS", 1)
    settings = CoMatchSettings(network=network)
    layout = table()[0].layout
    form = network_of(settings, layout)
    weights = initial(form, KEY)
    assert {name: each.shape for name, each in weights.items()} == {
        name: shape for name, shape in shapes(settings, layout).items() if name != fitting.SHIFT
    }

    @jax.jit
    def trained(inputs: Any) -> Any:
        statistics: dict[str, Any] = {}
        return logits_of(form, weights, inputs, statistics), statistics

    inputs = jax.random.normal(KEY, (6, layout.width))
    logits, statistics = trained(inputs)
    assert logits.shape == (6, 2)
    assert bool(statistics) == form.by_batch == (network == "wrn")
    moved = with_statistics(weights, statistics)
    assert all((moved[name] != weights[name]).any() for name in statistics)
    compiled = jax.jit(lambda inputs: logits_of(form, weights, inputs))
    np.testing.assert_allclose(compiled(inputs[:2]), compiled(inputs)[:2], atol=1e-5)


def test_the_wide_network_has_28_layers() -> None:
    network = network_of(FixMatchSettings(network="wrn"), table()[0].layout)
    names = jax.eval_shape(lambda: initial(network, KEY))
    layers = [name for name in names if name.endswith("weights") and "shortcut" not in name]
    assert len(layers) == 26, (
        "24 convolutions in blocks, the first one, and the last layer; the paper counts shortcuts too"
    )
    assert names["block.2.3.second.weights"].shape == (3 * 128, 128)
    assert network.used == (0, 1, 2, *range(8, 13)), "its signal is the units of three numbers and five levels"


@pytest.mark.skipif(not os.environ.get("ALL_CHECKS"), reason="it takes long to compile: with ALL_CHECKS=1")
def test_the_wide_network_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_BLOCKS", 1)
    encoding, values = table(60)
    truth = (values[:, 0] > 0).astype(np.int64)
    settings = SupervisedSettings(network="wrn", steps=8, batch_rows=8)
    task = Task(truth, np.arange(60), 0.5, False)
    found = score(settings, fit(settings, encoding, values, task, np.random.default_rng(1)), values)
    assert np.isfinite(found).all()
    assert found.std() > 0


def test_comatch_remembers_the_newest_rows_and_smooths_by_them() -> None:
    encoding, values = table(40)
    settings = CoMatchSettings(hidden=(8,), batch_rows=4, unlabelled_ratio=1, queue=2, projection=4, view="weak")
    coded = jnp.asarray(encoding.encode(values, np.random.default_rng(0)))
    form = Form(BY_NAME["comatch"], settings, network_of(settings, encoding.layout), risk=False)
    weights = initial(form.network, KEY)
    batch = Batch(coded[:4], jnp.array([1.0, 0.0, 1.0, 0.0]), coded[4:8])
    given = Given(batch, weights, form.method.memory(form), KEY, jnp.float32(1.0), fixed_of(encoding))
    loss, (memory, _) = jax.jit(partial(form.method.loss, form))(weights, given)
    assert np.isfinite(loss)
    assert memory.chances.shape == (16, 2)
    np.testing.assert_array_equal(memory.chances[:4, 1], batch.labels)
    np.testing.assert_allclose(np.linalg.norm(memory.embeddings[:8], axis=1), 1.0, atol=1e-4)
    assert (memory.embeddings[8:] == 0).all()
    assert float(memory.steps) == 1


def test_embeddings_of_rows_with_the_same_label_are_drawn_together() -> None:
    targets = jnp.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    near = jnp.array([[5.0, 5.0, 0.0], [5.0, 5.0, 0.0], [0.0, 0.0, 5.0]])
    apart = jnp.array([[5.0, 0.0, 5.0], [0.0, 5.0, 5.0], [5.0, 5.0, 0.0]])
    assert comatch._contrast(near, targets, 0.8) < comatch._contrast(apart, targets, 0.8)


def test_predictions_are_moved_to_what_is_wanted() -> None:
    found = jnp.array([[0.8, 0.2], [0.6, 0.4]])
    moved = aligned(found, jnp.array([0.7, 0.3]), jnp.array([0.5, 0.5]))
    np.testing.assert_allclose(moved.sum(axis=1), 1.0, rtol=1e-6)
    assert (moved[:, 1] > found[:, 1]).all()


def test_the_weight_of_unlabelled_rows_rises() -> None:
    settings = FixMatchSettings(unlabelled_weight=2.0, warm_up=0.4)
    assert [round(float(warmed_up(settings, jnp.float32(done))), 3) for done in (0.0, 0.2, 0.4, 1.0)] == [0, 1, 2, 2]
    assert float(warmed_up(FixMatchSettings(warm_up=0.0), jnp.float32(0.0))) == 1.0


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_the_preset_seed_has_the_papers_settings(kind: type[NetworkSettings]) -> None:
    found = chosen(kind, "seed", {"steps": None}).model_dump()
    assert (found["network"], found["optimiser"], found["learning_rate"]) == ("wrn", "sgd", 0.03)
    assert (found["batch_rows"], found["ema"], found["balanced"]) == (64, 0.999, False)
    own = {
        "pseudo-label": {"unlabelled_ratio": 1, "threshold": 0.95},
        "mixmatch": {"unlabelled_ratio": 1, "temperature": 0.5, "views": 2},
        "fixmatch": {"unlabelled_ratio": 7, "threshold": 0.95},
        "comatch": {"unlabelled_ratio": 7, "threshold": 0.95, "temperature": 0.2, "contrast": 0.8, "queue": 5},
        "adamatch": {"unlabelled_ratio": 7, "threshold": 0.9, "distribution_ema": 0.999},
        "softmatch": {"unlabelled_ratio": 7, "memory": 0.999, "variance_divisor": 4.0, "align": "uniform"},
    }
    assert own.get(found["method"], {}).items() <= found.items()
    assert kind_of(found["method"]) is kind


def test_labelled_rows_that_are_looked_at_are_not_learned_from() -> None:
    task = Task(np.arange(40) % 2, np.arange(40), 0.5, False)
    held_out = fitting._held_out(task, Stop(0.2, 1), np.random.default_rng(1))
    assert [int((held_out & (task.known == which)).sum()) for which in (0, 1)] == [4, 4]
    coded = np.arange(40, dtype=np.float32)[:, np.newaxis]
    batches = fitting._batches(SupervisedSettings(batch_rows=8), coded, task, held_out, 5)
    found = batches(np.random.default_rng(1))
    assert found.rows.shape == (5, 8, 1)
    assert found.others.shape == (5, 0, 1)
    assert not held_out[np.unique(found.rows).astype(int)].any()
    assert (np.asarray(found.labels).mean(axis=1) == 0.5).all(), "batches are balanced"
