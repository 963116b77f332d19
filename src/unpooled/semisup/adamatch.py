"""AdaMatch (Berthelot, Roelofs, Sohn, Carlini and Kurakin, ICLR 2022), for rows from one source.

As FixMatch, with labels moved towards the mean prediction on labelled rows, a threshold relative to the confidence on
these, and both views of them learned. Logits of labelled rows are interpolated at random between those by a batch of
their own and those by the whole batch; that is only for networks with batch statistics, as others give the same twice.
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
    weak_view,
)
from unpooled.semisup.networks import Statistics, logits_of


class _Means(NamedTuple):
    """Averages of predictions on labelled and on unlabelled rows."""

    labelled: Array
    unlabelled: Array


def _even(_: Form) -> _Means:
    return _Means(jnp.full(2, 0.5), jnp.full(2, 0.5))


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    settings, batch, fixed, statistics = form.settings, given.batch, given.fixed, Statistics()
    rows, labels = labelled_views(form, given)
    strong_others = strong_view(form, given, batch.others, 4)
    logits = logits_of(form.network, weights, jnp.concatenate([rows, strong_others]), statistics)
    of_rows, of_others = jnp.split(logits, [len(rows)])
    if form.network.by_batch:
        alone = logits_of(form.network, weights, rows, {})
        share = jax.random.uniform(jax.random.fold_in(given.key, 6), alone.shape)
        of_rows = share * of_rows + (1.0 - share) * alone

    found = chances(taught(form, weights, given, weak_view(form, given, batch.others, 3)), fixed)
    on_labelled = chances(taught(form, weights, given, rows[: len(batch.rows)]), fixed)
    known = batch.labels >= 0
    sure_of_labelled = jnp.sum(known * on_labelled.max(axis=-1)) / jnp.maximum(known.sum(), 1)
    keep = jnp.minimum(settings.distribution_ema, (1.0 + given.done * fixed.steps) / (10.0 + given.done * fixed.steps))
    # Labelled batches that are balanced, or of positives alone, say nothing of the frequencies: the prior does.
    source = fixed.prior if settings.balanced or form.risk else on_labelled.mean(axis=0)
    memory = _Means(
        keep * given.memory.labelled + (1 - keep) * source,
        keep * given.memory.unlabelled + (1 - keep) * found.mean(axis=0),
    )
    moved = aligned(found, memory.unlabelled, memory.labelled)
    sure = moved.max(axis=-1) >= settings.threshold * sure_of_labelled
    targets = jax.nn.one_hot(moved.argmax(axis=-1), 2)
    unlabelled = jnp.mean(sure * cross_entropy(seen(of_others, fixed), targets))
    rise = 0.5 - 0.5 * jnp.cos(jnp.minimum(jnp.pi, jnp.pi * given.done / settings.warm_up)) if settings.warm_up else 1.0
    loss = labelled_loss(form, of_rows, labels, fixed) + settings.unlabelled_weight * rise * unlabelled
    return loss, (jax.lax.stop_gradient(memory), statistics)


ADAMATCH = Method(_loss, _even)
