"""Noise that is added to rows of units in many small steps, and how a step is undone.

Scalars have a Gaussian process (Ho, Jain and Abbeel 2020): a step shrinks them by √αₜ and adds normal noise of variance
βₜ = 1 - αₜ. Groups of one-hot units have a multinomial process (Hoogeboom and others 2021): with the chance βₜ a step
replaces the one that is on by one drawn uniformly. After t steps ᾱₜ = α₁ ⋯ αₜ is what is left of the row. Both follow
the cosine schedule (Nichol and Dhariwal 2021). All groups are dealt with at once, without a loop over columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.networks.encoding import Singles
from unpooled.networks.groups import Units

_OFFSET = 0.008
_LARGEST_BETA = 0.999
_SMALLEST = 1e-30
"""Chances are not smaller than this, so that their logarithms are finite."""
FARTHEST = 3.5
"""No scalar without noise is larger: the normal quantiles of a thousand points end at 3.3."""


@dataclass(frozen=True, eq=False)
class Noise:
    """A schedule; number t is after t steps, so that number 0 is the row itself, without noise."""

    alphas: Singles
    alpha_bars: Singles

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.alphas) - 1


@lru_cache
def cosine_noise(steps: int) -> Noise:
    """ᾱₜ falls like a squared cosine; no single step adds more than almost all of the noise."""
    bars = np.cos((np.arange(steps + 1) / steps + _OFFSET) / (1.0 + _OFFSET) * np.pi / 2.0) ** 2
    alphas = np.ones(steps + 1)
    alphas[1:] = np.maximum(bars[1:] / bars[:-1], 1.0 - _LARGEST_BETA)
    return Noise(alphas.astype(np.float32), np.cumprod(alphas).astype(np.float32))


def noised_scalars(key: Array, scalars: Array, left: Array) -> tuple[Array, Array]:
    """Scalars of which a part is `left` (ᾱₜ after t steps, αₜ after one), and the standard normal noise in them."""
    noise = jax.random.normal(key, scalars.shape)
    return jnp.sqrt(left) * scalars + jnp.sqrt(1.0 - left) * noise, noise


def noised_groups(key: Array, rows: Array, left: Array, units: Units) -> Array:
    """One-hot units of which a part is `left`, the others drawn uniformly; 0 outside of groups."""
    one, two = jax.random.split(key)
    shape = (len(rows), units.member.shape[1])
    stays = (jax.random.uniform(one, shape) < left)[:, units.owner]
    places = jnp.floor(jax.random.uniform(two, shape) * units.member.sum(axis=0))
    drawn = places.astype(jnp.int32)[:, units.owner] == units.position
    return jnp.where(stays, rows, drawn) * units.grouped


def scalars_before(key: Array, scalars: Array, noise: Array, t: Array, schedule: Noise) -> Array:
    """Scalars one step earlier, drawn given what is taken for the noise in them; without noise if that is step 0."""
    alpha, bar, before = jnp.asarray(schedule.alphas)[t], *_bars(schedule, t)
    start = (scalars - jnp.sqrt(1.0 - bar) * noise) / jnp.sqrt(bar)
    start = jnp.clip(start, -FARTHEST, FARTHEST)
    mean = (jnp.sqrt(before) * (1.0 - alpha) * start + jnp.sqrt(alpha) * (1.0 - before) * scalars) / (1.0 - bar)
    variance = (1.0 - alpha) * (1.0 - before) / (1.0 - bar)
    return mean + jnp.sqrt(variance) * jax.random.normal(key, scalars.shape)


def _bars(schedule: Noise, t: Array) -> tuple[Array, Array]:
    """ᾱₜ, and that of the step before."""
    bars = jnp.asarray(schedule.alpha_bars)
    return bars[t], bars[t - 1]


def log_chances_after(rows: Array, left: Array, units: Units) -> Array:
    """For each unit, the logarithm of the chance of what its group is now, had this unit been on before the noise."""
    sizes = jnp.maximum(units.member @ units.member.sum(axis=0), 1.0)
    return log_chances(left * rows + (1.0 - left) / sizes)


def log_chances_before(log_start: Array, rows: Array, t: Array, schedule: Noise, units: Units) -> Array:
    """Logarithms of the chances of one-hot units one step earlier, given the units now and the chances without noise.

    `t` must broadcast against rows × units. The chances are q(xₜ | xₜ₋₁) q(xₜ₋₁ | x₀), made to add up to 1.
    """
    alpha, before = jnp.asarray(schedule.alphas)[t], jnp.asarray(schedule.alpha_bars)[t - 1]
    log_sizes = jnp.log(jnp.maximum(units.member @ units.member.sum(axis=0), 1.0))
    earlier = jnp.logaddexp(log_start + jnp.log(before), log_chances(1.0 - before) - log_sizes)
    return _normalised(log_chances_after(rows, alpha, units) + earlier, units)


def _normalised(logs: Array, units: Units) -> Array:
    """So that the chances of each group add up to 1; they are products of two, none of which can vanish throughout."""
    sums = (jnp.exp(logs) * units.grouped) @ units.member
    return (logs - jnp.log(jnp.where(sums > 0, sums, 1.0)) @ units.member.T) * units.grouped


def log_chances(chances: Array) -> Array:
    """Logarithms of chances, finite if they are 0."""
    return jnp.log(jnp.maximum(chances, _SMALLEST))


def divergence_before(log_start: Array, start: Array, rows: Array, t: Array, schedule: Noise, units: Units) -> Array:
    """Of each row, summed over groups: how far the chances one step earlier are from the true ones (Kullback-Leibler).

    `start` has the one-hot units without noise, `log_start` the logarithms of what is taken for their chances.
    """
    true = log_chances_before(log_chances(start), rows, t, schedule, units)
    taken = log_chances_before(log_start, rows, t, schedule, units)
    return jnp.sum(jnp.exp(true) * (true - taken) * units.grouped, axis=-1)


def drawn_groups(key: Array, log_chances: Array, units: Units) -> Array:
    """One-hot units of each group, drawn by their chances; 0 elsewhere.

    One random number for each group is compared with the running sum of all chances: many times faster than a random
    number for each unit.
    """
    chances = jnp.exp(log_chances) * units.grouped
    upto = jnp.cumsum(chances, axis=-1)
    first = units.table[:, 0]
    points = (upto - chances)[:, first] + jax.random.uniform(key, (len(chances), len(first)))
    passed = ((upto <= points @ units.member.T) * units.grouped) @ units.member
    chosen = jnp.minimum(passed, units.member.sum(axis=0) - 1.0)
    return (chosen @ units.member.T == units.position).astype(chances.dtype)
