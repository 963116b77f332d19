"""Reconstruction of bins: each opened split says on which side of a threshold rows are, so bounds close in on cells.

Only sides of splits are used. The sums over bins say more, so this is the least that the active party can tell.
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats
from unpooled.attacks.trees_seen import TreesSeen


def cells_known(seen: TreesSeen, rows: int) -> Floats:
    """By column the fraction of its cells, in the first rows, with one possible bin left, or a missing value."""
    low = np.zeros((rows, len(seen.bins)), np.int64)
    high = np.tile(seen.bins.astype(np.int64) - 1, (rows, 1))
    for split in seen.opened:
        inside = split.rows < rows
        held, right = split.rows[inside], split.right[inside]
        low[held[right], split.feature] = np.maximum(low[held[right], split.feature], split.place + 1)
        high[held[~right], split.feature] = np.minimum(high[held[~right], split.feature], split.place)
    found: Floats = (low >= high).mean(axis=0) if rows else np.zeros(len(seen.bins))
    return found
