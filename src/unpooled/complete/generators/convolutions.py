"""Rows as square images, and the convolutional networks that make and judge them (Radford, Metz and Chintala 2016).

A convolution here halves the side of an image, its kernel being 4 x 4 pixels, and a transposed one doubles it. On a
processor, XLA is fast at the first; at the second, for the smallest images, and at derivatives of kernels it is 20 to
50 times slower than the matrix products that are written out here. Images have no border, the last row of pixels being
above the first one: all units of a row count alike, those in corners too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
from jax import Array

from unpooled.networks.layers import Weights, dense, dense_layers

_KERNEL = 4
_SLOPE = 0.2
SETTLING = (10, 500)
"""Statistics for drawing are taken from so many batches of so many rows."""
_NEARLY_NOTHING = 1e-5


@dataclass(frozen=True)
class Image:
    """The side of square rows, and the filters of the convolution that is nearest to them; each next has twice as many.

    A side is 2 or 3 times a power of 2, so that it can be halved down to that.
    """

    side: int
    filters: int

    @property
    def halvings(self) -> int:
        """How often the side is halved."""
        return (self.side // 2).bit_length() - 1

    @property
    def smallest(self) -> int:
        """The side in the end."""
        return self.side >> self.halvings

    @property
    def channels(self) -> list[int]:
        """The channels after each halving."""
        return [self.filters << number for number in range(self.halvings)]

    @property
    def hidden(self) -> int:
        """How many features describe the whole image."""
        return self.filters << self.halvings


def side_for(units: int) -> int:
    """The smallest side of a square with room for so many units.

    >>> [side_for(units) for units in (1, 16, 17, 36, 37, 144, 145, 300)]
    [4, 4, 6, 6, 8, 12, 16, 24]
    """
    side = 4
    while side * side < units:
        side = side // 2 * 3 if side.bit_count() == 1 else side // 3 * 4
    return side


def as_square(rows: Array, side: int) -> Array:
    """Rows of units as images of one channel, filled up with zeros."""
    filled = jnp.pad(rows, ((0, 0), (0, side * side - rows.shape[1])))
    return filled.reshape(len(rows), side, side, 1)


def as_rows(images: Array, units: int) -> Array:
    """The units of images of one channel."""
    return images.reshape(len(images), -1)[:, :units]


def _plain(images: Array, kernel: Array) -> Array:
    wrapped = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap")
    return jax.lax.conv_general_dilated(wrapped, kernel, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@jax.custom_vjp
def halved(images: Array, kernel: Array) -> Array:
    """A convolution: images are rows x side x side x channels, kernels 4 x 4 x channels x new channels."""
    return _plain(images, kernel)


def _halved_forward(images: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return _plain(images, kernel), (images, kernel)


def _halved_backward(used: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    images, kernel = used
    rows, side, _, channels = images.shape
    half, new = side // 2, kernel.shape[-1]
    # As `doubled` does it: blocks of 2 x 2 pixels, moved by one block or not.
    blocks = jnp.roll(images, (1, 1), (1, 2)).reshape(rows, half, 2, half, 2, channels)
    blocks = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(rows, half, half, 4 * channels)
    quarters = [
        jnp.roll(blocks, (-down, -right), (1, 2)).reshape(-1, 4 * channels).T @ gradient.reshape(-1, new)
        for down in (0, 1)
        for right in (0, 1)
    ]
    of_kernel = jnp.stack(quarters).reshape(2, 2, 2, 2, channels, new).transpose(0, 2, 1, 3, 4, 5)
    return doubled(gradient, kernel.swapaxes(2, 3)), of_kernel.reshape(kernel.shape)


halved.defvjp(_halved_forward, _halved_backward)


def doubled(images: Array, kernel: Array) -> Array:
    """A transposed convolution: each pixel adds its multiple of the kernel to the 4 x 4 pixels around its own 2 x 2."""
    rows, side, _, channels = images.shape
    new = kernel.shape[-1]
    # Quarters of the kernel are 2 x 2 pixels: what each adds is whole blocks, moved by one block or not.
    quarters = kernel.reshape(2, 2, 2, 2, channels, new).transpose(4, 0, 2, 1, 3, 5).reshape(channels, -1)
    added = (images.reshape(-1, channels) @ quarters).reshape(rows, side, side, 2, 2, 4 * new)
    moved = [jnp.roll(added[:, :, :, down, right], (down, right), (1, 2)) for down in (0, 1) for right in (0, 1)]
    total = sum(moved[1:], moved[0]).reshape(rows, side, side, 2, 2, new)
    pixels = total.transpose(0, 1, 3, 2, 4, 5).reshape(rows, 2 * side, 2 * side, new)
    return jnp.roll(pixels, (-1, -1), (1, 2))


def generator_layers(key: Array, image: Image, inputs: int) -> Weights:
    """Weights of a network that turns inputs into images of one channel."""
    widest, smallest = image.channels[-1], image.smallest
    one, two = jax.random.split(key)
    weights = dense_layers(one, "generator.dense", [inputs, image.hidden, smallest * smallest * widest])
    weights |= _kernels(two, "generator", [*reversed(image.channels), 1], fan=4)
    for number, channels in enumerate([image.hidden, *reversed(image.channels)]):
        weights |= _norm(f"generator.norm.{number}", channels)
    return weights


def generated(
    weights: Weights, image: Image, inputs: Array, statistics: Mapping[str, Array] | None = None
) -> tuple[Array, Weights]:
    """Images, and the statistics that its layers were normalised with: the rows' own unless some are given."""
    own: Weights = {}

    def normal(number: int, raw: Array) -> Array:
        name = f"generator.norm.{number}"
        if statistics is None:
            own[f"{name}.mean"], own[f"{name}.variance"] = _moments(raw)
        known = own if statistics is None else statistics
        return jax.nn.relu(_normalised(weights, name, raw, known[f"{name}.mean"], known[f"{name}.variance"]))

    hidden = normal(0, dense(weights, "generator.dense", 0, inputs))
    pixels = dense(weights, "generator.dense", 1, hidden).reshape(len(inputs), image.smallest, image.smallest, -1)
    for number in range(image.halvings):
        pixels = doubled(normal(number + 1, pixels), weights[f"generator.{number}.kernel"])
        pixels = pixels + weights[f"generator.{number}.bias"]
    return pixels, own


