"""FixMatch (Sohn, Berthelot, Li, Zhang, Carlini, Cubuk, Kurakin, Zhang and Raffel, NeurIPS 2020).

The likeliest class of a weak view, if it is likely enough, is the label of a strong view of the same row.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from unpooled.networks.layers import Weights
from unpooled.semisup.method import (
    Form,
    Given,
    Memory,
    Method,
    chances,
    cross_entropy,
    labelled_loss,
    labelled_views,
    nothing,
    seen,
    strong_view,
    taught,
    warmed_up,
    weak_view,
)
from unpooled.semisup.networks import Statistics, logits_of


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    batch, fixed, statistics = given.batch, given.fixed, Statistics()
    rows, labels = labelled_views(form, given)
    found = chances(taught(form, weights, given, weak_view(form, given, batch.others, 2)), fixed)
    strong = strong_view(form, given, batch.others, 3)
    logits = logits_of(form.network, weights, jnp.concatenate([rows, strong]), statistics)
    of_rows, of_others = jnp.split(logits, [len(rows)])
    sure = found.max(axis=-1) >= form.settings.threshold
    targets = jax.nn.one_hot(found.argmax(axis=-1), 2)
    unlabelled = jnp.mean(sure * cross_entropy(seen(of_others, fixed), targets))
    loss = labelled_loss(form, of_rows, labels, fixed)
    return loss + warmed_up(form.settings, given.done) * unlabelled, ((), statistics)


FIXMATCH = Method(_loss, nothing)
