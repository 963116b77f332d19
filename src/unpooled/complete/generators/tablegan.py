"""TableGAN, a convolutional adversarial network for tables (Park and others 2018).

Every cell is one pixel of a square: numbers by their range, classes by the position of their level. Columns with
missing cells have a second pixel for that; a missing cell's own pixel is drawn from the column's others. The generator
has to deceive the discriminator, to give its features the same means and standard deviations (the information loss),
and to give the label that a classifier expects of the other cells.

In the preset `fast`, numbers are coded by rank, and equal cells share a part of the range as large as they are
frequent, over which they are spread anew in each epoch: by their range, frequent numbers hardly ever come back. Rows
are drawn with the mean of the generator's weights over the last steps (Yazici and others 2019).
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

from unpooled.arrays import Floats
from unpooled.complete.completers.completer import some_rows
from unpooled.complete.completers.neural import Preset
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
from unpooled.complete.generators.settings import TableGanSettings
from unpooled.data.coding import Column
from unpooled.data.normal import cdf, quantile
from unpooled.networks.coders import Coder, Positions, Quantiles, Way, choose, scalars_of
from unpooled.networks.encoding import Encoding, Layout, Singles, learn_encoding
from unpooled.networks.layers import Weights, adam, stepped
from unpooled.networks.trained import Shapes, Trained, as_weights
from unpooled.networks.training import (
    Batches,
    Watch,
    about_training,
    chunked,
    fitting_batch,
    key_from,
    shuffled,
    train,
    unwatched,
)

_NOISE = 100
_FILTERS = 64
_B1 = 0.5
_DISCRETE_VALUES = 20
_KEPT = 0.99
"""How much of the features' statistics each batch leaves as it is."""
_ROWS = 500
"""So many rows are drawn at once."""
_RAREST = 1e-6
_WAYS: Mapping[Preset, Way] = {"fast": "ranks", "paper": "positions"}
_MEAN_STEPS: Mapping[Preset, int] = {"fast": 1_000, "paper": 1}


@dataclass(frozen=True)
class Form:
    """Sizes and constants; `mean_steps` is over how many steps the generator's weights are averaged, 1: not at all."""

    image: Image
    margin: float
    classifier: bool
    mean_steps: int


class _Fixed(NamedTuple):
    """What a step is given besides its batch; one pixel is the label's."""

    label: Array
    rate: Array


class _State(NamedTuple):
    """What a step changes; `real` and `made` are the running statistics of features."""

    generator: Weights
    discriminator: Weights
    classifier: Weights
    averaged: Weights
    moments: tuple[Any, Any, Any]
    real: Array
    made: Array
    steps: Array


def _image(layout: Layout) -> Image:
    return Image(side_for(_pixels(layout)), _FILTERS)


def _pixels(layout: Layout) -> int:
    """A pixel for each column, and one for each that can be missing."""
    return len(layout.scalars) + len(layout.groups)


def _as_pixels(encoding: Encoding, values: Floats, rng: np.random.Generator) -> tuple[Singles, Singles]:
    """Rows as pixels between -1 and 1, and how wide the part of that range is that each cell shares with equal ones."""
    columns = values.shape[1]
    pixels = np.zeros((len(values), _pixels(encoding.layout)), np.float32)
    widths = np.zeros_like(pixels)
    for place, coder in enumerate(encoding.coders):
        missing = np.isnan(values[:, place])
        cells = values[:, place].copy()
        cells[missing] = rng.choice(values[~missing, place], int(missing.sum()))
        scalars = scalars_of(coder, cells, choose(coder, cells, rng))
        pixels[:, place] = 2.0 * cdf(scalars) - 1.0 if isinstance(coder, Quantiles) else scalars
        widths[:, place] = _widths(coder, cells)
    for number, group in enumerate(encoding.layout.groups):
        pixels[:, columns + number] = np.where(np.isnan(values[:, group.column]), 0.5, -0.5)
        widths[:, columns + number] = 1.0
    return pixels, widths


