"""Few known people: whoever knows some of the sought people ranks the others by how often they are grouped together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.evaluate.distribution import mean_ranks

FRIENDS = 10
"""How many of the people that it looks for an attacker happens to know."""


def by_known(groupings: Sequence[Ints], friends: Ints, rows: int) -> Floats:
    """How often each of the first rows is in a group with a known one; small groups count for more."""
    total = np.zeros(rows)
    for groups in groupings:
        inside = groups >= 0
        sizes = np.bincount(groups[inside]).astype(float)
        known = groups[friends]
        shared = np.bincount(known[known >= 0], minlength=len(sizes)) / np.maximum(sizes, 1.0)
        here = inside[:rows]
        total[here] += shared[groups[:rows][here]]
    return total


def by_own_columns(columns: Floats, friends: Ints) -> Floats:
    """The same without any message: how near each row is to the nearest known one, by the ranks of its columns."""
    ranks = np.stack([mean_ranks(column) for column in np.nan_to_num(columns).T], axis=1)
    nearest = np.full(len(columns), np.inf)
    for friend in friends:
        nearest = np.minimum(nearest, np.abs(ranks - ranks[friend]).sum(axis=1))
    return -nearest
