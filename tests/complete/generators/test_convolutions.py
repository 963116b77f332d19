"""Square rows and convolutions: they agree with JAX's own, and with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from unpooled.complete.generators.convolutions import (
    Image,
    as_rows,
    as_square,
    doubled,
    features_moments,
    generated,
    generator_layers,
    halved,
    information_loss,
    judge_layers,
    judged,
    settled,
    side_for,
    statistics_shapes,
    towards,
)

LAYOUT = ("NHWC", "HWIO", "NHWC")
KEY = jax.random.key(1)


def halved_by_jax(images: Array, kernel: Array) -> Array:
    wrapped = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap")
    return jax.lax.conv_general_dilated(wrapped, kernel, (2, 2), "VALID", dimension_numbers=LAYOUT)


def doubled_by_jax(images: Array, kernel: Array) -> Array:
    """The wider result of `conv_transpose`, whose border is added where images go on."""
    whole = jax.lax.conv_transpose(images, kernel[::-1, ::-1], (2, 2), ((3, 3), (3, 3)), dimension_numbers=LAYOUT)
    for axis in (1, 2):
        first, middle, last = jnp.split(whole, [1, whole.shape[axis] - 1], axis)
        start, between, end = jnp.split(middle, [1, middle.shape[axis] - 1], axis)
        whole = jnp.concatenate([start + last, between, end + first], axis)
    return whole


@pytest.mark.parametrize("side", [6])
@pytest.mark.parametrize(("own", "theirs"), [(halved, halved_by_jax), (doubled, doubled_by_jax)])
def test_convolutions_agree_with_jax(
    own: Callable[[Array, Array], Array], theirs: Callable[[Array, Array], Array], side: int
) -> None:
    one, two = jax.random.split(KEY)
    images, kernel = jax.random.normal(one, (3, side, side, 2)), jax.random.normal(two, (4, 4, 2, 5))

    def bent(convolution: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
        return lambda images, kernel: jnp.sum(jnp.sin(convolution(images, kernel)))

    np.testing.assert_allclose(own(images, kernel), theirs(images, kernel), rtol=1e-4, atol=1e-5)
    for found, expected in zip(
        jax.grad(bent(own), (0, 1))(images, kernel), jax.grad(bent(theirs), (0, 1))(images, kernel), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_square_rows_come_back() -> None:
    rows = jax.random.normal(KEY, (7, 13))
    for side in (4, 6):
        square = as_square(rows, side)
        assert square.shape == (7, side, side, 1)
        assert float(jnp.abs(as_rows(square, side * side)[:, 13:]).sum()) == 0.0
        np.testing.assert_array_equal(as_rows(square, 13), rows)


@pytest.mark.parametrize("units", [1, 16, 17, 36, 37, 64, 65, 144, 145, 257, 2000])
def test_sides_have_room_and_can_be_halved(units: int) -> None:
    image = Image(side_for(units), 4)
    assert image.side**2 >= units
    assert image.smallest in (2, 3)
    assert image.smallest << image.halvings == image.side


@pytest.mark.parametrize("side", [4, 6])
def test_networks_make_and_judge_images(side: int) -> None:
    image = Image(side, 4)

    @jax.jit
    def everything(inputs: Array) -> tuple[Any, ...]:
        images, statistics = generated(generator_layers(KEY, image, 5), image, inputs)
        numbers, features = judged(judge_layers(KEY, "judge", image), "judge", image, images)
        return images, statistics, numbers, features

    images, statistics, numbers, features = everything(jax.random.normal(KEY, (6, 5)))
    assert images.shape == (6, side, side, 1)
    assert {name: array.shape for name, array in statistics.items()} == statistics_shapes(image)
    assert numbers.shape == (6,)
    assert features.shape == (6, image.hidden)


def test_rows_drawn_with_settled_statistics_do_not_depend_on_each_other() -> None:
    image = Image(4, 4)
    weights = jax.jit(lambda: generator_layers(KEY, image, 5))()
    inputs = jax.random.normal(KEY, (3, 50, 5))
    statistics = settled(image, weights, inputs)
    drawn = jax.jit(lambda inputs: generated(weights, image, inputs, statistics)[0])
    together, alone = drawn(inputs[0]), drawn(inputs[0, :1])
    np.testing.assert_allclose(together[:1], alone, rtol=1e-4, atol=1e-6)


def test_no_information_is_lost_within_the_margin() -> None:
    features = jax.random.normal(KEY, (50, 3))
    real = features_moments(features)
    near = features_moments(features + jnp.array([0.06, -0.06, 0.0]))
    assert float(information_loss(real, near, 0.1)) == 0.0
    assert float(information_loss(real, near, 0.0)) == pytest.approx(0.06 * 2**0.5, rel=1e-3)
    wider = features_moments(3.0 * (features - real[0]) + real[0])
    assert float(information_loss(real, wider, 0.1)) == pytest.approx(
        float(jnp.linalg.norm(2 * real[1])) - 0.1, rel=1e-3
    )


def test_the_mean_of_weights_follows_them() -> None:
    mean = {"a": jnp.zeros(1)}
    assert towards(mean, {"a": jnp.ones(1)}, jnp.float32(1.0), 100)["a"].tolist() == [1.0]
    assert float(towards(mean, {"a": jnp.ones(1)}, jnp.float32(1e6), 100)["a"][0]) == pytest.approx(0.01)