def _widths(coder: Coder, cells: Floats) -> Floats:
    if isinstance(coder, Positions):
        return 2.0 * coder.shares[np.searchsorted(coder.positions, cells)]
    if isinstance(coder, Quantiles):
        low, high = (np.searchsorted(coder.points, cells, side) for side in ("left", "right"))
        return 2.0 * (high - low) / len(coder.points)
    return np.zeros(len(cells))


def _batches(pixels: Singles, widths: Singles, batch_rows: int, *, spread: bool) -> Batches:
    """Rows in a new order in each epoch, with cells spread over the part of the range that they share, or not."""
    if not spread:
        return shuffled(pixels, batch_rows)
    both = shuffled(np.concatenate([pixels, widths], axis=1), batch_rows)

    def batches(rng: np.random.Generator) -> Singles:
        middles, wide = np.split(both(rng), 2, axis=2)
        spread_out: Singles = middles + wide * (rng.random(wide.shape, np.float32) - np.float32(0.5))
        return spread_out

    return batches


def _as_values(encoding: Encoding, pixels: Singles, rng: np.random.Generator, *, missing: bool) -> Floats:
    """What `_as_pixels` made of rows, back."""
    layout = encoding.layout
    units = np.zeros((len(pixels), layout.width), np.float32)
    for place, coder in enumerate(encoding.coders):
        scalars = pixels[:, place].astype(np.float64)
        if isinstance(coder, Quantiles):
            scalars = quantile(np.clip((scalars + 1.0) / 2.0, _RAREST, 1.0 - _RAREST))
        units[:, layout.scalars[place]] = scalars
    for number, group in enumerate(layout.groups):
        absent = pixels[:, len(layout.scalars) + number] > 0
        units[:, group.start], units[:, group.start + 1] = ~absent, absent
    return encoding.decode(units, rng, missing=missing)


def _made(form: Form, weights: Weights, noise: Array, pixels: int) -> Array:
    images, _ = generated(weights, form.image, noise)
    return jnp.tanh(as_rows(images, pixels))


def _judged(form: Form, weights: Weights, rows: Array) -> tuple[Array, Array]:
    return judged(weights, "discriminator", form.image, as_square(rows, form.image.side))


def _unlabelled(form: Form, weights: Weights, rows: Array, label: Array) -> Array:
    """How far labels are from what the classifier makes of the other cells."""
    others = as_square(jnp.where(label, 0.0, rows), form.image.side)
    found, _ = judged(weights, "classifier", form.image, others)
    return jnp.mean(jnp.abs(jnp.sum(rows * label, axis=-1) - jnp.tanh(found))) / 2.0


def _discriminator_loss(form: Form, weights: Weights, real: Array, made: Array) -> Array:
    one, two = _judged(form, weights, real)[0], _judged(form, weights, made)[0]
    return jnp.mean(jax.nn.softplus(-one)) + jnp.mean(jax.nn.softplus(two))


def _generator_loss(
    form: Form, made: Array, discriminator: Weights, classifier: Weights, real: Array, running: Array, label: Array
) -> tuple[Array, Array]:
    """The loss, and the running statistics of features of generated rows."""
    score, features = _judged(form, discriminator, made)
    moments = features_moments(features)
    running = jax.lax.stop_gradient(_KEPT * running + (1.0 - _KEPT) * moments)
    # Running statistics say how large the difference is; its gradient is that of this batch.
    differing = information_loss(real, running + moments - jax.lax.stop_gradient(moments), form.margin)
    loss = jnp.mean(jax.nn.softplus(-score)) + differing
    if form.classifier:
        loss += _unlabelled(form, classifier, made, label)
    return loss, running


