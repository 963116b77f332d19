"""The network on labelled rows alone: the reference that methods with unlabelled rows are measured against."""

from __future__ import annotations

from jax import Array

from unpooled.networks.layers import Weights
from unpooled.semisup.method import Form, Given, Memory, Method, labelled_loss, labelled_views, nothing
from unpooled.semisup.networks import Statistics, logits_of


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    statistics = Statistics()
    rows, labels = labelled_views(form, given)
    logits = logits_of(form.network, weights, rows, statistics)
    return labelled_loss(form, logits, labels, given.fixed), ((), statistics)


SUPERVISED = Method(_loss, nothing)
