"""The loop that all methods share: batches of labelled and unlabelled rows, steps, averaged weights, early stop."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unpooled.arrays import Bools, Floats, Ints
from unpooled.networks.encoding import Encoding, Layout, Singles
from unpooled.networks.groups import units_of
from unpooled.networks.layers import Weights, adam, blocks, stepped
from unpooled.networks.schedule import Schedule
from unpooled.networks.trained import Shapes, Trained, as_weights
from unpooled.networks.training import (
    EarlyStop,
    Watch,
    chunked,
    key_from,
    shuffled_places,
    train,
    unwatched,
)
from unpooled.semisup.labels import Labels
from unpooled.semisup.method import Batch, Fixed, Form, Given, Memory, cross_entropy, labelled_loss, one_hot
from unpooled.semisup.methods import BY_NAME
from unpooled.semisup.networks import Network, initial, logits_of, with_statistics
from unpooled.semisup.settings import NetworkSettings

EPOCH = 40
"""Steps between two looks at held-out rows, and two reports of progress."""
SHIFT = "prior.shift"
_MOMENTUM = 0.9
_SLOWEST = 7 / 16
"""The learning rate falls by the cosine of so many times π, as FixMatch has it."""


class _State(NamedTuple):
    weights: Weights
    averaged: Weights
    moments: Any
    memory: Memory
    number: Array


@dataclass(frozen=True)
class Task:
    """What is to be learned: labels of rows, and how often either class is among unlabelled ones.

    `risk` says that unlabelled rows are learned by the prior, as no negative is known. `others` are the rows that count
    as unlabelled.
    """

    known: Ints
    others: Ints
    prior: float
    risk: bool


@dataclass(frozen=True)
class Stop:
    """Stop early by the loss on a fraction of the labelled rows, which is then not learned from."""

    fraction: float
    patience: int


def semi_supervised(labels: Labels, prior: float | None) -> Task:
    """Both classes are known; all rows count as unlabelled too, as the papers have it."""
    labelled = labels.known[~labels.unlabelled]
    found = float(labelled.mean()) if prior is None else prior
    return Task(labels.known, np.arange(len(labels.known)), found, risk=False)


def by_prior(labels: Labels, prior: float) -> Task:
    """Positives are known, and how many there are among the others."""
    return Task(labels.known, np.flatnonzero(labels.unlabelled), prior, risk=True)


def by_negatives(labels: Labels, prior: float, fraction: float, rng: np.random.Generator) -> Task:
    """Positives are known, and a random fraction of the other rows counts as negative."""
    others = np.flatnonzero(labels.unlabelled)
    taken = rng.choice(others, max(round(fraction * len(others)), 1), replace=False)
    known = labels.known.copy()
    known[taken] = 0
    return Task(known, others, prior, risk=False)


def network_of(settings: NetworkSettings, layout: Layout) -> Network:
    """The network for rows that are laid out like this."""
    projection = getattr(settings, "projection", 0)
    if settings.network == "mlp":
        return Network("mlp", layout.width, settings.hidden, projection)
    return Network("wrn", layout.width, (), projection, tuple(np.flatnonzero(layout.column_of >= 0).tolist()))


def fit(
    settings: NetworkSettings,
    encoding: Encoding,
    values: Floats,
    task: Task,
    rng: np.random.Generator,
    *,
    stop: Stop | None = None,
    watch: Watch = unwatched,
) -> Trained:
    """Learn from rows; what is kept are the averaged weights."""
    layout, rows = encoding.layout, encoding.encode(values, rng)
    # Steps do not depend on what their number and rate are, so that nothing is compiled twice for these.
    general = settings.model_copy(update={"steps": 1, "learning_rate": 1.0})
    form = Form(BY_NAME[settings.method], general, network_of(settings, layout), task.risk)
    held_out = _held_out(task, stop, rng)
    epoch = min(EPOCH, settings.steps)
    epochs = -(-settings.steps // epoch)
    columns = len(layout.scalars)
    units = units_of(layout)
    chance = np.zeros(len(units.columns), np.float32)
    chance[:columns] = np.floor(settings.corruption * columns + 1e-9) / columns
    prior = np.array([1.0 - task.prior, task.prior], np.float32)
    shift = np.log(np.maximum(2.0 * prior, 1e-6)) if settings.balanced and not task.risk else np.zeros(2)
    fixed = Fixed(
        units,
        jnp.asarray(chance),
        jnp.asarray(prior),
        jnp.asarray(shift, jnp.float32),
        jnp.float32(settings.learning_rate),
        jnp.float32(epochs * epoch),
    )
    weights = initial(form.network, key_from(rng))
    optimiser = _optimiser(settings)
    state = _State(
        weights,
        jax.tree.map(jnp.array, weights),
        optimiser.init(weights),
        form.method.memory(form),
        jnp.float32(0.0),
    )
    done: _State = train(
        settings.method,
        Schedule(epochs, settings.batch_rows, settings.learning_rate),
        _steps,
        form,
        state,
        _batches(settings, rows, task, held_out, epoch),
        fixed,
        rng,
        about={"rows": hashlib.sha256(rows.tobytes()).hexdigest()},
        watch=watch,
        early_stop=_early_stop(form, rows, task, held_out, fixed, stop),
    )
    return Trained(encoding, as_weights({**done.averaged, SHIFT: shift}))


def score(settings: NetworkSettings, trained: Trained, values: Floats) -> Floats:
    """The probability of the second class for each row."""
    rows = trained.encoding.encode(values, np.random.default_rng(0))
    weights = {name: jnp.asarray(array) for name, array in trained.weights.items()}
    network = network_of(settings, trained.encoding.layout)
    found = np.empty(len(rows))
    for block, size in blocks(len(rows)):
        some = np.zeros((size, rows.shape[1]), np.float32)
        some[: block.stop - block.start] = rows[block]
        found[block] = np.asarray(_scored(network, weights, some), np.float64)[: block.stop - block.start]
    return found


def shapes(settings: NetworkSettings, layout: Layout) -> Shapes:
    """The shapes of what is kept."""
    found = jax.eval_shape(lambda: initial(network_of(settings, layout), jax.random.key(0)))
    return {SHIFT: (2,), **{name: tuple(array.shape) for name, array in found.items()}}


@partial(jax.jit, static_argnums=0)
def _scored(network: Network, weights: Weights, rows: Array) -> Array:
    return jax.nn.softmax(logits_of(network, weights, rows) + weights[SHIFT])[:, 1]


def _optimiser(settings: NetworkSettings) -> optax.GradientTransformation:
    return adam() if settings.optimiser == "adam" else optax.trace(_MOMENTUM, nesterov=True)


def _step(form: Form, state: _State, batch: Batch, key: Array, fixed: Fixed) -> tuple[_State, Array]:
    settings, weights, done = form.settings, state.weights, state.number / fixed.steps

    def loss_of(weights: Weights) -> Any:
        return form.method.loss(form, weights, Given(batch, state.averaged, state.memory, key, done, fixed))

    (loss, (memory, statistics)), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
    rate = fixed.rate * jnp.cos(jnp.pi * _SLOWEST * done)
    decayed = {name: settings.decay * weights[name] if name.endswith(".weights") else 0.0 for name in weights}
    if settings.optimiser == "sgd":
        gradients = {name: gradients[name] + decayed[name] for name in weights}
    weights, moments = stepped(_optimiser(settings), weights, state.moments, gradients, rate)
    if settings.optimiser == "adam":
        weights = {name: weights[name] - rate * decayed[name] for name in weights}
    weights = with_statistics(weights, statistics)
    # Young averages forget faster, so that they do not consist of the first weights.
    keep = jnp.minimum(settings.ema, (1.0 + state.number) / (10.0 + state.number))
    averaged = {name: keep * state.averaged[name] + (1.0 - keep) * weights[name] for name in weights}
    return _State(weights, averaged, moments, memory, state.number + 1.0), loss


_steps = chunked(_step)


def _held_out(task: Task, stop: Stop | None, rng: np.random.Generator) -> Bools:
    """Labelled rows to look at only; the same fraction of either class, and of unlabelled rows where these stand in."""
    found = np.zeros(len(task.known), np.bool_)
    if stop is None:
        return found
    parts = [np.flatnonzero(task.known == 1), task.others if task.risk else np.flatnonzero(task.known == 0)]
    for part in parts:
        count = round(stop.fraction * len(part))
        if not 0 < count < len(part):
            raise ValueError(
                f"too few labelled rows to stop early: {len(part)} of a class leave {count} to look at; "
                "label more, or set validation_fraction=0"
            )
        found[rng.choice(part, count, replace=False)] = True
    return found


def _batches(
    settings: NetworkSettings, rows: Singles, task: Task, held_out: Bools, steps: int
) -> Callable[[np.random.Generator], Batch]:
    """An epoch's batches, in which all rows of a kind are equally frequent."""
    size = settings.batch_rows
    ratio = getattr(settings, "unlabelled_ratio", 0)
    positive, negative = (np.flatnonzero((task.known == which) & ~held_out) for which in (1, 0))
    if task.risk:
        negative = task.others[~held_out[task.others]]
    labels = np.where(task.known == 1, 1.0, -1.0 if task.risk else 0.0).astype(np.float32)

    def batches(rng: np.random.Generator) -> Batch:
        if settings.balanced or task.risk:
            halves = [
                shuffled_places(len(part), steps * count, rng).reshape(steps, count)
                for part, count in ((positive, size // 2), (negative, size - size // 2))
            ]
            places = np.concatenate([positive[halves[0]], negative[halves[1]]], axis=1)
        else:
            both = np.concatenate([positive, negative])
            places = both[shuffled_places(len(both), steps * size, rng)].reshape(steps, size)
        drawn = shuffled_places(len(task.others), steps * size * ratio, rng) if ratio else np.empty(0, np.int64)
        others = rows[task.others[drawn]].reshape(steps, size * ratio, rows.shape[1])
        return Batch(rows[places], labels[places], others)  # type: ignore[arg-type]

    return batches


def _early_stop(
    form: Form, rows: Singles, task: Task, held_out: Bools, fixed: Fixed, stop: Stop | None
) -> EarlyStop | None:
    if stop is None:
        return None
    some = jnp.asarray(rows[held_out])
    labels = jnp.asarray(np.where(task.known[held_out] == 1, 1.0, -1.0 if task.risk else 0.0), jnp.float32)
    compiled = jax.jit(lambda weights: _look(form, weights, some, labels, fixed))
    return EarlyStop(lambda state: compiled(state.averaged), stop.patience)


def _look(form: Form, weights: Weights, rows: Array, labels: Array, fixed: Fixed) -> Array:
    logits = logits_of(form.network, weights, rows)
    if form.risk:
        return labelled_loss(form, logits, labels, fixed)
    return cross_entropy(logits + fixed.shift, one_hot(labels)).mean()
