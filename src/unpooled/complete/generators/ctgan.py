"""CTGAN, an adversarial network for tables (Xu, Skoularidou, Cuesta-Infante and Veeramachaneni 2019).

Numbers are coded by modes. The generator turns noise and a condition (`conditional`) into a row; the critic looks at
packs of ten rows (Lin, Khetan, Fanti and Oh 2018) and learns Wasserstein's distance with a penalty on its gradient
(Gulrajani and others 2017). Batch normalisation of drawn rows uses statistics that are kept with the weights.

The preset `fast` differs from the paper: the critic looks at single rows, without dropout, and is penalised at a
quarter of them; a step uses the same generated rows for both networks; rows are drawn with the mean of the generator's
weights over the last steps (Yazici and others 2019); and the last layer's bias is set after training so that levels and
modes are as frequent as in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.arrays import Floats, Ints
from unpooled.complete.completers.completer import some_rows
from unpooled.complete.completers.neural import Preset
from unpooled.complete.generators.conditional import (
    NOTHING,
    asked_units,
    draw_asked,
    frequencies_of,
    groups_to_ask,
    known_only,
    logarithmic,
    places_of,
    sampled,
    vector,
)
from unpooled.complete.generators.matching import filling_by_matching
from unpooled.complete.generators.settings import CtganSettings
from unpooled.data.coding import Column
from unpooled.networks.encoding import Layout, Singles, learn_encoding
from unpooled.networks.groups import (
    Units,
    as_units,
    balancing_shift,
    cross_entropy,
    gumbel_softmax,
    silent_units,
    softmax,
    units_of,
)
from unpooled.networks.layers import Weights, adam, blocks, dense, dense_layers, stepped
from unpooled.networks.trained import Shapes, Trained, as_weights
from unpooled.networks.training import Watch, about_training, chunked, key_from, train, unwatched


@dataclass(frozen=True)
class Form:
    """Sizes and constants, as the paper has them.

    `penalised`: the gradient's penalty is taken at one of so many packs. `mean_steps`: over how many steps the
    generator's weights are averaged, 1 for not at all. `made_twice`: whether generator and critic are shown different
    rows. `balanced`: whether the last layer's bias is set so that units are as frequent as in the table.
    """

    discrete_values: int = 20
    hidden: tuple[int, ...] = (256, 256)
    noise: int = 128
    temperature: float = 0.2
    pack: int = 10
    dropout: float = 0.5
    slope: float = 0.2
    penalty: float = 10.0
    penalised: int = 1
    decay: float = 1e-6
    b1: float = 0.5
    b2: float = 0.9
    made_twice: bool = True
    mean_steps: int = 1
    balanced: bool = False


_PAPER = Form()
_FAST = replace(_PAPER, pack=1, dropout=0.0, penalised=4, made_twice=False, mean_steps=500, balanced=True)
_FORMS: Mapping[Preset, Form] = {"fast": _FAST, "paper": _PAPER}

_SETTLING_ROWS = 10_000


class _Fixed(NamedTuple):
    """What a step is given besides its batch."""

    units: Units
    places: Array
    silent: Array
    rate: Array


class _State(NamedTuple):
    """What a step changes."""

    generator: Weights
    critic: Weights
    averaged: Weights
    generator_moments: Any
    critic_moments: Any
    steps: Array


def _initial_generator(form: Form, conditions: int, width: int, key: Array) -> Weights:
    weights: Weights = {}
    inputs = form.noise + conditions
    for number, size in enumerate((*form.hidden, width)):
        key, own = jax.random.split(key)
        weights |= dense_layers(own, f"generator.{number}", [inputs, size])
        inputs += size
    for number, size in enumerate(form.hidden):
        weights[f"norm.{number}.scale"] = jnp.ones(size, jnp.float32)
        weights[f"norm.{number}.shift"] = jnp.zeros(size, jnp.float32)
    return weights


def _initial(form: Form, conditions: int, width: int, key: Array) -> _State:
    one, two = jax.random.split(key)
    generator = _initial_generator(form, conditions, width, one)
    critic = dense_layers(two, "critic", [form.pack * (width + conditions), *form.hidden, 1])
    averaged = {name: jnp.array(array) for name, array in generator.items()} if form.mean_steps > 1 else {}
    optimiser = adam(form.decay, form.b1, form.b2)
    return _State(generator, critic, averaged, optimiser.init(generator), optimiser.init(critic), jnp.zeros(()))


def _inputs(form: Form, asked: Array, key: Array, places: Array) -> Array:
    """Noise and conditions."""
    noise = jax.random.normal(key, (len(asked), form.noise))
    return jnp.concatenate([noise, vector(asked, places)], axis=-1)


def _generated(form: Form, weights: Weights, inputs: Array, statistics: Weights | None = None) -> tuple[Array, Weights]:
    """The generator's answers, and the statistics that its layers were normalised with: the rows' own if none given."""
    used = dict(statistics or {})
    for number in range(len(form.hidden)):
        raw = dense(weights, f"generator.{number}", 0, inputs)
        name = f"norm.{number}"
        if statistics is None:
            used |= {f"{name}.mean": jnp.mean(raw, axis=0), f"{name}.variance": jnp.var(raw, axis=0)}
        normal = (raw - used[f"{name}.mean"]) * jax.lax.rsqrt(used[f"{name}.variance"] + 1e-5)
        normal = normal * weights[f"{name}.scale"] + weights[f"{name}.shift"]
        inputs = jnp.concatenate([jax.nn.relu(normal), inputs], axis=-1)
    return dense(weights, f"generator.{len(form.hidden)}", 0, inputs), used


def _made(form: Form, weights: Weights, asked: Array, key: Array, fixed: _Fixed) -> tuple[Array, Array]:
    """Rows for the critic, and how far the generator is from giving what was asked for."""
    one, two = jax.random.split(key)
    raw, _ = _generated(form, weights, _inputs(form, asked, one, fixed.places))
    rows = as_units(raw, gumbel_softmax(two, raw, fixed.units, form.temperature), fixed.units, fixed.silent)
    return rows, jnp.mean(cross_entropy(raw, asked_units(asked, raw.shape[-1]), fixed.units))


def _packed(form: Form, rows: Array, conditions: Array) -> Array:
    both = jnp.concatenate([rows, conditions], axis=-1)
    return both.reshape(len(rows) // form.pack, -1)


def _score(form: Form, weights: Weights, packs: Array, key: Array) -> Array:
    """The critic's opinion of each pack."""
    kept = 1.0 - form.dropout
    for number in range(len(form.hidden)):
        packs = jax.nn.leaky_relu(dense(weights, "critic", number, packs), form.slope)
        if form.dropout:
            stays = jax.random.bernoulli(jax.random.fold_in(key, number), kept, packs.shape)
            packs = jnp.where(stays, packs / kept, 0.0)
    return dense(weights, "critic", len(form.hidden), packs)[:, 0]


