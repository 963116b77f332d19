"""The conditional vector and training by sampling (Xu, Skoularidou, Cuesta-Infante and Veeramachaneni 2019).

A condition asks for one unit of one group: a level, or a mode. In training, the group is drawn, all being equally
likely, then its unit by the logarithm of its frequency, so that rare levels are learned too, and then a row that has
it. Rows are generated with units drawn by their frequencies, so that levels are as frequent as in the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.arrays import Ints
from unpooled.networks.encoding import Group, Layout, Singles
from unpooled.networks.training import Batches

NOTHING = -1
"""Asked of rows if there is no group to ask of."""
_PADDING = -2
_WIDTH = 32


def groups_to_ask(layout: Layout, *, modes: bool = False) -> tuple[Group, ...]:
    """Groups whose units can be asked for: those of columns without a scalar, and those of `modes` too if wanted."""
    return tuple(group for group in layout.groups if modes or layout.scalars[group.column] < 0)


def places_of(groups: Sequence[Group]) -> Ints:
    """The unit that each place in the conditional vector asks for; its length is rounded up."""
    units = [unit for group in groups for unit in range(group.start, group.start + group.units)]
    length = -(-max(len(units), 1) // _WIDTH) * _WIDTH
    return np.array(units + [_PADDING] * (length - len(units)), np.int64)


def vector(asked: Array, places: Array) -> Array:
    """Conditional vectors of rows that are asked for these units."""
    return (asked[:, jnp.newaxis] == places).astype(jnp.float32)


def asked_units(asked: Array, width: int) -> Array:
    """The same as units of rows, as a cross-entropy takes them."""
    return (asked[:, jnp.newaxis] == jnp.arange(width)).astype(jnp.float32)


def frequencies_of(groups: Sequence[Group], units: Singles) -> Singles:
    """The fraction of rows that have each unit, 0 for units that cannot be asked for."""
    frequencies = np.zeros(units.shape[1], np.float32)
    for group in groups:
        where = slice(group.start, group.start + group.units)
        frequencies[where] = units[:, where].mean(axis=0, dtype=np.float64)
    return frequencies


def known_only(layout: Layout, frequencies: Singles) -> Singles:
    """The frequencies without those of units that stand for missing cells."""
    known = frequencies.copy()
    known[[group.start + group.units - 1 for group in layout.groups if group.missing]] = 0.0
    return known


def logarithmic(frequencies: Singles, rows: int) -> Singles:
    """How likely units are asked for in training: as the logarithm of 1 + the number of rows."""
    likely: Singles = np.log1p(frequencies * rows)
    return likely


def draw_asked(groups: Sequence[Group], likely: Singles, rows: int, rng: np.random.Generator) -> Ints:
    """A unit for each row to ask for: a group, all being equally likely, then one of its units by how likely each is.

    Groups none of whose units is likely at all are left out; if there are no others, nothing is asked.
    """
    units = [np.arange(group.start, group.start + group.units) for group in groups]
    units = [where for where in units if likely[where].sum() > 0]
    if not units:
        return np.full(rows, NOTHING)
    shares = np.concatenate([likely[where] / likely[where].sum(dtype=np.float64) for where in units])
    upto = np.cumsum(shares, dtype=np.float64)
    last = np.flatnonzero(shares)[-1]
    found = np.searchsorted(upto, rng.random(rows) * upto[-1], "right")
    drawn: Ints = np.concatenate(units)[np.minimum(found, last)]
    return drawn


def sampled(groups: Sequence[Group], units: Singles, batch_rows: int) -> Batches:
    """Training by sampling: batches of units asked for, and of rows that have them.

    There are as many batches as shuffling the rows would give.
    """
    steps = max(len(units) // batch_rows, 1)
    likely = logarithmic(frequencies_of(groups, units), len(units))
    counts = np.zeros(units.shape[1], np.int64)
    starts = np.zeros(units.shape[1], np.int64)
    orders, start = [], 0
    for group in groups:
        where = slice(group.start, group.start + group.units)
        own = units[:, where].argmax(axis=1)
        counts[where] = np.bincount(own, minlength=group.units)
        starts[where] = start + np.cumsum(counts[where]) - counts[where]
        orders.append(np.argsort(own, kind="stable").astype(np.int32))
        start += len(units)
    order = np.concatenate(orders) if orders else np.arange(len(units), dtype=np.int32)

    def batches(rng: np.random.Generator) -> tuple[Ints, Singles]:
        asked = draw_asked(groups, likely, steps * batch_rows, rng)
        nothing = asked == NOTHING
        first, count = np.where(nothing, 0, starts[asked]), np.where(nothing, len(units), counts[asked])
        rows = units[order[first + rng.integers(0, count)]]
        return asked.reshape(steps, batch_rows), rows.reshape(steps, batch_rows, units.shape[1])

    return batches
