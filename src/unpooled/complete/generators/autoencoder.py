"""Variational autoencoders (Kingma and Welling 2014): what `vae` and `tvae` have in common.

An encoder turns a row into a normal distribution of hidden numbers, a decoder turns hidden numbers into a distribution
of rows: a normal one for each scalar, chances for each group of units. Rows are drawn from the decoder with hidden
numbers from the prior. Cells are filled in rounds: the row is encoded with the cells of the last round, hidden numbers
are drawn, and the wanted cells are drawn from the decoder (Rezende, Mohamed and Wierstra 2014).

Forms can have more than that, see `Form`: what keeps the hidden numbers from being ignored, and what makes up for
hidden numbers that are not distributed as the prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import some_rows
from unpooled.complete.completers.neural import Preset
from unpooled.complete.generators.mixture import Mixture, fit_mixture
from unpooled.complete.generators.settings import EncoderSettings
from unpooled.data.coding import Column
from unpooled.networks.coders import Way
from unpooled.networks.encoding import Encoding, Layout, Singles, learn_encoding
from unpooled.networks.groups import Units, cross_entropy, draw_units, silent_units, softmax, units_of
from unpooled.networks.layers import Weights, adam, blocks, dense, dense_layers, stepped, through
from unpooled.networks.trained import Shapes, Trained, as_weights
from unpooled.networks.training import (
    Watch,
    about_training,
    chunked,
    fitting_batch,
    key_from,
    shuffled,
    shuffled_places,
    train,
    unwatched,
)

_PRIOR_ROWS = 10_000
_SHIFT = "prior.shift"
_SHIFTS = 10
_RARE = 1e-5
_PRIOR = ("prior.weights", "prior.means", "prior.roots")


@dataclass(frozen=True)
class Form:
    """What an autoencoder looks like: sizes, how numbers are coded, and the distribution of scalars.

    The spread of a scalar, between `narrowest` and `widest`, is the decoder's answer for each row or, unless
    `spread_by_row`, one number for the column. Its mean lies between -1 and 1 if it is `bounded`. `factor` is the
    weight of the reconstruction in the loss.

    The weight of the prior rises from 0 to 1 in the first fraction `warm_up` of the steps (Bowman and others 2016).
    With `cooling` the learning rate falls to 0 by a cosine. With `skips` the decoder has a linear layer beside its
    others. A fraction `hiding` of the rows is encoded with some cells hidden, as rows are that are to be filled. With
    `prior_parts`, hidden numbers are drawn from a mixture of so many normal distributions, fitted to those of the rows
    after training (Ghosh and others 2020), instead of the prior; and the logits of all units are shifted so that drawn
    rows have each unit as often as the table.
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
    warm_up: float = 0.0
    cooling: bool = False
    skips: bool = False
    hiding: float = 0.0
    prior_parts: int = 0


def _initial(form: Form, layout: Layout, key: Array) -> Weights:
    one, two = jax.random.split(key)
    outputs = layout.width + (layout.scalar_units if form.spread_by_row else 0)
    weights = dense_layers(one, "encoder", [layout.width, *form.hidden, 2 * form.latent])
    weights |= dense_layers(two, "decoder", [form.latent, *reversed(form.hidden), outputs])
    if form.skips:
        weights |= dense_layers(jax.random.fold_in(two, 1), "skip", [form.latent, outputs])
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
    if form.skips:
        raw = raw + dense(weights, "skip", 0, hidden)
    logits, means = raw[..., :width], raw[..., :scalars]
    if form.spread_by_row:
        low, high = np.log(form.narrowest), np.log(form.widest)
        spreads = jnp.exp(low + (high - low) * jax.nn.sigmoid(raw[..., width:]))
    else:
        spreads = jnp.clip(weights["spread"], form.narrowest, form.widest)
    return jnp.tanh(means) if form.bounded else means, spreads, logits


class _Fixed(NamedTuple):
    """What steps have in common: units, those that leave scalars nothing to say, learning rate, number of steps."""

    units: Units
    silent: Array
    rate: Array
    steps: Array


def _partly_hidden(form: Form, rows: Array, key: Array, units: Units) -> Array:
    """Some rows with any fraction of their cells hidden."""
    one, two, three = jax.random.split(key, 3)
    count = rows.shape[0]
    rate = jax.random.uniform(one, (count, 1)) * (jax.random.uniform(two, (count, 1)) < form.hiding)
    hidden = jax.random.uniform(three, (count, len(units.columns))) < rate
    return jnp.where(hidden[:, units.column], 0.0, rows)


