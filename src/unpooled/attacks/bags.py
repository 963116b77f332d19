"""Counting bags: where the rows of each bag are shown, the seeker's people are those that are in most of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Bools, Floats


def by_bags(bags: Sequence[Bools], rows: int) -> Floats:
    """For each of the first rows in how many bags it is; nothing is known where bags are hidden, and all are alike."""
    total = np.zeros(rows)
    for bag in bags:
        total += bag[:rows]
    return total
