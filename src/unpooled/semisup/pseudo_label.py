"""Pseudo-labelling (Lee, Pseudo-Label, ICML workshop 2013).

Unlabelled rows count with the class that is likeliest now, if that is likely enough, by a weight that rises. The label
is that of the row as it is, and a view with noise learns it, where the paper has dropout.
"""

from __future__ import annotations

from jax import Array

from unpooled.networks.layers import Weights
from unpooled.semisup.method import (
    Form,
    Given,
    Memory,
    Method,
    loss_with_sure_rows,
    nothing,
    strong_view,
)
from unpooled.semisup.networks import Statistics


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    others = given.batch.others
    return loss_with_sure_rows(form, weights, given, others, strong_view(form, given, others, 2))


PSEUDO_LABEL = Method(_loss, nothing)