def _loss(form: Form, weights: Weights, rows: Array, key: Array, fixed: _Fixed, strictness: Array) -> Array:
    units = fixed.units
    shown = _partly_hidden(form, rows, jax.random.fold_in(key, 1), units) if form.hiding else rows
    mean, log_spread = _encode(form, weights, shown)
    hidden = mean + jnp.exp(log_spread) * jax.random.normal(key, mean.shape)
    means, spreads, logits = _decode(form, weights, hidden, units)
    away = (rows[..., : len(units.scalar)] - means) / spreads
    spoken = units.scalar * (1.0 - rows @ fixed.silent)
    scalars = jnp.sum((0.5 * away**2 + jnp.log(spreads)) * spoken, axis=-1)
    divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(2.0 * log_spread) - 2.0 * log_spread - 1.0, axis=-1)
    return jnp.mean(form.factor * (scalars + cross_entropy(logits, rows, units)) + strictness * divergence)


def _step(form: Form, state: Any, rows: Array, key: Array, fixed: _Fixed) -> tuple[Any, Array]:
    weights, moments, number = state
    done = number / fixed.steps
    strictness = jnp.minimum(done / form.warm_up, 1.0) if form.warm_up else jnp.float32(1.0)
    rate = fixed.rate * (0.5 + 0.5 * jnp.cos(jnp.pi * done) if form.cooling else 1.0)
    loss, gradients = jax.value_and_grad(partial(_loss, form))(weights, rows, key, fixed, strictness)
    return (*stepped(adam(form.decay), weights, moments, gradients, rate), number + 1.0), loss


_steps = chunked(_step)


