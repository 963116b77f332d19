"""Variational autoencoders (Kingma and Welling 2014): what `vae` and `tvae` have in common.

An encoder turns a row into a normal distribution of hidden numbers, a decoder turns hidden numbers into a distribution
of rows: a normal one for each scalar, chances for each group of units. Rows are drawn from the decoder with hidden
numbers from the prior. Cells are filled in rounds: the row is encoded with the cells of the last round, hidden numbers
are drawn, and the wanted cells are drawn from the decoder (Rezende, Mohamed and Wierstra 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import some_rows
from unpooled.complete.generators.coders import Way
from unpooled.complete.generators.encoding import Encoding, Layout, learn_encoding
from unpooled.complete.generators.groups import Units, cross_entropy, draw_units, present, softmax, units_of
from unpooled.complete.generators.networks import Weights, adam, blocks, dense, dense_layers, stepped, through
from unpooled.complete.generators.settings import GeneratorSettings
from unpooled.complete.generators.trained import Shapes, Trained, as_weights
from unpooled.complete.generators.training import Watch, about_training, chunked, key_from, shuffled, train
from unpooled.data.coding import Column


@dataclass(frozen=True)
class Form:
    """What an autoencoder looks like: sizes, how numbers are coded, and the distribution of scalars.

    The spread of a scalar, between `narrowest` and `widest`, is the decoder's answer for each row or, unless
    `spread_by_row`, one number for the column. Its mean lies between -1 and 1 if it is `bounded`. `factor` is the
    weight of the reconstruction in the loss.
    """

    way: Way
    discrete_values: int
    hidden: tuple[int, ...]
    latent: int
    factor: float
    decay: float
    bounded: bool
    spread_by_row: bool
    narrowest: float
    widest: float


def _initial(form: Form, layout: Layout, key: Array) -> Weights:
    one, two = jax.random.split(key)
    outputs = layout.width + (layout.scalar_units if form.spread_by_row else 0)
    weights = dense_layers(one, "encoder", [layout.width, *form.hidden, 2 * form.latent])
    weights |= dense_layers(two, "decoder", [form.latent, *reversed(form.hidden), outputs])
    if not form.spread_by_row:
        weights["spread"] = jnp.full(layout.scalar_units, 0.1 * form.widest, jnp.float32)
    return weights


def _encode(form: Form, weights: Weights, rows: Array) -> tuple[Array, Array]:
    """Means and logarithms of the standard deviations of the hidden numbers."""
    layers = len(form.hidden)
    both = dense(weights, "encoder", layers, through(weights, "encoder", rows, layers))
    mean, log_spread = jnp.split(both, 2, axis=-1)
    return mean, jnp.clip(log_spread, -10.0, 10.0)


def _decode(form: Form, weights: Weights, hidden: Array, units: Units) -> tuple[Array, Array, Array]:
    """Means and standard deviations of scalars, and the logits of all units."""
    layers, scalars, width = len(form.hidden), len(units.scalar), len(units.grouped)
    raw = dense(weights, "decoder", layers, through(weights, "decoder", hidden, layers))
    logits, means = raw[..., :width], raw[..., :scalars]
    if form.spread_by_row:
        low, high = np.log(form.narrowest), np.log(form.widest)
        spreads = jnp.exp(low + (high - low) * jax.nn.sigmoid(raw[..., width:]))
    else:
        spreads = jnp.clip(weights["spread"], form.narrowest, form.widest)
    return jnp.tanh(means) if form.bounded else means, spreads, logits


def _loss(form: Form, weights: Weights, rows: Array, key: Array, units: Units) -> Array:
    mean, log_spread = _encode(form, weights, rows)
    hidden = mean + jnp.exp(log_spread) * jax.random.normal(key, mean.shape)
    means, spreads, logits = _decode(form, weights, hidden, units)
    away = (rows[..., : len(units.scalar)] - means) / spreads
    scalars = jnp.sum((0.5 * away**2 + jnp.log(spreads)) * present(rows, units), axis=-1)
    divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(2.0 * log_spread) - 2.0 * log_spread - 1.0, axis=-1)
    return jnp.mean(form.factor * (scalars + cross_entropy(logits, rows, units)) + divergence)


def _step(form: Form, state: Any, rows: Array, key: Array, fixed: tuple[Units, Array]) -> tuple[Any, Array]:
    weights, moments = state
    units, rate = fixed
    loss, gradients = jax.value_and_grad(partial(_loss, form))(weights, rows, key, units)
    return stepped(adam(form.decay), weights, moments, gradients, rate), loss


_steps = chunked(_step)


def fit_autoencoder(
    form: Form,
    settings: GeneratorSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch,
    checkpoint: Path | None,
) -> Trained:
    """Learn from the known cells."""
    about = about_training(settings, columns, values)
    values = some_rows(values, settings.rows, rng)
    encoding = learn_encoding(columns, values, form.way, levels=settings.levels, discrete_values=form.discrete_values)
    weights = _initial(form, encoding.layout, key_from(rng))
    state, _ = train(
        settings,
        _steps,
        form,
        (weights, adam(form.decay).init(weights)),
        shuffled(encoding.encode(values, rng), settings.schedule.batch_rows),
        (units_of(encoding.layout), jnp.float32(settings.schedule.learning_rate)),
        rng,
        about=about,
        watch=watch,
        checkpoint=checkpoint,
    )
    return Trained(encoding, as_weights(state))


def autoencoder_shapes(form: Form, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    shapes = jax.eval_shape(lambda: _initial(form, layout, jax.random.key(0)))
    return {name: tuple(array.shape) for name, array in shapes.items()}


@partial(jax.jit, static_argnums=(0, 3))
def _generated(form: Form, weights: Weights, key: Array, rows: int, units: Units) -> Array:
    """Units of rows with hidden numbers from the prior: scalars that are drawn, chances of groups."""
    one, two = jax.random.split(key)
    hidden = jax.random.normal(one, (rows, form.latent))
    means, spreads, logits = _decode(form, weights, hidden, units)
    scalars = means + spreads * jax.random.normal(two, means.shape)
    return softmax(logits, units).at[:, : len(units.scalar)].set(scalars * units.scalar)


def sample_autoencoder(form: Form, trained: Trained, rows: int, rng: np.random.Generator, *, missing: bool) -> Floats:
    """So many whole rows."""
    units, weights = units_of(trained.encoding.layout), dict(trained.weights)
    values = np.empty((rows, len(trained.encoding.coders)))
    for block, size in blocks(rows):
        found = np.asarray(_generated(form, weights, key_from(rng), size, units))
        values[block] = trained.encoding.decode(found[: block.stop - block.start], rng, missing=missing)
    return values


@partial(jax.jit, static_argnums=0)
def _refilled(
    form: Form,
    weights: Weights,
    key: Array,
    rows: Array,
    wanted: Array,
    not_drawn: Array,
    rounds: Any,
    units: Units,
) -> Array:
    """Units of rows with the wanted ones drawn, so many times; the first time they are zeros."""

    def again(number: Array, rows: Array) -> Array:
        one, two, three = jax.random.split(jax.random.fold_in(key, number), 3)
        mean, log_spread = _encode(form, weights, rows)
        hidden = mean + jnp.exp(log_spread) * jax.random.normal(one, mean.shape)
        means, spreads, logits = _decode(form, weights, hidden, units)
        scalars = means + spreads * jax.random.normal(two, means.shape)
        drawn = draw_units(three, logits - 80.0 * not_drawn, units)
        drawn = drawn.at[:, : len(units.scalar)].set(scalars * units.scalar)
        return jnp.where(wanted, drawn, rows)

    filled: Array = jax.lax.fori_loop(0, rounds, again, jnp.where(wanted, 0.0, rows))
    return filled


def fill_autoencoder(
    form: Form, trained: Trained, values: Floats, wanted: Bools, rounds: int, rng: np.random.Generator
) -> Floats:
    """Values with the wanted cells drawn, given the known ones."""
    encoding = trained.encoding
    units, weights = units_of(encoding.layout), dict(trained.weights)
    rows = encoding.encode(np.where(wanted, np.nan, values), rng)
    unknown = wanted | (np.isnan(values) & ~np.array([coder.missing for coder in encoding.coders]))
    filled = values.copy()
    for block, size in blocks(len(values)):
        count = block.stop - block.start
        some, places = np.zeros((size, rows.shape[1]), np.float32), np.zeros((size, rows.shape[1]), np.bool_)
        some[:count], places[:count] = rows[block], encoding.unit_mask(unknown[block])
        found = _refilled(form, weights, key_from(rng), some, places, _not_drawn(encoding), rounds, units)
        decoded = encoding.decode(np.asarray(found)[:count], rng, missing=False)
        filled[block] = np.where(wanted[block], decoded, values[block])
    return filled


def _not_drawn(encoding: Encoding) -> Array:
    """1 for units that stand for missing cells: wanted cells are not missing."""
    units = np.zeros(encoding.layout.width, np.float32)
    units[[group.start + group.units - 1 for group in encoding.layout.groups if group.missing]] = 1.0
    return jnp.asarray(units)
