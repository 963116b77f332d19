"""Reconstruction of bins: each opened split says on which side of a threshold rows are, so bounds close in on cells.

Only sides of splits are used. The sums over bins say more, so this is the least that the active party can tell.
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Ints
from unpooled.attacks.trees_seen import TreesSeen


def bounds_of_cells(seen: TreesSeen, rows: int) -> tuple[Ints, Ints]:
    """For the first rows and each column the lowest and the highest bin that are left; none where low passes high."""
    low = np.zeros((rows, len(seen.bins)), np.int64)
    high = np.tile(seen.bins.astype(np.int64) - 1, (rows, 1))
    for split in seen.opened:
        inside = split.rows < rows
        held, right = split.rows[inside], split.right[inside]
        low[held[right], split.feature] = np.maximum(low[held[right], split.feature], split.place + 1)
        high[held[~right], split.feature] = np.minimum(high[held[~right], split.feature], split.place)
    return low, high


def cells_known(seen: TreesSeen, rows: int) -> float:
    """The fraction of cells with one possible bin left, or a missing value, in columns with more than one bin."""
    low, high = bounds_of_cells(seen, rows)
    known = (low >= high)[:, seen.bins > 1]
    return float(known.mean()) if known.size else 0.0
