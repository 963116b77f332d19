"""GAIN's networks: they learn one column from another, and hidden cells have no influence."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unpooled.complete.imputers.cells import encoded, learn_cells, narrowed
from unpooled.complete.imputers.gain_network import Batch, Fixed, Form, answers, initial, made, one_step
from unpooled.data.coding import Column
from unpooled.networks.groups import units_of

FORM = Form(hidden_alpha=100.0, narrowest=16, mean_steps=10)
COLUMNS = (
    Column(name="x", kind="number", low=0.0, high=1.0, whole=False, spread=0.3),
    Column(name="y", kind="number", low=0.0, high=1.0, whole=False, spread=0.3),
    Column(name="flag", kind="boolean", low=0.0, high=1.0, whole=True, spread=0.5),
)
ROWS = 64


def example() -> tuple[Batch, Fixed]:
    """y follows from x; the flag is noise."""
    rng = np.random.default_rng(1)
    x = rng.random(ROWS)
    values = np.column_stack([x, x**2, rng.random(ROWS) < 0.5])
    encoding = learn_cells(COLUMNS, values, levels=5)
    rows, known = encoded(encoding, values, rng)
    shown = known & (rng.random(known.shape) < 0.7)
    width = rows.shape[1]
    fixed = Fixed(units_of(narrowed(encoding.layout)), np.zeros(width), np.ones(width), jnp.float32(0.005))
    return Batch(rows, known.astype(np.float32), shown.astype(np.float32)), fixed


@pytest.mark.parametrize("latent", [0, 4])
def test_a_column_is_learned_from_another(latent: int) -> None:
    batch, fixed = example()
    form = replace(FORM, latent=latent)
    state = initial(form, batch.rows.shape[1], len(COLUMNS), jax.random.key(1))
    step = jax.jit(one_step, static_argnums=0)
    losses = []
    for number in range(400):
        state, loss = step(form, state, batch, jax.random.fold_in(jax.random.key(2), number), fixed)
        losses.append(float(loss))
    assert np.mean(losses[-20:]) < 0.5 * np.mean(losses[:20])
    only_x = np.zeros_like(batch.shown)
    only_x[:, 0] = 1.0
    found = np.asarray(answers(form, state.averaged, batch.rows, only_x, None, fixed))
    assert np.corrcoef(found[:, 1], batch.rows[:, 1])[0, 1] > 0.8


def test_cells_that_are_not_shown_have_no_influence() -> None:
    batch, fixed = example()
    weights = initial(FORM, batch.rows.shape[1], len(COLUMNS), jax.random.key(1)).generator
    changed = batch.rows.copy()
    changed[batch.shown[:, 0] == 0, 0] += 5.0
    one, two = (made(FORM, weights, rows, batch.shown, None, fixed).rows for rows in (batch.rows, changed))
    np.testing.assert_array_equal(one, two)