@partial(jax.jit, static_argnums=0)
def settled(image: Image, weights: Weights, inputs: Array) -> Weights:
    """The statistics of a generator's layers over many rows, for drawing: inputs are batches of rows."""
    statistics: Weights = jax.lax.map(lambda some: generated(weights, image, some)[1], inputs)
    return {name: jnp.mean(array, axis=0) for name, array in statistics.items()}


def towards(mean: Weights, weights: Weights, steps: Array, most: int) -> Weights:
    """The running mean of weights after so many steps: of about the last tenth of them, and of at most so many."""
    share = jnp.maximum(1.0 / most, 10.0 / (9.0 + steps)).clip(max=1.0)
    return {name: array + share * (weights[name] - array) for name, array in mean.items()}


def statistics_shapes(image: Image) -> dict[str, tuple[int, ...]]:
    """The shapes of the statistics of a generator's layers."""
    layers = enumerate([image.hidden, *reversed(image.channels)])
    return {
        f"generator.norm.{number}.{what}": (channels,) for number, channels in layers for what in ("mean", "variance")
    }


def judge_layers(key: Array, name: str, image: Image, channels: int = 1) -> Weights:
    """Weights of a network that describes images by features and gives one number for each."""
    one, two = jax.random.split(key)
    weights = _kernels(one, name, [channels, *image.channels], fan=_KERNEL**2)
    return weights | dense_layers(two, f"{name}.dense", [image.smallest**2 * image.channels[-1], image.hidden, 1])


def judged(weights: Weights, name: str, image: Image, images: Array) -> tuple[Array, Array]:
    """A number for each image, and its features.

    There is no batch normalisation, which the papers have: trainings with it let the discriminator win.
    """
    for number in range(image.halvings):
        raw = halved(images, weights[f"{name}.{number}.kernel"]) + weights[f"{name}.{number}.bias"]
        images = jax.nn.leaky_relu(raw, _SLOPE)
    features = jax.nn.leaky_relu(dense(weights, f"{name}.dense", 0, images.reshape(len(images), -1)), _SLOPE)
    return dense(weights, f"{name}.dense", 1, features)[:, 0], features


def information_loss(real: Array, made: Array, margin: float) -> Array:
    """How far means and standard deviations of features are from each other, where that is more than the margin.

    Both have two rows, means and standard deviations (Park and others 2018).
    """
    away = jnp.sqrt(jnp.sum((real - made) ** 2, axis=-1) + 1e-12)
    return jnp.sum(jnp.maximum(away - margin, 0.0))


def features_moments(features: Array) -> Array:
    """Means and standard deviations of features over the rows."""
    mean, variance = _moments(features)
    return jnp.stack([mean, jnp.sqrt(variance + _NEARLY_NOTHING)])


def _kernels(key: Array, name: str, channels: list[int], fan: int) -> Weights:
    """Kernels drawn uniformly within 1 / √inputs, and biases."""
    weights: Weights = {}
    for number, (old, new) in enumerate(pairwise(channels)):
        bound = (fan * old) ** -0.5
        shape = (_KERNEL, _KERNEL, old, new)
        own = jax.random.fold_in(key, number)
        weights[f"{name}.{number}.kernel"] = jax.random.uniform(own, shape, jnp.float32, -bound, bound)
        weights[f"{name}.{number}.bias"] = jnp.zeros(new, jnp.float32)
    return weights


def _norm(name: str, channels: int) -> Weights:
    return {f"{name}.scale": jnp.ones(channels, jnp.float32), f"{name}.shift": jnp.zeros(channels, jnp.float32)}


def _moments(raw: Array) -> tuple[Array, Array]:
    axes = tuple(range(raw.ndim - 1))
    return jnp.mean(raw, axes), jnp.var(raw, axes)


def _normalised(weights: Weights, name: str, raw: Array, mean: Array, variance: Array) -> Array:
    scale = weights[f"{name}.scale"] * jax.lax.rsqrt(variance + _NEARLY_NOTHING)
    return raw * scale + (weights[f"{name}.shift"] - mean * scale)
