"""What a semi-supervised method is: its loss, and what it remembers from step to step; and what methods share.

Networks give two logits for a row. `seen` are these shifted by the class prior if labelled batches are balanced: then
the network itself learns from as many rows of either class, and whatever looks at unlabelled rows, or predicts, sees
the frequencies that these have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unpooled.networks.groups import Units
from unpooled.networks.layers import Weights
from unpooled.semisup import augmenting
from unpooled.semisup.networks import Network, Statistics, logits_of
from unpooled.semisup.settings import UnlabelledSettings

Memory = Any
"""Arrays that a method keeps from one step to the next."""


class Batch(NamedTuple):
    """Rows of a step; labels are 1 and 0, or 1 and -1 where known positives stand beside unlabelled rows."""

    rows: Array
    labels: Array
    others: Array


class Fixed(NamedTuple):
    """What all steps have in common."""

    units: Units
    chance: Array
    """Columns: how likely a strong view draws a cell from another row."""
    prior: Array
    """The fraction of either class among unlabelled rows."""
    shift: Array
    """What is added to logits to see the prior."""
    rate: Array
    steps: Array


class Given(NamedTuple):
    """What a loss is computed from besides weights."""

    batch: Batch
    teacher: Weights
    memory: Memory
    key: Array
    done: Array
    """The fraction of the steps that is done."""
    fixed: Fixed


Loss = Callable[["Form", Weights, Given], tuple[Array, tuple[Memory, Statistics]]]


@dataclass(frozen=True)
class Method:
    """A method: its loss, and the memory that it begins with."""

    loss: Loss
    memory: Callable[[Form], Memory]


@dataclass(frozen=True)
class Form:
    """What is fixed when a step is compiled: `risk` says that labels are of known positives and unlabelled rows."""

    method: Method
    settings: Any
    network: Network
    risk: bool


def nothing(_: Form) -> Memory:
    """For methods that remember nothing."""
    return ()


def seen(logits: Array, fixed: Fixed) -> Array:
    """Logits with the frequencies of unlabelled rows."""
    return logits + fixed.shift


def chances(logits: Array, fixed: Fixed) -> Array:
    """The probability of either class among unlabelled rows."""
    return jax.nn.softmax(seen(logits, fixed))


def cross_entropy(logits: Array, targets: Array) -> Array:
    """Of each row; targets are chances of either class."""
    return -jnp.sum(jax.nn.log_softmax(logits) * targets, axis=-1)


def one_hot(labels: Array) -> Array:
    """Labels 0 and 1 as chances."""
    return jax.nn.one_hot(labels.astype(jnp.int32), 2)


def labelled_loss(form: Form, logits: Array, labels: Array, fixed: Fixed) -> Array:
    """The loss on labelled rows.

    Where no negative is known it is the risk of Kiryo and others (NeurIPS 2017): unlabelled rows count as negative,
    less what positives among them, by the prior, contribute; that difference is never negative.
    """
    if not form.risk:
        return cross_entropy(logits, one_hot(labels)).mean()
    known = labels > 0
    as_negative, as_positive = -jax.nn.log_softmax(logits).T
    count = jnp.maximum(known.sum(), 1)
    prior, rest = fixed.prior[1], jnp.maximum((~known).sum(), 1)
    positive = jnp.sum(known * as_positive) / count
    negative = jnp.sum(~known * as_negative) / rest - prior * jnp.sum(known * as_negative) / count
    return prior * positive + jnp.maximum(negative, 0.0)


def warmed_up(settings: UnlabelledSettings, done: Array) -> Array:
    """The weight of the loss on unlabelled rows."""
    rise = jnp.minimum(done / settings.warm_up, 1.0) if settings.warm_up else jnp.float32(1.0)
    return settings.unlabelled_weight * rise


def taught(form: Form, weights: Weights, given: Given, rows: Array) -> Array:
    """The logits of rows by whoever labels unlabelled rows; no gradient goes through them."""
    teacher = given.teacher if form.settings.teacher == "ema" else weights
    return jax.lax.stop_gradient(logits_of(form.network, teacher, rows, {}))


def weak_view(form: Form, given: Given, rows: Array, number: int) -> Array:
    """A weak view; views of different numbers are drawn independently."""
    return augmenting.weak(form.settings, rows, jax.random.fold_in(given.key, number), given.fixed.units)


def strong_view(form: Form, given: Given, rows: Array, number: int) -> Array:
    """A strong view; cells are drawn from unlabelled rows if there are any."""
    pool = given.batch.others if given.batch.others.shape[0] else given.batch.rows
    key = jax.random.fold_in(given.key, number)
    return augmenting.strong(form.settings, rows, key, given.fixed.units, given.fixed.chance, pool)


def labelled_views(form: Form, given: Given) -> tuple[Array, Array]:
    """The views of labelled rows that are learned, weak ones first, and their labels."""
    rows, view = given.batch.rows, form.settings.view
    views = [weak_view(form, given, rows, 1)] if view != "strong" else []
    views += [strong_view(form, given, rows, 5)] if view != "weak" else []
    return jnp.concatenate(views), jnp.tile(given.batch.labels, len(views))


def aligned(found: Array, now: Array, wanted: Array) -> Array:
    """Chances moved so that their mean, which is `now`, becomes what is wanted."""
    moved = found * (wanted / jnp.maximum(now, 1e-6))
    return moved / jnp.sum(moved, axis=-1, keepdims=True)


def loss_with_sure_rows(
    form: Form, weights: Weights, given: Given, asked: Array, view: Array
) -> tuple[Array, tuple[Memory, Statistics]]:
    """The loss of labelled rows, and of a view of unlabelled ones whose label is the likeliest class of what is asked.

    Rows whose class is not likely enough do not count.
    """
    fixed, statistics = given.fixed, Statistics()
    rows, labels = labelled_views(form, given)
    found = chances(taught(form, weights, given, asked), fixed)
    logits = logits_of(form.network, weights, jnp.concatenate([rows, view]), statistics)
    of_rows, of_view = jnp.split(logits, [len(rows)])
    sure = found.max(axis=-1) >= form.settings.threshold
    targets = jax.nn.one_hot(found.argmax(axis=-1), 2)
    unlabelled = jnp.mean(sure * cross_entropy(seen(of_view, fixed), targets))
    loss = labelled_loss(form, of_rows, labels, fixed)
    return loss + warmed_up(form.settings, given.done) * unlabelled, ((), statistics)