def _step(form: Form, state: _State, rows: Array, key: Array, fixed: _Fixed) -> tuple[_State, Array]:
    noise = jax.random.normal(key, (len(rows), _NOISE))
    made, back = jax.vjp(lambda weights: _made(form, weights, noise, rows.shape[1]), state.generator)
    optimiser = adam(0.0, _B1)
    generator_moments, discriminator_moments, classifier_moments = state.moments
    judging, gradients = jax.value_and_grad(partial(_discriminator_loss, form))(state.discriminator, rows, made)
    discriminator, discriminator_moments = stepped(
        optimiser, state.discriminator, discriminator_moments, gradients, fixed.rate
    )
    classifier = state.classifier
    if form.classifier:
        gradients = jax.grad(partial(_unlabelled, form))(classifier, rows, fixed.label)
        classifier, classifier_moments = stepped(optimiser, classifier, classifier_moments, gradients, fixed.rate)
    known = _KEPT * state.real + (1.0 - _KEPT) * features_moments(_judged(form, discriminator, rows)[1])
    deceive = jax.value_and_grad(partial(_generator_loss, form), has_aux=True)
    (loss, running), disliked = deceive(made, discriminator, classifier, known, state.made, fixed.label)
    generator, generator_moments = stepped(optimiser, state.generator, generator_moments, back(disliked)[0], fixed.rate)
    steps = state.steps + 1.0
    averaged = towards(state.averaged, generator, steps, form.mean_steps)
    moments = (generator_moments, discriminator_moments, classifier_moments)
    return _State(generator, discriminator, classifier, averaged, moments, known, running, steps), judging + loss


_steps = chunked(_step)


@partial(jax.jit, static_argnums=0)
def _networks(form: Form, key: Array) -> tuple[Weights, Weights, Weights]:
    one, two, three = jax.random.split(key, 3)
    return (
        generator_layers(one, form.image, _NOISE),
        judge_layers(two, "discriminator", form.image),
        judge_layers(three, "classifier", form.image) if form.classifier else {},
    )


def _initial(form: Form, key: Array) -> _State:
    generator, discriminator, classifier = networks = _networks(form, key)
    averaged = {name: jnp.array(array) for name, array in generator.items()} if form.mean_steps > 1 else {}
    real, made = (jnp.zeros((2, form.image.hidden), jnp.float32) for _ in range(2))
    first, second, third = map(adam(0.0, _B1).init, networks)
    moments = (first, second, third)
    return _State(generator, discriminator, classifier, averaged, moments, real, made, jnp.zeros(()))


def fit(
    settings: TableGanSettings,
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
    way = _WAYS[settings.preset]
    encoding = learn_encoding(columns, values, way, discrete_values=_DISCRETE_VALUES)
    pixels, widths = _as_pixels(encoding, values, rng)
    form = Form(_image(encoding.layout), settings.margin, label is not None, _MEAN_STEPS[settings.preset])
    state: _State = train(
        settings.completer,
        settings.schedule,
        _steps,
        form,
        _initial(form, key_from(rng)),
        _batches(pixels, widths, fitting_batch(settings.schedule.batch_rows, len(values)), spread=way == "ranks"),
        _Fixed(
            jnp.arange(pixels.shape[1]) == (-1 if label is None else label),
            jnp.float32(settings.schedule.learning_rate),
        ),
        rng,
        about=about,
        watch=watch,
        checkpoint=checkpoint,
    )
    weights = state.averaged or state.generator
    statistics = settled(form.image, weights, jax.random.normal(key_from(rng), (*SETTLING, _NOISE)))
    return Trained(encoding, as_weights({**weights, **statistics}))


def shapes(_: TableGanSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    image = _image(layout)
    arrays = jax.eval_shape(lambda: generator_layers(jax.random.key(0), image, _NOISE))
    return {**{name: tuple(array.shape) for name, array in arrays.items()}, **statistics_shapes(image)}


@partial(jax.jit, static_argnums=0)
def _drawn(image: Image, weights: Weights, key: Array) -> Array:
    images, _ = generated(weights, image, jax.random.normal(key, (_ROWS, _NOISE)), weights)
    return jnp.tanh(as_rows(images, image.side**2))


def sample(
    _: TableGanSettings,
    __: Sequence[Column],
    trained: Trained,
    rows: int,
    rng: np.random.Generator,
    *,
    missing: bool = True,
) -> Floats:
    """So many whole rows, with missing cells as there were, or without."""
    image, weights = _image(trained.encoding.layout), dict(trained.weights)
    values = np.empty((rows, len(trained.encoding.coders)))
    for start in range(0, rows, _ROWS):
        pixels = np.asarray(_drawn(image, weights, key_from(rng)))[: rows - start]
        values[start : start + _ROWS] = _as_values(trained.encoding, pixels, rng, missing=missing)
    return values


fill = filling_by_matching(sample)
