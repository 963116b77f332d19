"""Leaf sizes: trees put the rare rows, such as the seeker's people, into small leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Floats, Ints


def by_leaf_size(groupings: Sequence[Ints], rows: int) -> Floats:
    """For each of the first rows how small the groups are that it is in, on average; rows outside, -1, have none."""
    total, counts = np.zeros(rows), np.zeros(rows)
    for groups in groupings:
        inside = groups >= 0
        sizes = np.bincount(groups[inside]) / np.count_nonzero(inside)
        here = inside[:rows]
        total[here] -= np.log(sizes[groups[:rows][here]])
        counts += here
    found: Floats = total / np.maximum(counts, 1)
    return found
