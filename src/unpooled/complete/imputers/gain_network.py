"""The two networks of GAIN and their losses (Yoon, Jordon and van der Schaar 2018), as pure functions.

The generator sees a row with noise in the place of cells that are not shown, and which cells are shown; it answers with
a value for every cell. The discriminator sees the row filled that way, and a hint; it tells cells that were shown from
cells that were filled. Rows are units (`networks.encoding`): scalars between 0 and 1, and groups of one-hot units,
which the generator answers by a softmax. Which cells are shown or known is told by rows × columns of 0 and 1.

A form with `latent` numbers is variational: an encoder turns what the generator sees into a normal distribution of so
many hidden numbers, and a decoder turns these into cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unpooled.networks.groups import Units, log_softmax, softmax
from unpooled.networks.layers import Weights, adam, dense, dense_layers, stepped, through

Numbers = Any
"""An array of numpy or JAX."""

_RUN_ONCE: Any = {"xla_backend_optimization_level": 0}
"""For what is compiled to run once: to optimise it takes far longer than it saves."""


@dataclass(frozen=True)
class Form:
    """Sizes and constants; the defaults are the authors'.

    `hidden` layers are `factor` times as wide as a row has units, between `narrowest` and `widest` if that is not 0.
    `alpha` is the weight of the error in shown cells, `hint` the fraction of cells about which the discriminator is
    told the truth, `noise` the width of the noise, `class_weight` what an error in a class counts beside numbers.

    A fraction `hiding` of the known cells is hidden in training besides those that are missing, and errors there count
    `hidden_alpha`. With `standard`, numbers are standardised on their way in and out, and errors are those of
    standardised numbers. With `skip`, the generator has a linear layer beside its others. `mean_steps`: over how many
    steps the generator's weights are averaged, 1 for not at all. `held_out` is the fraction of the rows of which some
    known cells are kept from training, to see when to stop.
    """

    hidden: int = 2
    factor: float = 1.0
    narrowest: int = 1
    widest: int = 0
    alpha: float = 100.0
    hint: float = 0.9
    noise: float = 0.01
    class_weight: float = 0.02
    hiding: float = 0.0
    hidden_alpha: float = 0.0
    standard: bool = False
    skip: bool = False
    mean_steps: int = 1
    held_out: float = 0.0
    latent: int = 0
    strictness: float = 0.0

    def widths(self, width: int) -> list[int]:
        """The sizes of the hidden layers for rows of so many units."""
        size = max(round(self.factor * width), self.narrowest)
        return [min(size, self.widest or size)] * self.hidden


class Fixed(NamedTuple):
    """What steps have in common: units, the mean and the spread of each unit, the learning rate."""

    units: Units
    centre: Numbers
    scale: Numbers
    rate: Array


class Batch(NamedTuple):
    """Rows of units; which cells are known, and which of these are shown to the generator."""

    rows: Numbers
    known: Numbers
    shown: Numbers


class State(NamedTuple):
    """What a step changes."""

    generator: Weights
    discriminator: Weights
    averaged: Weights
    generator_moments: Any
    discriminator_moments: Any
    steps: Array


def initial_generator(form: Form, width: int, columns: int, key: Array) -> Weights:
    """Weights of a generator for rows of so many units and columns."""
    one, two, three = jax.random.split(key, 3)
    sizes, inputs = form.widths(width), width + columns
    if form.latent:
        weights = dense_layers(one, "encoder", [inputs, *sizes, 2 * form.latent])
        weights |= dense_layers(two, "generator", [form.latent, *sizes, width])
    else:
        weights = dense_layers(two, "generator", [inputs, *sizes, width])
    if form.skip:
        weights |= dense_layers(three, "skip", [inputs, width])
    return weights


@partial(jax.jit, static_argnums=(0, 1, 2), compiler_options=_RUN_ONCE)
def initial(form: Form, width: int, columns: int, key: Array) -> State:
    """Both networks before the first step; compiled as a whole, or each layer would be by itself."""
    one, two = jax.random.split(key)
    generator = initial_generator(form, width, columns, one)
    discriminator = dense_layers(two, "discriminator", [width + columns, *form.widths(width), columns])
    averaged = {name: jnp.array(array) for name, array in generator.items()} if form.mean_steps > 1 else {}
    return State(generator, discriminator, averaged, adam().init(generator), adam().init(discriminator), jnp.zeros(()))


def _of_units(cells: Array, units: Units) -> Array:
    """Rows × units from rows × columns; 0 for padding."""
    used = units.grouped.at[: len(units.scalar)].set(units.scalar)
    return cells[..., units.column] * used


def _inside(form: Form, rows: Array, fixed: Fixed) -> Array:
    """Rows as networks see them."""
    return (rows - fixed.centre) / fixed.scale if form.standard else rows


class Made(NamedTuple):
    """What a generator answers: units of rows, the logits of groups, and how far hidden numbers are from the prior."""

    rows: Array
    logits: Array
    divergence: Array


def made(form: Form, weights: Weights, rows: Array, shown: Array, key: Array | None, fixed: Fixed) -> Made:
    """The generator's answer for all cells; without a key, nothing is random: noise and hidden numbers are means."""
    units, visible = fixed.units, _of_units(shown, fixed.units)
    noise = 0.5 * form.noise * jnp.ones_like(rows)
    if key is not None:
        key, own = jax.random.split(key)
        noise = jax.random.uniform(own, rows.shape, rows.dtype, 0.0, form.noise)
    seen = jnp.where(visible > 0, _inside(form, rows, fixed), noise)
    inputs = jnp.concatenate([seen, shown], axis=-1)
    within, divergence = inputs, jnp.zeros(())
    if form.latent:
        both = dense(weights, "encoder", form.hidden, through(weights, "encoder", inputs, form.hidden))
        within, log_spread = jnp.split(both, 2, axis=-1)
        log_spread = jnp.clip(log_spread, -10.0, 10.0)
        apart = within**2 + jnp.exp(2.0 * log_spread) - 2.0 * log_spread - 1.0
        divergence = 0.5 * jnp.mean(jnp.sum(apart, axis=-1))
        if key is not None:
            within = within + jnp.exp(log_spread) * jax.random.normal(key, within.shape)
    raw = dense(weights, "generator", form.hidden, through(weights, "generator", within, form.hidden))
    if form.skip:
        raw = raw + dense(weights, "skip", 0, inputs)
    scalars = len(units.scalar)
    numbers = raw[..., :scalars]
    straight = fixed.centre[:scalars] + fixed.scale[:scalars] * numbers
    numbers = straight if form.standard else jax.nn.sigmoid(numbers)
    chances = softmax(raw, units)
    return Made(chances.at[..., :scalars].set(numbers * units.scalar), raw, divergence)


