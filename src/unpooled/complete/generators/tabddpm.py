"""TabDDPM, a diffusion model for tables (Kotelnikov, Baranchuk, Rubachev and Babenko 2023).

Noise is added to a row step by step until nothing is left of it (`diffusion`): to the normal quantiles of numbers, and
to one-hot units. A network learns to tell the noise in the scalars (squared error) and the units without noise
(divergence of the chances one step earlier, divided by the number of groups), at a random step. Rows are drawn by
undoing all steps, beginning with pure noise. Cells are filled alike, the known ones being put back at each step with as
much noise as belongs there (Lugmayr and others 2022).

As in the paper, the label is drawn by its frequency, never has noise, and the network is told it. Here that is so in
most rows of training only: in the others the label has noise like all classes, so that a label can be filled too. What
the network is told is the label's units among its inputs, and one vector that says they are without noise.

Each step is undone in several rounds, with noise put on again in between: filled cells then fit the known ones, and
classes fit each other better. In rows without a known cell only classes have these rounds: in a table of 14 numbers
that go with each other (credit), three rounds for numbers too made associations worse than a copula's.

A network that has seen a few thousand rows tells too little of what goes with the label: a model of real rows tells
labels of generated rows by an AUC that is .02 lower than for held-out rows. So whole rows are drawn with guidance (Ho
and Salimans 2022): noise and logits are moved away from what they would be for a label with noise, by `guidance` times
the difference. Early steps, where such a label says little, have most of it. Filled cells have no guidance.

Settings were chosen on draws 21 and 22 of the sets that `benchmarks/generators.py` has, which it does not use. By one
training and mostly one sample each, guidance of 0.3 lowered the AUC that LightGBM loses from .0147 to .0069 (bank, 21),
.0149 to .0145 and .0197 to .0152 (census, 21 and 22), and raised the error of association (census, 22: from .0115 to
.0207; a copula's is some .04). Batches of 512 rows instead of 1,024 had the same loss on held-out rows (census, 21),
for half the time; a dropout of 0.1 made it no smaller.

Longer training makes rows worth more to a classifier, and brings them nearer to rows that were learned from: with
batches of 1,024 on one draw of bank, 10,000 steps instead of 5,000 lost .013 of AUC instead of .020, and .526 of the
rows instead of .518 were nearer to a training row than to a held-out one (census: .547). The preset `fast` has 7,500.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import some_rows
from unpooled.complete.completers.neural import Preset
from unpooled.complete.generators.diffusion import (
    cosine_noise,
    divergence_before,
    drawn_groups,
    log_chances,
    log_chances_before,
    noised_groups,
    noised_scalars,
    scalars_before,
)
from unpooled.complete.generators.labels import label_place
from unpooled.complete.generators.settings import TabDdpmSettings
from unpooled.data.coding import Column
from unpooled.networks.coders import draw
from unpooled.networks.encoding import Encoding, Layout, Singles, learn_encoding
from unpooled.networks.groups import Units, log_softmax, present, units_of
from unpooled.networks.layers import Weights, adam, blocks, dense, dense_layers, stepped, through
from unpooled.networks.trained import Shapes, Trained, as_weights
from unpooled.networks.training import (
    Watch,
    about_training,
    chunked,
    fitting_batch,
    key_from,
    shuffled,
    train,
    unwatched,
)


@dataclass(frozen=True)
class _Form:
    """Steps of noise and how often each is undone, sizes of the network, and how its weights are averaged.

    However many rows there are, a preset has at most so many steps of training. `told` is the part of the rows in
    training whose label has no noise. `guidance` is how far rows that are drawn go beyond what their label asks for.
    """

    noise_steps: int
    rounds: int
    hidden: tuple[int, ...]
    embedding: int
    average: float
    training_steps: int
    guidance: float
    told: float = 0.8


_FORMS: Mapping[Preset, _Form] = {
    "fast": _Form(
        noise_steps=200,
        rounds=3,
        hidden=(512, 256),
        embedding=256,
        average=0.998,
        training_steps=7_500,
        guidance=0.3,
    ),
    "paper": _Form(
        noise_steps=1000,
        rounds=1,
        hidden=(512,) * 4,
        embedding=128,
        average=0.999,
        training_steps=30_000,
        guidance=0.0,
    ),
}
_DISCRETE_VALUES = 50
_ROWS_OF_A_VALUE = 50
"""Numbers with few values are groups of units: at most so many values, with so many rows each on average."""
_LONGEST_WAVE = 10_000.0
_TOLD, _FREQUENCIES = "label.told", "label.frequencies"


def _initial(form: _Form, layout: Layout, key: Array) -> Weights:
    one, two, three = jax.random.split(key, 3)
    weights = dense_layers(one, "input", [layout.width, form.embedding])
    weights |= dense_layers(two, "time", [form.embedding] * 3)
    weights[_TOLD] = jnp.zeros(form.embedding)
    return weights | dense_layers(three, "layers", [form.embedding, *form.hidden, layout.width])


def _embedded_times(form: _Form, weights: Weights) -> Array:
    """What the network is told about each step: sines and cosines of its number, through two layers."""
    times = np.arange(form.noise_steps + 1) * (1000.0 / form.noise_steps)
    waves = _LONGEST_WAVE ** -np.linspace(0.0, 1.0, form.embedding // 2)
    angles = times[:, np.newaxis] * waves
    embedded = jnp.asarray(np.concatenate([np.cos(angles), np.sin(angles)], axis=1), jnp.float32)
    return dense(weights, "time", 1, jax.nn.silu(dense(weights, "time", 0, embedded)))


def _guessed(
    form: _Form, weights: Weights, rows: Array, times: Array, told: Array, units: Units
) -> tuple[Array, Array]:
    """What the network takes for the noise in scalars, and the logits of units without noise.

    `told` is 1 for rows whose label has no noise.
    """
    layers = len(form.hidden)
    inputs = dense(weights, "input", 0, rows) + times + told * weights[_TOLD]
    raw = dense(weights, "layers", layers, through(weights, "layers", inputs, layers))
    return raw[:, : len(units.scalar)], raw


def _loss(form: _Form, weights: Weights, rows: Array, key: Array, units: Units, label: Array) -> Array:
    keys = jax.random.split(key, 5)
    schedule, scalars = cosine_noise(form.noise_steps), len(units.scalar)
    # Rows are in random order, so each step of noise may have its fixed part of them: the loss is less noisy.
    at = (jnp.arange(len(rows)) + jax.random.uniform(keys[0])) / len(rows)
    t = 1 + jnp.minimum(jnp.floor(at * schedule.steps).astype(jnp.int32), schedule.steps - 1)
    left = jnp.asarray(schedule.alpha_bars)[t][:, jnp.newaxis]
    start = _without_gaps(keys[1], rows, units)
    noisy, noise = noised_scalars(keys[2], start, left)
    told = jax.random.uniform(keys[4], (len(rows), 1)) < form.told * label.max()
    spared = told & (label > 0)
    groups = jnp.where(spared, rows, noised_groups(keys[3], rows, left, units))
    noised = jnp.concatenate([noisy * units.scalar, groups[:, scalars:]], axis=1)
    guess, logits = _guessed(form, weights, noised, _embedded_times(form, weights)[t], told, units)
    squares = jnp.sum((guess - noise) ** 2 * units.scalar, axis=-1)
    # Of a label that is told there is nothing to learn.
    log_start = jnp.where(spared, log_chances(rows), log_softmax(logits, units))
    apart = divergence_before(log_start, rows, groups, t[:, jnp.newaxis], schedule, units)
    numbers, groups_in_use = jnp.sum(units.scalar), jnp.sum(units.member.max(axis=0))
    of_numbers, of_groups = squares / jnp.maximum(numbers, 1.0), apart / jnp.maximum(groups_in_use, 1.0)
    return jnp.mean(of_numbers + schedule.steps * of_groups)


def _without_gaps(key: Array, rows: Array, units: Units) -> Array:
    """Scalars, those of missing cells drawn anew each time so that there is nothing to learn from them."""
    scalars = rows[:, : len(units.scalar)]
    return jnp.where(present(rows, units) > 0, scalars, jax.random.normal(key, scalars.shape))


def _step(form: _Form, state: Any, rows: Array, key: Array, fixed: tuple[Any, ...]) -> tuple[Any, Array]:
    weights, average, moments, done = state
    units, label, rate, steps = fixed
    loss, gradients = jax.value_and_grad(partial(_loss, form))(weights, rows, key, units, label)
    rate = rate * jnp.maximum(1.0 - done / steps, 0.0)
    weights, moments = stepped(adam(), weights, moments, gradients, rate)
    follow = 1.0 - jnp.minimum(form.average, (1.0 + done) / (10.0 + done))
    average = {name: average[name] + follow * (weights[name] - average[name]) for name in weights}
    return (weights, average, moments, done + 1.0), loss


_steps = chunked(_step)


def fit(
    settings: TabDdpmSettings,
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
    discrete = min(_DISCRETE_VALUES, len(values) // _ROWS_OF_A_VALUE)
    encoding = learn_encoding(columns, values, "quantiles", levels=settings.levels, discrete_values=discrete)
    label = _label_units(settings, columns, encoding)
    weights = _initial(form, encoding.layout, key_from(rng))
    batch_rows = fitting_batch(settings.schedule.batch_rows, len(values))
    steps = max(len(values) // batch_rows, 1)
    rows = encoding.encode(values, rng)
    epochs = settings.epochs or min(settings.schedule.epochs, -(-form.training_steps // steps))
    _, average, _, _ = train(
        settings.completer,
        replace(settings.schedule, epochs=epochs),
        _steps,
        form,
        (weights, jax.tree.map(jnp.array, weights), adam().init(weights), jnp.float32(0.0)),
        shuffled(rows, batch_rows),
        (units_of(encoding.layout), label, jnp.float32(settings.schedule.learning_rate), jnp.float32(epochs * steps)),
        rng,
        about=about,
        watch=watch,
        checkpoint=checkpoint,
    )
    return Trained(encoding, as_weights(average | {_FREQUENCIES: (rows * label).mean(axis=0)}))


def shapes(settings: TabDdpmSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    found = jax.eval_shape(lambda: _initial(_FORMS[settings.preset], layout, jax.random.key(0)))
    return {name: tuple(array.shape) for name, array in found.items()} | {_FREQUENCIES: (layout.width,)}


@partial(jax.jit, static_argnums=0)
def _undone(
    form: _Form,
    weights: Weights,
    key: Array,
    rows: Array,
    known: Array,
    spared: Array,
    not_drawn: Array,
    rounds: Any,
    guidance: Any,
    units: Units,
) -> Array:
    """Rows after all steps are undone, each in so many rounds, with the known units as they are.

    Those that are `spared`, which are a label's, never have noise; 0 is no `guidance` by them.
    Groups have the chances of their units, of which none is `not_drawn`.
    """
    schedule, scalars = cosine_noise(form.noise_steps), len(units.scalar)
    alphas, bars = jnp.asarray(schedule.alphas), jnp.asarray(schedule.alpha_bars)
    embedded = _embedded_times(form, weights)
    first, last, key = jax.random.split(key, 3)
    given = known.any(axis=1, keepdims=True)
    told = spared.any(axis=1, keepdims=True)

    def together(scalar_part: Array, group_part: Array) -> Array:
        return jnp.concatenate([scalar_part * units.scalar, group_part[:, scalars:]], axis=1)

    def noised(key: Array, rows: Array, left: Array) -> Array:
        one, two = jax.random.split(key)
        noisy = together(noised_scalars(one, rows[:, :scalars], left)[0], noised_groups(two, rows, left, units))
        return jnp.where(spared, rows, noisy)

    def guessed(_: Array, now: Array, t: Array) -> tuple[Array, Array]:
        return _guessed(form, weights, now, embedded[t], told, units)

    def guided(key: Array, now: Array, t: Array) -> tuple[Array, Array]:
        """Further away from what would be guessed if the label had as much noise as the rest."""
        unsure = jnp.where(spared, noised_groups(key, now, bars[t], units), now)
        noise, logits = guessed(key, now, t)
        other_noise, others = _guessed(form, weights, unsure, embedded[t], jnp.zeros_like(told), units)
        return noise + guidance * (noise - other_noise), logits + guidance * (logits - others)

    def before(key: Array, now: Array, t: Array) -> tuple[Array, Array]:
        """Scalars one step earlier, and the logarithms of the chances of units."""
        one, two = jax.random.split(key)
        noise, logits = jax.lax.cond(guidance > 0, guided, guessed, one, now, t)
        log_start = log_softmax(logits - 80.0 * not_drawn, units)
        scalar_part = scalars_before(two, now[:, :scalars], noise, t, schedule)
        return scalar_part, log_chances_before(log_start, now, t, schedule, units)

    def redone(key: Array, now: Array, earlier: Array, left: Array) -> Array:
        """One step of noise on what is earlier; scalars of rows without a known cell are still as they are now."""
        noisy = noised(key, earlier, left)
        return jnp.where(given, noisy, together(now[:, :scalars], noisy))

    def again(number: Array, now: Array) -> Array:
        t = schedule.steps - number // rounds
        one, two, three, four = jax.random.split(jax.random.fold_in(key, number), 4)
        earlier, logs = before(one, now, t)
        drawn = together(earlier, drawn_groups(two, logs, units))
        drawn = jnp.where(known | spared, noised(three, rows, bars[t - 1]), drawn)
        repeated = number % rounds < rounds - 1
        found: Array = jax.lax.cond(repeated, lambda: redone(four, now, drawn, alphas[t]), lambda: drawn)
        return found

    now = noised(first, rows, jnp.zeros(()))
    now = jax.lax.fori_loop(0, (schedule.steps - 1) * rounds, again, now)
    earlier, logs = before(last, now, jnp.int32(1))
    return jnp.where(known | spared, rows, together(earlier, jnp.exp(logs) * units.grouped))


def _drawn(
    form: _Form,
    trained: Trained,
    rows: Singles,
    known: Bools,
    spared: Bools,
    not_drawn: Singles,
    rounds: int,
    rng: np.random.Generator,
    guidance: float = 0.0,
) -> Singles:
    """Units of one block of rows, padded."""
    weights, units = dict(trained.weights), units_of(trained.encoding.layout)
    return np.asarray(_undone(form, weights, key_from(rng), rows, known, spared, not_drawn, rounds, guidance, units))


def sample(
    settings: TabDdpmSettings,
    columns: Sequence[Column],
    trained: Trained,
    rows: int,
    rng: np.random.Generator,
    *,
    missing: bool = True,
) -> Floats:
    """So many whole rows, with missing cells as there were, or without; labels by their frequencies."""
    encoding, form = trained.encoding, _FORMS[settings.preset]
    not_drawn = _missing_units(encoding) * np.float32(not missing)
    label = _label_units(settings, columns, encoding) > 0
    rounds = settings.rounds or form.rounds
    wanted = form.guidance if settings.guidance is None else settings.guidance
    guidance = wanted if label.any() else 0.0
    values = np.empty((rows, len(encoding.coders)))
    for block, size in blocks(rows):
        labels = _drawn_labels(trained, not_drawn, size, rng)
        spared = labels.any(axis=1, keepdims=True) & label
        found = _drawn(form, trained, labels, spared & False, spared, not_drawn, rounds, rng, guidance)
        values[block] = encoding.decode(found[: block.stop - block.start], rng, missing=missing)
    return values


def fill(
    settings: TabDdpmSettings,
    columns: Sequence[Column],
    trained: Trained,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Floats:
    """Values with the wanted cells drawn, given the known ones."""
    encoding, form = trained.encoding, _FORMS[settings.preset]
    rows = encoding.encode(np.where(wanted, np.nan, values), rng)
    known = _known_units(encoding, rows, values, wanted)
    label = _label_units(settings, columns, encoding) > 0
    filled = values.copy()
    for block, size in blocks(len(values)):
        count = block.stop - block.start
        some, places = np.zeros((size, rows.shape[1]), np.float32), np.zeros((size, rows.shape[1]), np.bool_)
        some[:count], places[:count] = rows[block], known[block]
        not_drawn, rounds = _missing_units(encoding), settings.rounds or form.rounds
        found = _drawn(form, trained, some, places & ~label, places & label, not_drawn, rounds, rng)
        decoded = encoding.decode(found[:count], rng, missing=False)
        filled[block] = np.where(wanted[block], decoded, values[block])
    return filled


def _label_units(settings: TabDdpmSettings, columns: Sequence[Column], encoding: Encoding) -> Singles:
    """1 for the units of the label; 0 throughout if there is none."""
    units = np.zeros(encoding.layout.width, np.float32)
    place = label_place(settings.label, columns)
    units[encoding.layout.column_of == (-2 if place is None else place)] = 1.0
    return units


def _drawn_labels(trained: Trained, not_drawn: Singles, rows: int, rng: np.random.Generator) -> Singles:
    """Rows × units: the label of each row, drawn by its frequency, and nothing else."""
    found = np.zeros((rows, trained.encoding.layout.width), np.float32)
    frequencies = trained.weights[_FREQUENCIES] * (1.0 - not_drawn)
    if frequencies.any():
        found[np.arange(rows), draw(np.tile(frequencies, (rows, 1)).astype(np.float64), rng)] = 1.0
    return found


def _known_units(encoding: Encoding, rows: Singles, values: Floats, wanted: Bools) -> Bools:
    """Rows × units: those of known cells, and those that say that a cell is missing; no unit of a level never seen."""
    known = encoding.unit_mask(~wanted & ~np.isnan(values))
    for group in encoding.layout.groups:
        span = slice(group.start, group.start + group.units)
        known[:, span] = (rows[:, span].any(axis=1) & ~wanted[:, group.column])[:, np.newaxis]
    return known


def _missing_units(encoding: Encoding) -> Singles:
    """1 for units that stand for missing cells."""
    units = np.zeros(encoding.layout.width, np.float32)
    units[[group.start + group.units - 1 for group in encoding.layout.groups if group.missing]] = 1.0
    return units