def _critic_loss(form: Form, weights: Weights, real: Array, made: Array, key: Array) -> Array:
    one, two, three = jax.random.split(key, 3)
    scores = _score(form, weights, jnp.concatenate([made, real]), one)
    some = max(len(real) // form.penalised, 1)
    between = real[:some] + jax.random.uniform(two, (some, 1)) * (made[:some] - real[:some])
    slopes = jax.grad(lambda packs: jnp.sum(_score(form, weights, packs, three)))(between)
    norms = jnp.sqrt(jnp.sum(slopes**2, axis=-1) + 1e-12)
    away = jnp.mean(scores[: len(made)]) - jnp.mean(scores[len(made) :])
    return away + form.penalty * jnp.mean((norms - 1.0) ** 2)


def _step(form: Form, state: _State, batch: tuple[Array, Array], key: Array, fixed: _Fixed) -> tuple[_State, Array]:
    asked, rows = batch
    one, two, three, four = jax.random.split(key, 4)
    conditions = vector(asked, fixed.places)
    (made, unlike), back = jax.vjp(lambda weights: _made(form, weights, asked, one, fixed), state.generator)
    shown = _made(form, state.generator, asked, two, fixed)[0] if form.made_twice else made
    real, shown = (_packed(form, some, conditions) for some in (rows, shown))
    loss, gradients = jax.value_and_grad(partial(_critic_loss, form))(state.critic, real, shown, three)
    optimiser = adam(form.decay, form.b1, form.b2)
    critic, critic_moments = stepped(optimiser, state.critic, state.critic_moments, gradients, fixed.rate)
    disliked = jax.grad(lambda made: -jnp.mean(_score(form, critic, _packed(form, made, conditions), four)))(made)
    (gradients,) = back((disliked, jnp.ones_like(unlike)))
    generator, moments = stepped(optimiser, state.generator, state.generator_moments, gradients, fixed.rate)
    steps = state.steps + 1.0
    share = jnp.clip(10.0 / (9.0 + steps), 1.0 / form.mean_steps, 1.0)
    averaged = {name: mean + share * (generator[name] - mean) for name, mean in state.averaged.items()}
    return _State(generator, critic, averaged, moments, critic_moments, steps), loss + unlike


_steps = chunked(_step)


def fit(
    settings: CtganSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch = unwatched,
    checkpoint: Path | None = None,
) -> Trained:
    """Learn from the known cells."""
    form = _FORMS[settings.preset]
    about = about_training(settings, columns, values)
    values = some_rows(values, settings.rows, rng)
    encoding = learn_encoding(columns, values, "modes", levels=settings.levels, discrete_values=form.discrete_values)
    groups, units = groups_to_ask(encoding.layout), encoding.encode(values, rng)
    places = jnp.asarray(places_of(groups), jnp.int32)
    batch_rows = settings.schedule.batch_rows // form.pack * form.pack
    state: _State = train(
        settings.completer,
        settings.schedule,
        _steps,
        form,
        _initial(form, len(places), encoding.layout.width, key_from(rng)),
        sampled(groups, units, batch_rows),
        _Fixed(
            units_of(encoding.layout),
            places,
            silent_units(encoding),
            jnp.float32(settings.schedule.learning_rate),
        ),
        rng,
        about=about,
        watch=watch,
        checkpoint=checkpoint,
    )
    weights = dict(state.averaged or state.generator)
    frequencies = frequencies_of(encoding.layout.groups, units)
    return Trained(encoding, as_weights(_settled(form, weights, encoding.layout, frequencies, len(units), rng)))


def _settled(
    form: Form, weights: Weights, layout: Layout, frequencies: Singles, rows: int, rng: np.random.Generator
) -> Mapping[str, Any]:
    """Weights with all that drawing rows needs besides: frequencies of units, and statistics of layers."""
    groups = groups_to_ask(layout)
    places = jnp.asarray(places_of(groups), jnp.int32)
    asked = draw_asked(groups, logarithmic(frequencies, rows), _SETTLING_ROWS, rng)
    weights |= _statistics(form, weights, asked, key_from(rng), places)
    if form.balanced:
        asked = draw_asked(groups, frequencies, _SETTLING_ROWS, rng)
        bias = _balanced(form, weights, asked, key_from(rng), places, units_of(layout), frequencies)
        weights[_last_bias(form)] = bias
    return {**weights, "frequencies": frequencies}


@partial(jax.jit, static_argnums=0)
def _statistics(form: Form, weights: Weights, asked: Array, key: Array, places: Array) -> Weights:
    """The statistics of layers over many rows, with conditions as in training."""
    return _generated(form, weights, _inputs(form, asked, key, places))[1]


@partial(jax.jit, static_argnums=0)
def _balanced(
    form: Form, weights: Weights, asked: Array, key: Array, places: Array, units: Units, frequencies: Array
) -> Array:
    """The bias of the last layer with which levels and modes are as frequent as in the table."""
    raw, _ = _generated(form, weights, _inputs(form, asked, key, places), weights)
    return weights[_last_bias(form)] + balancing_shift(raw, units, frequencies)


def _last_bias(form: Form) -> str:
    return f"generator.{len(form.hidden)}.0.bias"


def shapes(settings: CtganSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    form = _FORMS[settings.preset]
    conditions = len(places_of(groups_to_ask(layout)))
    arrays = jax.eval_shape(lambda: _initial_generator(form, conditions, layout.width, jax.random.key(0)))
    found = {name: tuple(array.shape) for name, array in arrays.items()}
    for number, size in enumerate(form.hidden):
        found |= {f"norm.{number}.{name}": (size,) for name in ("mean", "variance")}
    return {**found, "frequencies": (layout.width,)}


@partial(jax.jit, static_argnums=0)
def _answers(form: Form, weights: Weights, asked: Array, key: Array, places: Array, units: Units) -> Array:
    """Units of rows; those of groups are chances."""
    raw, _ = _generated(form, weights, _inputs(form, asked, key, places), weights)
    scalars = len(units.scalar)
    return jnp.concatenate([jnp.tanh(raw[:, :scalars]) * units.scalar, softmax(raw, units)[:, scalars:]], axis=-1)


def sample(
    settings: CtganSettings,
    _: Sequence[Column],
    trained: Trained,
    rows: int,
    rng: np.random.Generator,
    *,
    missing: bool = True,
) -> Floats:
    """So many whole rows, with missing cells as there were, or without."""
    form, layout = _FORMS[settings.preset], trained.encoding.layout
    frequencies = trained.weights["frequencies"] if missing else known_only(layout, trained.weights["frequencies"])
    asked = draw_asked(groups_to_ask(layout), frequencies, rows, rng)
    return _sample_asked(form, trained, asked, rng, missing=missing)


def _sample_asked(form: Form, trained: Trained, asked: Ints, rng: np.random.Generator, *, missing: bool) -> Floats:
    """Rows that are asked for these units."""
    layout = trained.encoding.layout
    places, units = jnp.asarray(places_of(groups_to_ask(layout)), jnp.int32), units_of(layout)
    weights = {name: array for name, array in trained.weights.items() if name != "frequencies"}
    values = np.empty((len(asked), len(trained.encoding.coders)))
    for block, size in blocks(len(asked)):
        some = np.full(size, NOTHING, np.int32)
        some[: block.stop - block.start] = asked[block]
        found = np.asarray(_answers(form, weights, some, key_from(rng), places, units))
        values[block] = trained.encoding.decode(found[: block.stop - block.start], rng, missing=missing)
    return values


fill = filling_by_matching(sample)