def _fit(
    form: Form,
    settings: EncoderSettings,
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
    schedule = settings.schedule
    batch_rows = fitting_batch(schedule.batch_rows, len(values))
    steps = schedule.epochs * max(len(values) // batch_rows, 1)
    state, *_ = train(
        settings.completer,
        settings.schedule,
        _steps,
        form,
        (weights, adam(form.decay).init(weights), jnp.float32(0.0)),
        shuffled(encoding.encode(values, rng), batch_rows),
        _Fixed(
            units_of(encoding.layout),
            silent_units(encoding),
            jnp.float32(schedule.learning_rate),
            jnp.float32(steps),
        ),
        rng,
        about=about,
        watch=watch,
        checkpoint=checkpoint,
    )
    learned = as_weights(state)
    if form.prior_parts:
        rows = encoding.encode(values, rng)
        learned |= as_weights(_prior(form, learned, rows, rng))
        learned |= as_weights({_SHIFT: _shift(form, Trained(encoding, learned), rows.mean(axis=0), rng)})
    return Trained(encoding, learned)


def _prior(form: Form, weights: Mapping[str, Singles], rows: Singles, rng: np.random.Generator) -> dict[str, Floats]:
    """The distribution of the hidden numbers of rows; parts that were not needed have no weight."""
    some = rows[shuffled_places(len(rows), _PRIOR_ROWS, rng)]
    mean, log_spread = map(np.asarray, _encoded(form, dict(weights), some))
    points = mean + np.exp(log_spread) * rng.standard_normal(mean.shape)
    found = fit_mixture(points.astype(np.float64), min(form.prior_parts, max(len(rows) // form.latent // 8, 1)), rng)
    used = len(found.weights)
    weights_, means, roots = (np.zeros((form.prior_parts, *[form.latent] * axes)) for axes in range(3))
    weights_[:used], means[:used], roots[:used] = found.weights, found.means, found.roots
    return dict(zip(_PRIOR, (weights_, means, roots), strict=True))


def _shift(form: Form, trained: Trained, frequencies: Singles, rng: np.random.Generator) -> Array:
    """What to add to the logits of units so that each is drawn as often as it is in the table."""
    units, hidden = units_of(trained.encoding.layout), _hidden(form, trained, _PRIOR_ROWS, rng)
    shift, wanted = jnp.zeros_like(units.grouped), units.grouped * frequencies + _RARE
    for _ in range(_SHIFTS):
        drawn = _frequencies(form, dict(trained.weights), hidden, units, shift)
        shift = shift + units.grouped * jnp.log(wanted / (drawn + _RARE))
    return shift


@partial(jax.jit, static_argnums=0)
def _frequencies(form: Form, weights: Weights, hidden: Array, units: Units, shift: Array) -> Array:
    """How often each unit is drawn."""
    *_, logits = _decode(form, weights, hidden, units)
    return softmax(logits + shift, units).mean(axis=0)


_encoded = partial(jax.jit, static_argnums=0)(_encode)


def _hidden(form: Form, trained: Trained, rows: int, rng: np.random.Generator) -> Singles:
    """Hidden numbers of so many rows."""
    if not form.prior_parts:
        return rng.standard_normal((rows, form.latent), np.float32)
    return Mixture(*(trained.weights[part].astype(np.float64) for part in _PRIOR)).draw(rows, rng).astype(np.float32)


def _shapes(form: Form, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    shapes = jax.eval_shape(lambda: _initial(form, layout, jax.random.key(0)))
    of_prior: dict[str, tuple[int, ...]] = {_SHIFT: (layout.width,)}
    of_prior |= {name: (form.prior_parts, *[form.latent] * axes) for axes, name in enumerate(_PRIOR)}
    return {name: tuple(array.shape) for name, array in shapes.items()} | (of_prior if form.prior_parts else {})


@partial(jax.jit, static_argnums=0)
def _generated(form: Form, weights: Weights, key: Array, hidden: Array, units: Units) -> Array:
    """Units of rows with these hidden numbers: scalars that are drawn, chances of groups."""
    means, spreads, logits = _decode(form, weights, hidden, units)
    scalars = means + spreads * jax.random.normal(key, means.shape)
    logits = logits + weights[_SHIFT] if form.prior_parts else logits
    return softmax(logits, units).at[:, : len(units.scalar)].set(scalars * units.scalar)


def _sample(form: Form, trained: Trained, rows: int, rng: np.random.Generator, *, missing: bool) -> Floats:
    """So many whole rows."""
    units, weights = units_of(trained.encoding.layout), dict(trained.weights)
    values = np.empty((rows, len(trained.encoding.coders)))
    for block, size in blocks(rows):
        found = np.asarray(_generated(form, weights, key_from(rng), _hidden(form, trained, size, rng), units))
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


def _fill(form: Form, trained: Trained, values: Floats, wanted: Bools, rounds: int, rng: np.random.Generator) -> Floats:
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
        filled[block] = encoding.decode(np.asarray(found)[:count], rng, missing=False)
    nothing = np.flatnonzero((wanted | np.isnan(values)).all(axis=1))
    filled[nothing] = _sample(form, trained, len(nothing), rng, missing=False)
    return np.where(wanted, filled, values)


def _not_drawn(encoding: Encoding) -> Array:
    """1 for units that stand for missing cells: wanted cells are not missing."""
    units = np.zeros(encoding.layout.width, np.float32)
    units[[group.start + group.units - 1 for group in encoding.layout.groups if group.missing]] = 1.0
    return jnp.asarray(units)


@dataclass(frozen=True, eq=False)
class Autoencoder:
    """A model by its forms: what the module of a generator has otherwise (`generators.Model`)."""

    forms: Mapping[Preset, Form]

    def fit(
        self,
        settings: EncoderSettings,
        columns: Sequence[Column],
        values: Floats,
        rng: np.random.Generator,
        watch: Watch = unwatched,
        checkpoint: Path | None = None,
    ) -> Trained:
        """Learn from the known cells."""
        return _fit(self.forms[settings.preset], settings, columns, values, rng, watch, checkpoint)

    def sample(
        self,
        settings: EncoderSettings,
        _: Sequence[Column],
        trained: Trained,
        rows: int,
        rng: np.random.Generator,
        *,
        missing: bool = True,
    ) -> Floats:
        """So many whole rows, with missing cells as there were, or without."""
        return _sample(self.forms[settings.preset], trained, rows, rng, missing=missing)

    def fill(
        self,
        settings: EncoderSettings,
        _: Sequence[Column],
        trained: Trained,
        values: Floats,
        wanted: Bools,
        rng: np.random.Generator,
    ) -> Floats:
        """Values with the wanted cells drawn, given the known ones."""
        return _fill(self.forms[settings.preset], trained, values, wanted, settings.rounds, rng)

    def shapes(self, settings: EncoderSettings, layout: Layout) -> Shapes:
        """The shapes of the weights."""
        return _shapes(self.forms[settings.preset], layout)
