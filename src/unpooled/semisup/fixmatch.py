"""FixMatch (Sohn, Berthelot, Li, Zhang, Carlini, Cubuk, Kurakin, Zhang and Raffel, NeurIPS 2020).

The likeliest class of a weak view, if it is likely enough, is the label of a strong view of the same row.
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
    weak_view,
)
from unpooled.semisup.networks import Statistics


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    others = given.batch.others
    weak, strong = weak_view(form, given, others, 2), strong_view(form, given, others, 3)
    return loss_with_sure_rows(form, weights, given, weak, strong)


FIXMATCH = Method(_loss, nothing)
