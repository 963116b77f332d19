"""CTAB-GAN, a convolutional adversarial network for tables (Zhao, Kunar, Birke and Chen 2021).

Numbers are coded by modes, a frequent value being a mode of its own, and so are missing cells; of columns with a long
tail, logarithms are coded. Rows are squares of units. The condition, a level or a mode (`conditional`), is a second
channel of the square that the discriminator sees, each unit asked for at its own place: the paper appends it, which
takes squares of twice the size.

Besides deceiving the discriminator, the generator has to give the unit asked for, to give the discriminator's features
the same means and standard deviations (the information loss), and to give the label that a classifier expects of the
other cells (the downstream loss). In the preset `fast`, the discriminator learns Wasserstein's distance with a penalty
on its gradient, as in the authors' later model (CTAB-GAN+, Zhao and others 2024), there is no information loss, rows
are drawn with the mean of the generator's weights over the last steps (Yazici and others 2019), levels and modes are
made as frequent as in the table, and there are a quarter of the filters. On one draw of credit a classifier lost .19 of
AUC by generated rows with the paper's losses; on another one .09 with Wasserstein's distance, and .04 when there was no
information loss either.
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
from unpooled.complete.generators.convolutions import (
    SETTLING,
    Image,
    as_rows,
    as_square,
    features_moments,
    generated,
    generator_layers,
    information_loss,
    judge_layers,
    judged,
    settled,
    side_for,
    statistics_shapes,
    towards,
)
from unpooled.complete.generators.labels import label_place
from unpooled.complete.generators.matching import filling_by_matching
from unpooled.complete.generators.settings import CtabGanSettings
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
from unpooled.networks.layers import Weights, adam, dense, dense_layers, stepped
from unpooled.networks.trained import Shapes, Trained, as_weights
from unpooled.networks.training import (
    Watch,
    about_training,
    chunked,
    fitting_batch,
    key_from,
    train,
    unwatched,
)

_NOISE = 100
_HIDDEN = (256, 256, 256, 256)
_SLOPE = 0.2
_TEMPERATURE = 0.2
_DECAY, _B1, _B2 = 1e-5, 0.5, 0.9
_DISCRETE_VALUES = 20
_LARGER = 4.0
"""So much larger the discriminator sees scalars, which then have about the spread that one-hot units have."""
_ROWS = 500
"""So many rows are drawn at once."""
_SHIFT, _FREQUENCIES = "shift", "frequencies"


@dataclass(frozen=True)
class Form:
    """Constants of a preset.

    `information`: whether there is the information loss. `penalty` is that on the gradient of Wasserstein's distance,
    taken at one of so many rows that are `penalised`; 0: the discriminator tells real from generated rows instead.
    `mean_steps` is over how many steps the generator's weights are averaged, 1: not at all. `balanced`: whether units
    are made as frequent as in the table.
    """

    filters: int = 64
    information: bool = True
    penalty: float = 0.0
    penalised: int = 4
    mean_steps: int = 1
    balanced: bool = False


_FORMS: Mapping[Preset, Form] = {
    "fast": Form(filters=16, information=False, penalty=10.0, mean_steps=1_000, balanced=True),
    "paper": Form(),
}


@dataclass(frozen=True)
class _Sizes:
    """What compiled functions depend on besides the shapes of arrays."""

    form: Form
    image: Image
    classifier: bool


class _Fixed(NamedTuple):
    """What a step is given besides its batch; the label's units are 1 in `label`."""

    units: Units
    places: Array
    silent: Array
    label: Array
    rate: Array


class _State(NamedTuple):
    """What a step changes."""

    generator: Weights
    discriminator: Weights
    classifier: Weights
    averaged: Weights
    moments: tuple[Any, Any, Any]
    steps: Array


def _image(settings: CtabGanSettings, layout: Layout) -> Image:
    return Image(side_for(layout.width), _FORMS[settings.preset].filters)


def _made(sizes: _Sizes, weights: Weights, asked: Array, key: Array, fixed: _Fixed) -> tuple[Array, Array]:
    """Rows of units, and how far the generator is from giving what was asked for."""
    one, two = jax.random.split(key)
    width = len(fixed.units.grouped)
    images, _ = generated(weights, sizes.image, _inputs(asked, one, fixed.places))
    raw = as_rows(images, width)
    rows = as_units(raw, gumbel_softmax(two, raw, fixed.units, _TEMPERATURE), fixed.units, fixed.silent)
    return rows, jnp.mean(cross_entropy(raw, asked_units(asked, width), fixed.units))


def _judged(sizes: _Sizes, weights: Weights, rows: Array, asked: Array, units: Units) -> tuple[Array, Array]:
    rows = jnp.concatenate([_LARGER * rows[:, : len(units.scalar)], rows[:, len(units.scalar) :]], axis=-1)
    both = jnp.concatenate([as_square(some, sizes.image.side) for some in (rows, asked)], axis=-1)
    return judged(weights, "discriminator", sizes.image, both)


