"""Weak and strong views of rows: noise on numbers, and cells drawn from other rows.

A drawn cell comes from the same column of a random other row of the batch, so from the column's own distribution
(Bahri and others, SCARF, ICLR 2022), and takes all units of the cell along: a category is redrawn as a whole.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from unpooled.networks.groups import Units
from unpooled.semisup.settings import NetworkSettings


def weak(settings: NetworkSettings, rows: Array, key: Array, units: Units) -> Array:
    """Rows with a little noise."""
    return _noisy(rows, settings.weak_noise, key, units)


def strong(settings: NetworkSettings, rows: Array, key: Array, units: Units, chance: Array, pool: Array) -> Array:
    """Rows with more noise, each cell drawn from a row of the pool with its column's chance."""
    one, two = jax.random.split(key)
    drawn = corrupted(rows, one, units, chance, pool) if settings.corruption else rows
    return _noisy(drawn, settings.strong_noise, two, units)


def corrupted(rows: Array, key: Array, units: Units, chance: Array, pool: Array) -> Array:
    """Rows with some cells of other rows, but for padding."""
    one, two = jax.random.split(key)
    shape = (rows.shape[0], len(units.columns))
    replaced = jax.random.uniform(one, shape) < chance
    donors = jax.random.randint(two, shape, 0, pool.shape[0])
    others = jnp.take_along_axis(pool, donors[:, units.column], axis=0)
    return jnp.where(replaced[:, units.column], others, rows)


def _noisy(rows: Array, spread: float, key: Array, units: Units) -> Array:
    scalars = len(units.scalar)
    noise = spread * units.scalar * jax.random.normal(key, (rows.shape[0], scalars))
    return rows.at[:, :scalars].add(noise)
