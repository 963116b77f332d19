"""All groups at once: the same as group by group."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.scipy.special import logsumexp

from unpooled.networks.coders import Modes, OneHot, Quantiles
from unpooled.networks.encoding import Encoding
from unpooled.networks.groups import (
    Units,
    as_units,
    cross_entropy,
    draw_units,
    gumbel_softmax,
    log_softmax,
    present,
    silent_units,
    softmax,
    units_of,
)

NONE = np.empty(0)
ENCODING = Encoding(
    (
        OneHot(False, np.arange(3.0), NONE, NONE, True),
        Modes(True, np.array([0.0, 5.0]), np.array([0.0, 1.0]), np.array([0.5, 0.5])),
        Quantiles(True, np.arange(10.0)),
        OneHot(False, np.arange(20.0), NONE, NONE, True),
        Quantiles(False, np.arange(10.0)),
    )
)
LAYOUT = ENCODING.layout


@pytest.fixture(scope="module")
def units() -> Units:
    return units_of(LAYOUT)


@pytest.fixture(scope="module")
def logits() -> Array:
    return 3.0 * jax.random.normal(jax.random.key(1), (50, LAYOUT.width))


def of_groups(rows: Array) -> list[Array]:
    return [rows[..., group.start : group.start + group.units] for group in LAYOUT.groups]


def elsewhere() -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    inside = np.zeros(LAYOUT.width, np.bool_)
    for group in LAYOUT.groups:
        inside[group.start : group.start + group.units] = True
    return ~inside


def test_the_layout_has_scalars_first_and_padding_last() -> None:
    assert LAYOUT.scalars == (-1, 0, 1, -1, 2)
    assert [(group.column, group.units, group.missing) for group in LAYOUT.groups] == [
        (0, 3, False),
        (1, 3, True),
        (2, 2, True),
        (3, 20, False),
    ]
    assert LAYOUT.groups[0].start == LAYOUT.scalar_units == 8
    assert LAYOUT.column_of[-1] == -1


def test_a_softmax_is_that_of_each_group(units: Units, logits: Array) -> None:
    bent = 40.0 * jnp.tanh(logits / 40.0)
    for found, raw in zip(of_groups(softmax(logits, units)), of_groups(bent), strict=True):
        np.testing.assert_allclose(found, jax.nn.softmax(raw), rtol=1e-4)
    for found, raw in zip(of_groups(log_softmax(logits, units)), of_groups(bent), strict=True):
        np.testing.assert_allclose(found, raw - logsumexp(raw, axis=-1, keepdims=True), atol=1e-4)
    assert (softmax(logits, units)[:, elsewhere()] == 0).all()


@pytest.mark.parametrize("size", [1e3, -1e3, 1e30])
def test_logits_of_any_size_have_finite_chances_and_gradients(size: float, units: Units) -> None:
    raw = jnp.zeros(LAYOUT.width).at[LAYOUT.groups[1].start].set(size)
    chances, slope = jax.value_and_grad(lambda one: softmax(one, units)[LAYOUT.groups[0].start])(raw)
    assert float(chances) == pytest.approx(1 / 3, rel=1e-4)
    assert np.isfinite(slope).all()
    loss = cross_entropy(raw, jnp.zeros_like(raw).at[LAYOUT.groups[1].start + 1].set(1.0), units)
    assert float(loss) == pytest.approx(40.0 * (size > 0) + np.log(2) * (size < 0), abs=1e-3)


def test_draws_are_one_hot_and_as_frequent_as_their_chances(units: Units, logits: Array) -> None:
    rows = jnp.tile(logits[:1], (20_000, 1))
    drawn = draw_units(jax.random.key(2), rows, units)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    for found in of_groups(drawn):
        assert (found.sum(axis=-1) == 1).all()
    assert (drawn[:, elsewhere()] == 0).all()
    np.testing.assert_allclose(drawn.mean(axis=0), softmax(logits[0], units), atol=0.02)


def test_softened_draws_are_nearly_one_hot_and_have_a_gradient(units: Units, logits: Array) -> None:
    rows = jnp.tile(logits[:1], (5_000, 1))
    drawn = gumbel_softmax(jax.random.key(3), rows, units, 0.2)
    for found, chances in zip(of_groups(drawn), of_groups(softmax(logits[0], units)), strict=True):
        np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-4)
        assert np.median(found.max(axis=-1)) > 0.85
        np.testing.assert_allclose(found.mean(axis=0), chances, atol=0.05)
    slope = jax.grad(lambda raw: gumbel_softmax(jax.random.key(3), raw, units, 0.5)[..., 10].sum())(logits)
    assert np.abs(slope).sum() > 0


def test_the_scalars_of_missing_cells_and_frequent_values_say_nothing(units: Units) -> None:
    values = np.array([[0.0, 0.0, 3.0, 1.0, 2.0], [1.0, 5.5, np.nan, 2.0, 2.0], [2.0, np.nan, 3.0, 3.0, 2.0]])
    rows = jnp.asarray(ENCODING.encode(values, np.random.default_rng(1)))
    np.testing.assert_array_equal(present(rows, units)[:, :3], [[1, 1, 1], [1, 0, 1], [0, 1, 1]])
    silent = silent_units(ENCODING)
    np.testing.assert_array_equal((rows @ silent)[:, :3], [[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    spoken = as_units(jnp.full_like(rows, 9.0), rows, units, silent)
    np.testing.assert_allclose(spoken[:, :3], [[0, 1, 1], [1, 0, 1], [0, 1, 1]], atol=1e-4)
    np.testing.assert_array_equal(spoken[:, LAYOUT.scalar_units :], rows[:, LAYOUT.scalar_units :])