def _discriminator_loss(
    sizes: _Sizes, weights: Weights, real: Array, made: Array, asked: Array, key: Array, units: Units
) -> Array:
    form, both, twice = sizes.form, jnp.concatenate([real, made]), jnp.concatenate([asked, asked])
    of_real, of_made = jnp.split(_judged(sizes, weights, both, twice, units)[0], 2)
    if not form.penalty:
        return jnp.mean(jax.nn.softplus(-of_real)) + jnp.mean(jax.nn.softplus(of_made))
    some = max(len(real) // form.penalised, 1)
    between = real[:some] + jax.random.uniform(key, (some, 1)) * (made[:some] - real[:some])
    slopes = jax.grad(lambda rows: jnp.sum(_judged(sizes, weights, rows, asked[:some], units)[0]))(between)
    norms = jnp.sqrt(jnp.sum(slopes**2, axis=-1) + 1e-12)
    return jnp.mean(of_made) - jnp.mean(of_real) + form.penalty * jnp.mean((norms - 1.0) ** 2)


def _label_logits(weights: Weights, rows: Array, fixed: _Fixed) -> Array:
    """What the classifier makes of all cells but the label."""
    hidden = rows * (1.0 - fixed.label)
    for number in range(len(_HIDDEN)):
        hidden = jax.nn.leaky_relu(dense(weights, "classifier", number, hidden), _SLOPE)
    return dense(weights, "classifier", len(_HIDDEN), hidden)


def _classifier_loss(weights: Weights, rows: Array, fixed: _Fixed) -> Array:
    return jnp.mean(cross_entropy(_label_logits(weights, rows, fixed), rows * fixed.label, fixed.units))


def _downstream_loss(weights: Weights, made: Array, fixed: _Fixed) -> Array:
    """How far the classifier is from the labels, which stay as they are: it is not to pull them to frequent ones.

    It is no cross-entropy, which a classifier that is sure of its labels would let outweigh everything else.
    """
    labels = jax.lax.stop_gradient(made * fixed.label)
    expected = softmax(_label_logits(weights, made, fixed), fixed.units)
    return 1.0 - jnp.mean(jnp.sum(expected * labels, axis=-1))


def _generator_loss(
    sizes: _Sizes,
    made: Array,
    discriminator: Weights,
    classifier: Weights,
    real: Array,
    asked: Array,
    fixed: _Fixed,
) -> Array:
    """What generated rows lack; `real` are the statistics of features of real ones."""
    score, features = _judged(sizes, discriminator, made, asked, fixed.units)
    loss = -jnp.mean(score) if sizes.form.penalty else jnp.mean(jax.nn.softplus(-score))
    if sizes.form.information:
        loss += information_loss(real, features_moments(features), 0.0)
    if sizes.classifier:
        loss += _downstream_loss(classifier, made, fixed)
    return loss


def _step(sizes: _Sizes, state: _State, batch: tuple[Array, Array], key: Array, fixed: _Fixed) -> tuple[_State, Array]:
    asked, rows = batch
    one, two = jax.random.split(key)
    condition = asked_units(asked, rows.shape[1])
    (made, unlike), back = jax.vjp(lambda weights: _made(sizes, weights, asked, one, fixed), state.generator)
    optimiser = adam(_DECAY, _B1, _B2)
    generator_moments, discriminator_moments, classifier_moments = state.moments
    judge = jax.value_and_grad(partial(_discriminator_loss, sizes))
    judging, gradients = judge(state.discriminator, rows, made, condition, two, fixed.units)
    discriminator, discriminator_moments = stepped(
        optimiser, state.discriminator, discriminator_moments, gradients, fixed.rate
    )
    classifier = state.classifier
    if sizes.classifier:
        gradients = jax.grad(_classifier_loss)(classifier, rows, fixed)
        classifier, classifier_moments = stepped(optimiser, classifier, classifier_moments, gradients, fixed.rate)
    real = features_moments(_judged(sizes, discriminator, rows, condition, fixed.units)[1])
    deceive = jax.value_and_grad(partial(_generator_loss, sizes))
    loss, disliked = deceive(made, discriminator, classifier, real, condition, fixed)
    (gradients,) = back((disliked, jnp.ones_like(unlike)))
    generator, generator_moments = stepped(optimiser, state.generator, generator_moments, gradients, fixed.rate)
    steps = state.steps + 1.0
    averaged = towards(state.averaged, generator, steps, sizes.form.mean_steps)
    moments = (generator_moments, discriminator_moments, classifier_moments)
    return _State(generator, discriminator, classifier, averaged, moments, steps), judging + loss + unlike


_steps = chunked(_step)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _networks(sizes: _Sizes, places: int, width: int, key: Array) -> tuple[Weights, Weights, Weights]:
    one, two, three = jax.random.split(key, 3)
    return (
        generator_layers(one, sizes.image, _NOISE + places),
        judge_layers(two, "discriminator", sizes.image, channels=2),
        dense_layers(three, "classifier", [width, *_HIDDEN, width]) if sizes.classifier else {},
    )


def _initial(sizes: _Sizes, places: int, width: int, key: Array) -> _State:
    generator, discriminator, classifier = networks = _networks(sizes, places, width, key)
    averaged = {name: jnp.array(array) for name, array in generator.items()} if sizes.form.mean_steps > 1 else {}
    first, second, third = map(adam(_DECAY, _B1, _B2).init, networks)
    return _State(generator, discriminator, classifier, averaged, (first, second, third), jnp.zeros(()))


def fit(
    settings: CtabGanSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch = unwatched,
    checkpoint: Path | None = None,
) -> Trained:
    """Learn from the known cells."""
    about = about_training(settings, columns, values)
    label = label_place(settings.label, columns)
    values = some_rows(values, settings.rows, rng)
    encoding = learn_encoding(columns, values, "long tails", levels=settings.levels, discrete_values=_DISCRETE_VALUES)
    layout, units = encoding.layout, encoding.encode(values, rng)
    groups = groups_to_ask(layout, modes=True)
    places = jnp.asarray(places_of(groups), jnp.int32)
    sizes = _Sizes(_FORMS[settings.preset], _image(settings, layout), label is not None)
    state: _State = train(
        settings.completer,
        settings.schedule,
        _steps,
        sizes,
        _initial(sizes, len(places), layout.width, key_from(rng)),
        sampled(groups, units, fitting_batch(settings.schedule.batch_rows, len(values))),
        _Fixed(
            units_of(layout),
            places,
            silent_units(encoding),
            jnp.asarray(layout.column_of == (len(columns) if label is None else label), jnp.float32),
            jnp.float32(settings.schedule.learning_rate),
        ),
        rng,
        about=about,
        watch=watch,
        checkpoint=checkpoint,
    )
    weights, frequencies = state.averaged or state.generator, frequencies_of(layout.groups, units)
    settling = SETTLING[0] * SETTLING[1]
    asked = draw_asked(groups, logarithmic(frequencies, len(units)), settling, rng)
    weights = weights | settled(sizes.image, weights, _inputs(asked, key_from(rng), places).reshape(*SETTLING, -1))
    shift = np.zeros(layout.width, np.float32)
    if sizes.form.balanced:
        asked = draw_asked(groups, frequencies, settling, rng)
        shift = _balanced(sizes.image, weights, _inputs(asked, key_from(rng), places), units_of(layout), frequencies)
    return Trained(encoding, as_weights({**weights, _SHIFT: shift, _FREQUENCIES: frequencies}))


def _inputs(asked: Any, key: Array, places: Array) -> Array:
    """Noise and conditions."""
    noise = jax.random.normal(key, (len(asked), _NOISE))
    return jnp.concatenate([noise, vector(jnp.asarray(asked, jnp.int32), places)], axis=-1)


@partial(jax.jit, static_argnums=0)
def _balanced(image: Image, weights: Weights, inputs: Array, units: Units, frequencies: Array) -> Array:
    batches = inputs.reshape(*SETTLING, -1)
    raw = jax.lax.map(lambda some: as_rows(generated(weights, image, some, weights)[0], len(units.grouped)), batches)
    return balancing_shift(raw.reshape(len(inputs), -1), units, frequencies)


def shapes(settings: CtabGanSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    image = _image(settings, layout)
    inputs = _NOISE + len(places_of(groups_to_ask(layout, modes=True)))
    arrays = jax.eval_shape(lambda: generator_layers(jax.random.key(0), image, inputs))
    found = {name: tuple(array.shape) for name, array in arrays.items()}
    return {**found, **statistics_shapes(image), **dict.fromkeys((_SHIFT, _FREQUENCIES), (layout.width,))}


@partial(jax.jit, static_argnums=0)
def _drawn(image: Image, weights: Weights, inputs: Array, units: Units) -> Array:
    """Units of rows; those of groups are chances."""
    images, _ = generated(weights, image, inputs, weights)
    raw, scalars = as_rows(images, len(units.grouped)) + weights[_SHIFT], len(units.scalar)
    return jnp.concatenate([jnp.tanh(raw[:, :scalars]) * units.scalar, softmax(raw, units)[:, scalars:]], axis=-1)


def sample(
    settings: CtabGanSettings,
    _: Sequence[Column],
    trained: Trained,
    rows: int,
    rng: np.random.Generator,
    *,
    missing: bool = True,
) -> Floats:
    """So many whole rows, with missing cells as there were, or without."""
    layout = trained.encoding.layout
    groups, image, units = groups_to_ask(layout, modes=True), _image(settings, layout), units_of(layout)
    places = jnp.asarray(places_of(groups), jnp.int32)
    weights = {name: array for name, array in trained.weights.items() if name != _FREQUENCIES}
    frequencies: Singles = trained.weights[_FREQUENCIES]
    asked: Ints = draw_asked(groups, frequencies if missing else known_only(layout, frequencies), rows, rng)
    values = np.empty((rows, len(trained.encoding.coders)))
    for start in range(0, rows, _ROWS):
        some = np.full(_ROWS, NOTHING, np.int32)
        count = min(rows - start, _ROWS)
        some[:count] = asked[start : start + count]
        found = np.asarray(_drawn(image, weights, _inputs(some, key_from(rng), places), units))[:count]
        values[start : start + count] = trained.encoding.decode(found, rng, missing=missing)
    return values


fill = filling_by_matching(sample)
