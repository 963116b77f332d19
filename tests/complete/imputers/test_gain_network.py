"""GAIN's networks: units from the side have a gradient, hidden cells have no influence, padding counts for nothing."""

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
ROWS, SIDE = 64, 3


def example() -> tuple[Batch, Fixed]:
    """The side tells y; x and the flag are noise."""
    rng = np.random.default_rng(1)
    side = rng.normal(size=(ROWS, SIDE)).astype(np.float32)
    values = np.column_stack([rng.random(ROWS), 1.0 / (1.0 + np.exp(-side[:, 0])), rng.random(ROWS) < 0.5])
    encoding = learn_cells(COLUMNS, values, levels=5)
    rows, known = encoded(encoding, values, rng)
    shown = known & (rng.random(known.shape) < 0.7)
    width = rows.shape[1]
    fixed = Fixed(units_of(narrowed(encoding.layout)), np.zeros(width), np.ones(width), jnp.float32(0.005))
    return Batch(rows, known.astype(np.float32), shown.astype(np.float32), side), fixed


@pytest.mark.parametrize("latent", [0, 4])
def test_the_side_is_learned_from_and_has_a_gradient(latent: int) -> None:
    batch, fixed = example()
    form = replace(FORM, latent=latent)
    state = initial(form, batch.rows.shape[1], len(COLUMNS), SIDE, jax.random.key(1))
    step = jax.jit(one_step, static_argnums=0)
    losses = []
    for number in range(400):
        state, outcome = step(form, state, batch, jax.random.fold_in(jax.random.key(2), number), fixed)
        losses.append(float(outcome.generator))
    assert outcome.side.shape == (ROWS, SIDE)
    assert float(jnp.abs(outcome.side).max()) > 0
    assert np.mean(losses[-20:]) < 0.5 * np.mean(losses[:20])
    nothing = np.zeros_like(batch.shown)
    found = np.asarray(answers(form, state.averaged, batch.rows, nothing, batch.side, None, fixed))
    assert np.corrcoef(found[:, 1], batch.rows[:, 1])[0, 1] > 0.8


def test_the_gradient_in_the_side_is_that_of_the_loss() -> None:
    """By a small change of one unit; the discriminator stays as it is if the learning rate is 0."""
    batch, fixed = example()
    fixed = fixed._replace(rate=jnp.float32(0.0))
    state = initial(FORM, batch.rows.shape[1], len(COLUMNS), SIDE, jax.random.key(1))
    step = jax.jit(one_step, static_argnums=0)
    _, outcome = step(FORM, state, batch, jax.random.key(3), fixed)
    place = np.unravel_index(np.abs(outcome.side).argmax(), outcome.side.shape)
    by = np.zeros_like(batch.side)
    by[place] = 0.02
    more, less = (
        step(FORM, state, batch._replace(side=batch.side + sign * by), jax.random.key(3), fixed)[1].generator
        for sign in (1, -1)
    )
    assert float(more - less) / 0.04 == pytest.approx(float(outcome.side[place]), rel=0.05)


def test_cells_that_are_not_shown_have_no_influence() -> None:
    batch, fixed = example()
    weights = initial(FORM, batch.rows.shape[1], len(COLUMNS), SIDE, jax.random.key(1)).generator
    changed = batch.rows.copy()
    changed[batch.shown[:, 0] == 0, 0] += 5.0
    one, two = (made(FORM, weights, rows, batch.shown, batch.side, None, fixed).rows for rows in (batch.rows, changed))
    np.testing.assert_array_equal(one, two)
