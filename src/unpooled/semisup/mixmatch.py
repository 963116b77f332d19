"""MixMatch (Berthelot, Carlini, Goodfellow, Papernot, Oliver and Raffel, NeurIPS 2019).

The label of an unlabelled row is guessed as the mean over several views, sharpened. Then all rows, with their labels,
are mixed with others in a random proportion, and the network learns the mixtures.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
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
    one_hot,
    taught,
    warmed_up,
    weak_view,
)
from unpooled.semisup.networks import Statistics, logits_of

_VIEWS = 10
_DRAWS, _POINTS = 100_000, 501


def sharpened(found: Array, temperature: float) -> Array:
    """Chances with less doubt.

    >>> [round(float(each), 3) for each in sharpened(jnp.array([0.2, 0.8]), 0.5)]
    [0.059, 0.941]
    """
    powers = found ** (1.0 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


def _larger_share(key: Array, alpha: float, rows: int) -> Array:
    """Draws of a beta distribution, by its quantiles: JAX's own draws take longer than the rest of a step."""
    drawn = np.random.default_rng(0).beta(alpha, alpha, _DRAWS)
    points = np.linspace(0.0, 1.0, _POINTS)
    share = jnp.interp(jax.random.uniform(key, (rows, 1)), points, np.quantile(drawn, points))
    return jnp.maximum(share, 1.0 - share)


def _loss(form: Form, weights: Weights, given: Given) -> tuple[Array, tuple[Memory, Statistics]]:
    settings, batch, fixed, statistics = form.settings, given.batch, given.fixed, Statistics()
    rows, labels = labelled_views(form, given)
    others = jnp.concatenate([weak_view(form, given, batch.others, _VIEWS + view) for view in range(settings.views)])
    found = chances(taught(form, weights, given, others), fixed)
    guessed = sharpened(found.reshape(settings.views, -1, 2).mean(axis=0), settings.temperature)
    guesses = jnp.tile(guessed, (settings.views, 1))
    # Where no negative is known, labelled batches hold unlabelled rows too, which have no label to mix: these batches
    # are learned as they are, and unlabelled rows are mixed among themselves.
    everything = others if form.risk else jnp.concatenate([rows, others])
    targets = guesses if form.risk else jnp.concatenate([one_hot(labels), guesses])
    one, two = jax.random.split(jax.random.fold_in(given.key, 2))
    order = jax.random.permutation(one, everything.shape[0])
    own = _larger_share(two, settings.alpha, everything.shape[0])
    mixed = own * everything + (1.0 - own) * everything[order]
    wanted = own * targets + (1.0 - own) * targets[order]
    if form.risk:
        mixed = jnp.concatenate([rows, mixed])
    logits = logits_of(form.network, weights, mixed, statistics)
    of_rows, of_others = jnp.split(logits, [len(rows)])
    if form.risk:
        labelled = labelled_loss(form, of_rows, labels, fixed)
    else:
        labelled = cross_entropy(of_rows, wanted[: len(rows)]).mean()
    unlabelled = jnp.mean((chances(of_others, fixed) - wanted[-len(others) :]) ** 2)
    return labelled + warmed_up(settings, given.done) * unlabelled, ((), statistics)


MIXMATCH = Method(_loss, nothing)
