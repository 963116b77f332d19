"""SoftMatch (Chen, Tao, Fan, Wang, Wang, Schiele, Xie, Raj and Savvides, ICLR 2023).

As FixMatch, but every unlabelled row counts, with a weight by its confidence: 1 above the mean confidence, and below it
a Gaussian whose variance is that of confidences. Before rows are weighted, predictions are moved to equal parts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unpooled.networks.layers import Weights
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
    seen,
    strong_view,
    taught,
    warmed_up,
    weak_view,
)
from unpooled.semisup.networks import Statistics, logits_of


class _Confidences(NamedTuple):
    """Averages over steps: mean and variance of confidences, and the mean prediction."""

    mean: Array
    variance: Array
    prediction: Array


def _unknown(_: Form) -> _Confidences:
    return _Confidences(jnp.float32(0.5), jnp.float32(1.0), jnp.full(2, 0.5))


def weights_of(confidence: Array, mean: Array, variance: Array, divisor: float) -> Array:
    """How much rows count.

    >>> found = weights_of(jnp.array([0.9, 0.8, 0.6]), jnp.float32(0.8), jnp.float32(0.04), 4.0)
    >>> [round(float(each), 3) for each in found]
    [1.0, 1.0, 0.135]
    """
    below = jnp.minimum(confidence - mean, 0.0)
    return jnp.exp(-(below**2) / (2.0 * variance / divisor + 1e-8))


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    settings, batch, fixed, statistics = form.settings, given.batch, given.fixed, Statistics()
    rows, labels = labelled_views(form, given)
    found = chances(taught(form, weights, given, weak_view(form, given, batch.others, 2)), fixed)
    strong = strong_view(form, given, batch.others, 3)
    logits = logits_of(form.network, weights, jnp.concatenate([rows, strong]), statistics)
    of_rows, of_others = jnp.split(logits, [len(rows)])

    number = given.done * fixed.steps
    keep = jnp.minimum(settings.memory, (1.0 + number) / (10.0 + number))
    prediction = keep * given.memory.prediction + (1 - keep) * found.mean(axis=0)
    moved = found
    if settings.align != "no":
        wanted = fixed.prior if settings.align == "prior" else jnp.full(2, 0.5)
        moved = aligned(found, prediction, wanted)
    confidence = moved.max(axis=-1)
    mean = keep * given.memory.mean + (1 - keep) * confidence.mean()
    variance = keep * given.memory.variance + (1 - keep) * confidence.var(ddof=1)
    weight = weights_of(confidence, mean, variance, settings.variance_divisor)

    targets = jax.nn.one_hot(found.argmax(axis=-1), 2)
    unlabelled = jnp.mean(weight * cross_entropy(seen(of_others, fixed), targets))
    loss = labelled_loss(form, of_rows, labels, fixed)
    memory = _Confidences(mean, variance, prediction)
    return loss + warmed_up(settings, given.done) * unlabelled, (jax.lax.stop_gradient(memory), statistics)


SOFTMATCH = Method(_loss, _unknown)
