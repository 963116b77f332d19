"""The networks: dense layers, and WRN-28-2 (Zagoruyko and Komodakis 2016) with a row as a one-dimensional signal.

Weights are arrays by name. Where a network has batch statistics, these are among its weights, as `….mean` and
`….variance`: a forward pass of training takes those of its batch and tells them, any other one takes the weights'.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.networks.layers import Weights, dense, dense_layers, through

_WIDTHS = (16, 32, 64, 128)
_BLOCKS = 4
"""28 layers: three groups of four blocks of two convolutions, and four more; twice as wide as a plain one."""
_TAPS = 3
_SLOPE = 0.1
_KEPT = 0.9
_LEAST = 1e-5

Statistics = dict[str, Array]
"""Means and variances of a batch, by the names of the weights that they belong to."""


@dataclass(frozen=True)
class Network:
    """A network's form: of which kind, for rows of so many units; `projection` numbers of an embedding, or 0.

    `used` are the units that the signal of `wrn` consists of: padding, which costs dense layers nothing to speak of,
    would lengthen it.
    """

    kind: Literal["mlp", "wrn"]
    width: int
    hidden: tuple[int, ...]
    projection: int = 0
    used: tuple[int, ...] = ()

    @property
    def features(self) -> int:
        """How many numbers the last layer sees."""
        return _WIDTHS[-1] if self.kind == "wrn" else self.hidden[-1]

    @property
    def by_batch(self) -> bool:
        """Whether what it says of a row depends on the batch in training."""
        return self.kind == "wrn"


def initial(network: Network, key: Array) -> Weights:
    """New weights."""
    one, two, three = jax.random.split(key, 3)
    weights = dense_layers(one, "head", [network.features, 2])
    if network.kind == "mlp":
        weights |= dense_layers(two, "layer", [network.width, *network.hidden])
    else:
        weights |= _wide_residual(two)
    if network.projection:
        weights |= dense_layers(three, "projection", [network.features, network.features, network.projection])
    return weights


def features_of(network: Network, weights: Weights, rows: Array, statistics: Statistics | None = None) -> Array:
    """What the last layer sees of rows; statistics of the batch are used, and put there, if there is a place."""
    if network.kind == "mlp":
        return through(weights, "layer", rows, len(network.hidden))
    return _through_blocks(weights, rows[:, np.array(network.used)], statistics)


def logits_of(network: Network, weights: Weights, rows: Array, statistics: Statistics | None = None) -> Array:
    """Rows × two classes."""
    return dense(weights, "head", 0, features_of(network, weights, rows, statistics))


def embedded(weights: Weights, features: Array) -> Array:
    """Embeddings of length 1."""
    found = dense(weights, "projection", 1, jax.nn.relu(dense(weights, "projection", 0, features)))
    length = jnp.sqrt(jnp.sum(found**2, axis=-1, keepdims=True) + 1e-12)
    return found / length


def with_statistics(weights: Weights, statistics: Statistics) -> Weights:
    """Weights whose means and variances have moved towards those of a batch."""
    return weights | {name: _KEPT * weights[name] + (1 - _KEPT) * batch for name, batch in statistics.items()}


def _wide_residual(key: Array) -> Weights:
    weights = _convolution(jax.random.fold_in(key, 0), "stem", _TAPS, 1, _WIDTHS[0])
    for group, (inputs, outputs) in enumerate(pairwise(_WIDTHS)):
        for block in range(_BLOCKS):
            name, before = f"block.{group}.{block}", inputs if block == 0 else outputs
            one, two, three = jax.random.split(jax.random.fold_in(key, 1 + group * _BLOCKS + block), 3)
            weights |= _convolution(one, f"{name}.first", _TAPS, before, outputs) | _norm(f"{name}.first", before)
            weights |= _convolution(two, f"{name}.second", _TAPS, outputs, outputs) | _norm(f"{name}.second", outputs)
            if block == 0:
                weights |= _convolution(three, f"{name}.shortcut", 1, before, outputs)
    return weights | _norm("last", _WIDTHS[-1])


def _convolution(key: Array, name: str, taps: int, inputs: int, outputs: int) -> Weights:
    spread = (2.0 / (taps * outputs)) ** 0.5
    return {f"{name}.weights": spread * jax.random.normal(key, (taps * inputs, outputs), jnp.float32)}


def _norm(name: str, channels: int) -> Weights:
    begin = {"scale": 1.0, "shift": 0.0, "mean": 0.0, "variance": 1.0}
    return {f"{name}.{part}": jnp.full(channels, value, jnp.float32) for part, value in begin.items()}


def _through_blocks(weights: Weights, rows: Array, statistics: Statistics | None) -> Array:
    signal = _convolved(weights, "stem", rows[:, :, jnp.newaxis], 1)
    for group in range(len(_WIDTHS) - 1):
        for block in range(_BLOCKS):
            name, stride = f"block.{group}.{block}", 2 if group and not block else 1
            active = _normed(weights, f"{name}.first", signal, statistics)
            around = active[:, ::stride] @ weights[f"{name}.shortcut.weights"] if block == 0 else signal
            active = _convolved(weights, f"{name}.first", active, stride)
            active = _normed(weights, f"{name}.second", active, statistics)
            signal = around + _convolved(weights, f"{name}.second", active, 1)
    return _normed(weights, "last", signal, statistics).mean(axis=1)


def _convolved(weights: Weights, name: str, signal: Array, stride: int) -> Array:
    """As one product of matrices, which a processor does much faster than JAX's convolution."""
    length = signal.shape[1]
    padded = jnp.pad(signal, ((0, 0), (1, 1), (0, 0)))
    shifted = jnp.concatenate([padded[:, tap : tap + length : stride] for tap in range(_TAPS)], axis=-1)
    return shifted @ weights[f"{name}.weights"]


def _normed(weights: Weights, name: str, signal: Array, statistics: Statistics | None) -> Array:
    """Normalised by channel, and leaky where negative."""
    mean, variance = weights[f"{name}.mean"], weights[f"{name}.variance"]
    if statistics is not None:
        mean, variance = signal.mean(axis=(0, 1)), signal.var(axis=(0, 1))
        statistics |= {f"{name}.mean": mean, f"{name}.variance": variance}
    scaled = (signal - mean) * jax.lax.rsqrt(variance + _LEAST)
    return jax.nn.leaky_relu(scaled * weights[f"{name}.scale"] + weights[f"{name}.shift"], _SLOPE)
