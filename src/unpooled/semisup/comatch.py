"""CoMatch (Li, Xiong and Hoi, ICCV 2021).

Labels of weak views are smoothed by those of rows that are near as embeddings, from a queue of earlier batches. One
strong view learns them, as in FixMatch; and embeddings of two strong views learn to be near where labels agree.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unpooled.networks.layers import Weights, dense
from unpooled.semisup.method import (
    Form,
    Given,
    Memory,
    Method,
    aligned,
    chances,
    cross_entropy,
    labelled_loss,
    labelled_views,
    one_hot,
    seen,
    strong_view,
    warmed_up,
    weak_view,
)
from unpooled.semisup.networks import Statistics, embedded, features_of

_KEPT = 0.97
"""How much the mean prediction keeps in a step: the paper has the mean of the last 32."""


class _Queue(NamedTuple):
    """Embeddings and chances of earlier rows, the newest first; how many steps there were; the mean prediction."""

    embeddings: Array
    chances: Array
    steps: Array
    mean: Array


def _empty(form: Form) -> _Queue:
    settings = form.settings
    size = settings.queue * settings.batch_rows * ((2 if settings.view == "both" else 1) + settings.unlabelled_ratio)
    both = jnp.full((size, 2), 0.5, jnp.float32)
    return _Queue(jnp.zeros((size, settings.projection), jnp.float32), both, jnp.float32(0.0), jnp.full(2, 0.5))


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    settings, batch, fixed, queue = form.settings, given.batch, given.fixed, given.memory
    statistics = Statistics()
    rows, labels = labelled_views(form, given)
    found, embeddings = _labels(form, weights, given, rows, weak_view(form, given, batch.others, 2))
    of_others = found[len(rows) :]
    mean = _KEPT * queue.mean + (1 - _KEPT) * of_others.mean(axis=0)
    # Between classes that are not equally frequent, labels are moved to the prior, where the paper has equal parts.
    of_others = aligned(of_others, mean / mean.sum(), fixed.prior)
    near = jax.nn.softmax(embeddings[len(rows) :] @ queue.embeddings.T / settings.temperature)
    smoothed = settings.smoothing * of_others + (1 - settings.smoothing) * near @ queue.chances
    targets = jnp.where(queue.steps >= settings.queue, smoothed, of_others)

    first, second = (strong_view(form, given, batch.others, number) for number in (3, 4))
    together = jnp.concatenate([rows, first, second])
    features = features_of(form.network, weights, together, statistics)
    logits = dense(weights, "head", 0, features[: len(rows) + len(first)])
    sure = targets.max(axis=-1) >= settings.threshold
    unlabelled = jnp.mean(sure * cross_entropy(seen(logits[len(rows) :], fixed), targets))
    one, two = jnp.split(embedded(weights, features[len(rows) :]), 2)
    contrast = _contrast(one @ two.T / settings.temperature, targets, settings.contrast)

    loss = labelled_loss(form, logits[: len(rows)], labels, fixed)
    loss += warmed_up(settings, given.done) * (unlabelled + settings.contrast_weight * contrast)
    known = jnp.where(labels[:, jnp.newaxis] >= 0, one_hot(labels), found[: len(rows)])
    kept = len(queue.chances)
    memory = _Queue(
        jnp.concatenate([embeddings, queue.embeddings])[:kept],
        jnp.concatenate([known, of_others, queue.chances])[:kept],
        queue.steps + 1,
        mean,
    )
    return loss, (jax.lax.stop_gradient(memory), statistics)


def _labels(form: Form, weights: Weights, given: Given, rows: Array, others: Array) -> tuple[Array, Array]:
    """Chances and embeddings of weak views, without a gradient."""
    teacher = given.teacher if form.settings.teacher == "ema" else weights
    features = features_of(form.network, teacher, jnp.concatenate([rows, others]), {})
    found = chances(dense(teacher, "head", 0, features), given.fixed), embedded(teacher, features)
    return jax.lax.stop_gradient(found)


def _contrast(alike: Array, targets: Array, least: float) -> Array:
    """The cross entropy between the graph of labels and that of embeddings; a row is always like itself."""
    graph = targets @ targets.T
    graph = jnp.where(jnp.eye(len(graph)) > 0, 1.0, jnp.where(graph >= least, graph, 0.0))
    return cross_entropy(alike, graph / graph.sum(axis=-1, keepdims=True)).mean()


COMATCH = Method(_loss, _empty)