def errors(form: Form, answer: Made, rows: Array, fixed: Fixed) -> Array:
    """Rows × units: squared errors of numbers, and the cross entropy of groups at the unit that is 1."""
    scalars = len(fixed.units.scalar)
    away = (answer.rows - rows)[..., :scalars] / (fixed.scale[:scalars] if form.standard else 1.0)
    entropy = -log_softmax(answer.logits, fixed.units) * rows * form.class_weight
    return entropy.at[..., :scalars].set(away**2 * fixed.units.scalar)


def mean_error(each: Array, cells: Array, units: Units) -> Array:
    """The mean over these cells."""
    return jnp.sum(each * _of_units(cells, units)) / jnp.maximum(jnp.sum(cells), 1.0)


def _told(form: Form, weights: Weights, filled: Array, hint: Array, fixed: Fixed) -> Array:
    """The discriminator's logits that cells were shown."""
    inputs = jnp.concatenate([_inside(form, filled, fixed), hint], axis=-1)
    return dense(weights, "discriminator", form.hidden, through(weights, "discriminator", inputs, form.hidden))


def one_step(form: Form, state: State, batch: Batch, key: Array, fixed: Fixed) -> tuple[State, Array]:
    """Both networks after one step, first the discriminator; and the generator's loss."""
    rows, known, shown = batch
    one, two = jax.random.split(key)
    visible = _of_units(shown, fixed.units)
    told = (jax.random.uniform(two, shown.shape) < form.hint).astype(rows.dtype)
    hint, asked = told * shown + 0.5 * (1.0 - told), 1.0 - told
    count = jnp.maximum(jnp.sum(asked), 1.0)

    def generate(weights: Weights) -> tuple[Array, Array]:
        answer = made(form, weights, rows, shown, one, fixed)
        each = errors(form, answer, rows, fixed)
        loss = form.alpha * mean_error(each, shown, fixed.units)
        if form.hidden_alpha:
            loss = loss + form.hidden_alpha * mean_error(each, known - shown, fixed.units)
        return jnp.where(visible > 0, rows, answer.rows), loss + form.strictness * answer.divergence

    def discriminate(weights: Weights, filled: Array) -> Array:
        logits = _told(form, weights, filled, hint, fixed)
        return jnp.sum(asked * (jax.nn.softplus(logits) - shown * logits)) / count

    def fool(weights: Weights, filled: Array) -> Array:
        logits = _told(form, weights, filled, hint, fixed)
        return jnp.sum(asked * (1.0 - shown) * jax.nn.softplus(-logits)) / count

    (filled, wrong), back = jax.vjp(generate, state.generator)
    gradients = jax.grad(discriminate)(state.discriminator, filled)
    discriminator, discriminator_moments = stepped(
        adam(), state.discriminator, state.discriminator_moments, gradients, fixed.rate
    )
    found_out, by_cells = jax.value_and_grad(fool, 1)(discriminator, filled)
    (gradients,) = back((by_cells, jnp.ones_like(wrong)))
    generator, generator_moments = stepped(adam(), state.generator, state.generator_moments, gradients, fixed.rate)
    steps = state.steps + 1.0
    part = jnp.clip(10.0 / (9.0 + steps), 1.0 / form.mean_steps, 1.0)
    averaged = {name: mean + part * (generator[name] - mean) for name, mean in state.averaged.items()}
    new = State(generator, discriminator, averaged, generator_moments, discriminator_moments, steps)
    return new, wrong + found_out


@partial(jax.jit, static_argnums=0)
def answers(form: Form, weights: Weights, rows: Array, shown: Array, key: Array | None, fixed: Fixed) -> Array:
    """Units of rows as the generator answers them, known cells too; those of groups are chances."""
    return made(form, weights, rows, shown, key, fixed).rows


@partial(jax.jit, static_argnums=0)
def held_out_error(form: Form, weights: Weights, batch: Batch, fixed: Fixed) -> Array:
    """The mean error in cells that are known and not shown."""
    answer = made(form, weights, batch.rows, batch.shown, None, fixed)
    return mean_error(errors(form, answer, batch.rows, fixed), batch.known - batch.shown, fixed.units)
