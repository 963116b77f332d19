"""What networks do with units, inside compiled functions: all groups at once, without a loop over columns."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.networks.coders import Modes
from unpooled.networks.encoding import Encoding, Layout

_GROUPS = 8
_PLACES = 16
_LARGEST = 40.0
"""Logits are bent so that none is larger: then no exponential is too large or too small for a float32."""
_ROUNDS, _LARGEST_SHIFT = 20, 3.0


class Units(NamedTuple):
    """A layout as arrays, to be handed to compiled functions; padding belongs to nothing."""

    scalar: Array
    """Scalar units: 1 for those in use."""
    grouped: Array
    """All units: 1 for those of groups."""
    member: Array
    """Units × groups: 1 for members."""
    owner: Array
    """All units: the group that a unit belongs to, 0 if none."""
    position: Array
    """All units: the place in its group, -1 if none."""
    table: Array
    """Groups × places: the unit at this place; the last unit, which is padding, if there is none."""
    column: Array
    """All units: the column that a unit belongs to, 0 for padding."""
    columns: Array
    """One number for each column, rounded up."""
    missing: Array
    """Scalar units: the unit that is 1 if the cell is missing; the last unit, which is padding, if there is none."""


def units_of(layout: Layout) -> Units:
    """The layout as arrays; numbers of groups and places are rounded up so that fewer compilations are needed."""
    count = -(-max(len(layout.groups), 1) // _GROUPS) * _GROUPS
    largest = max((group.units for group in layout.groups), default=1)
    places = max(1 << (largest - 1).bit_length(), _PLACES)
    scalar = np.zeros(layout.scalar_units, np.float32)
    missing = np.full(layout.scalar_units, layout.width - 1, np.int32)
    scalar[[unit for unit in layout.scalars if unit >= 0]] = 1.0
    member = np.zeros((layout.width, count), np.float32)
    owner, position = np.zeros(layout.width, np.int32), np.full(layout.width, -1, np.int32)
    table = np.full((count, places), layout.width - 1, np.int32)
    for number, group in enumerate(layout.groups):
        where = np.arange(group.start, group.start + group.units)
        member[where, number], owner[where], position[where] = 1.0, number, np.arange(group.units)
        table[number, : group.units] = where
        if group.missing and layout.scalars[group.column] >= 0:
            missing[layout.scalars[group.column]] = where[-1]
    column = np.maximum(layout.column_of, 0).astype(np.int32)
    columns = np.zeros(-(-len(layout.scalars) // _GROUPS) * _GROUPS, np.float32)
    arrays = (scalar, member.sum(axis=1), member, owner, position, table, column, columns, missing)
    return Units(*map(jnp.asarray, arrays))


def _bent(logits: Array) -> Array:
    return _LARGEST * jnp.tanh(logits / _LARGEST)


def log_softmax(logits: Array, units: Units) -> Array:
    """Within each group; 0 elsewhere."""
    bent = _bent(logits)
    sums = (jnp.exp(bent) * units.grouped) @ units.member
    spread = jnp.log(jnp.where(sums > 0, sums, 1.0)) @ units.member.T
    return (bent - spread) * units.grouped


def softmax(logits: Array, units: Units) -> Array:
    """Within each group; 0 elsewhere."""
    return jnp.exp(log_softmax(logits, units)) * units.grouped


def gumbel_softmax(key: Array, logits: Array, units: Units, temperature: float) -> Array:
    """Draws of one-hot units that are softened so that they have a gradient.

    What is divided by the temperature is bent too, so draws of very large logits stay soft.
    """
    noise = jax.random.gumbel(key, logits.shape, logits.dtype)
    return softmax((_bent(logits) + noise) / temperature, units)


def cross_entropy(logits: Array, targets: Array, units: Units) -> Array:
    """Of each row, summed over all groups; targets are one-hot units, or all zeros for cells that do not count."""
    return -jnp.sum(log_softmax(logits, units) * targets, axis=-1)


def draw_units(key: Array, logits: Array, units: Units) -> Array:
    """One-hot units of each group, drawn; 0 elsewhere. It has no gradient."""
    noisy = _bent(logits) + jax.random.gumbel(key, logits.shape, logits.dtype)
    noisy = noisy.at[..., -1].set(-jnp.inf)
    chosen = jnp.argmax(noisy[..., units.table], axis=-1)
    return (chosen[..., units.owner] == units.position).astype(logits.dtype)


def present(rows: Array, units: Units) -> Array:
    """Rows × scalar units: 1 for scalars in use whose cell is not missing."""
    return units.scalar * (1.0 - rows[..., units.missing])


def silent_units(encoding: Encoding) -> Array:
    """Units × scalar units: 1 where a unit leaves the scalar nothing to say: missing cells and modes of width 0."""
    layout = encoding.layout
    found = np.zeros((layout.width, layout.scalar_units), np.float32)
    for group in layout.groups:
        coder, scalar = encoding.coders[group.column], layout.scalars[group.column]
        if isinstance(coder, Modes):
            found[group.start + np.flatnonzero(coder.spreads == 0.0), scalar] = 1.0
        if coder.scalar and coder.missing:
            found[group.start + group.units - 1, scalar] = 1.0
    return jnp.asarray(found)


def as_units(raw: Array, groups: Array, units: Units, silent: Array) -> Array:
    """Rows of units: scalars by tanh, 0 for silent ones, and groups as they are."""
    scalars = len(units.scalar)
    spoken = units.scalar * (1.0 - groups @ silent)
    return jnp.concatenate([jnp.tanh(raw[..., :scalars]) * spoken, groups[..., scalars:]], axis=-1)


def balancing_shift(raw: Array, units: Units, frequencies: Array) -> Array:
    """What is to be added to answers (rows × units) so that units of groups are as frequent as they should be."""
    least = 0.5 / len(raw)

    def again(_: Array, shift: Array) -> Array:
        found = jnp.mean(softmax(raw + shift, units), axis=0)
        change = jnp.clip(jnp.log((frequencies + least) / (found + least)), -1.0, 1.0)
        return jnp.clip(shift + change * units.grouped, -_LARGEST_SHIFT, _LARGEST_SHIFT)

    shift: Array = jax.lax.fori_loop(0, _ROUNDS, again, jnp.zeros(raw.shape[-1]))
    return shift
