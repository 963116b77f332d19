"""Pseudo-labelling (Lee, Pseudo-Label, ICML workshop 2013).

Unlabelled rows count with the class that is likeliest now, if that is likely enough, by a weight that rises. The label
is that of the row as it is, and a view with noise learns it, where the paper has dropout.
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
)
from unpooled.semisup.networks import Statistics, logits_of


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    batch, fixed, statistics = given.batch, given.fixed, Statistics()
    (rows, labels), others = labelled_views(form, given), strong_view(form, given, batch.others, 2)
    found = chances(taught(form, weights, given, batch.others), fixed)
    logits = logits_of(form.network, weights, jnp.concatenate([rows, others]), statistics)
    of_rows, of_others = jnp.split(logits, [len(rows)])
    sure = found.max(axis=-1) >= form.settings.threshold
    targets = jax.nn.one_hot(found.argmax(axis=-1), 2)
    unlabelled = jnp.mean(sure * cross_entropy(seen(of_others, fixed), targets))
    loss = labelled_loss(form, of_rows, labels, fixed)
    return loss + warmed_up(form.settings, given.done) * unlabelled, ((), statistics)


PSEUDO_LABEL = Method(_loss, nothing)
