"""Layers and steps of training that generators share; weights are arrays by name, `layer.0.weights` and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import optax
from jax import Array

Weights = dict[str, Array]

_SIZES = (256, 2_048, 10_000)
_SEVERAL = 3
"""So many blocks of the middle size are padded less than one of the largest."""


def dense_layers(key: Array, name: str, sizes: Sequence[int]) -> Weights:
    """Weights of layers from each size to the next, drawn uniformly within 1 / √inputs."""
    weights: Weights = {}
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        one, two, key = jax.random.split(key, 3)
        bound = inputs**-0.5
        weights[f"{name}.{number}.weights"] = jax.random.uniform(one, (inputs, outputs), jnp.float32, -bound, bound)
        weights[f"{name}.{number}.bias"] = jax.random.uniform(two, (outputs,), jnp.float32, -bound, bound)
    return weights


def dense(weights: Weights, name: str, number: int, inputs: Array) -> Array:
    """One layer."""
    return inputs @ weights[f"{name}.{number}.weights"] + weights[f"{name}.{number}.bias"]


def through(
    weights: Weights, name: str, inputs: Array, layers: int, activation: Callable[[Array], Array] = jax.nn.relu
) -> Array:
    """Several layers, with an activation after each."""
    for number in range(layers):
        inputs = activation(dense(weights, name, number, inputs))
    return inputs


def adam(decay: float = 0.0, b1: float = 0.9, b2: float = 0.999) -> optax.GradientTransformation:
    """Adam without its learning rate, which `stepped` is given; decay is added to gradients, as the papers do."""
    parts = [optax.add_decayed_weights(decay)] if decay else []
    return optax.chain(*parts, optax.scale_by_adam(b1=b1, b2=b2))


def stepped(
    optimiser: optax.GradientTransformation, weights: Weights, moments: optax.OptState, gradients: Weights, rate: Array
) -> tuple[Weights, optax.OptState]:
    """Weights and the optimiser's state after one step."""
    changes, moments = optimiser.update(gradients, moments, weights)
    return {name: weights[name] - rate * changes[name] for name in weights}, moments


def blocks(rows: int) -> Iterator[tuple[slice, int]]:
    """Blocks of at most 10,000 rows, and the size that each is padded to: one of few, so that few are compiled.

    >>> [(block.start, block.stop, size) for block, size in blocks(2500)]
    [(0, 2048, 2048), (2048, 2500, 2048)]
    """
    small, middle, large = _SIZES
    start = 0
    while start < rows:
        left = rows - start
        size = small if left <= small else middle if left <= _SEVERAL * middle else large
        yield slice(start, min(start + size, rows)), size
        start += size
