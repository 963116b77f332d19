"""The network on labelled rows alone: the reference that methods with unlabelled rows are measured against."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from unpooled.networks.layers import Weights
from unpooled.semisup.method import Form, Given, Memory, Method, labelled_loss, nothing, strong_view, weak_view
from unpooled.semisup.networks import Statistics, logits_of


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    rows, statistics = given.batch.rows, Statistics()
    views = [weak_view(form, given, rows, 1)] if form.settings.view != "strong" else []
    views += [strong_view(form, given, rows, 2)] if form.settings.view != "weak" else []
    labels = jnp.tile(given.batch.labels, len(views))
    logits = logits_of(form.network, weights, jnp.concatenate(views), statistics)
    return labelled_loss(form, logits, labels, given.fixed), ((), statistics)


SUPERVISED = Method(_loss, nothing)
