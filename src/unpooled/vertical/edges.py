"""Where one range of a column's values ends and the next begins: edges half-way between neighbouring values.

A column with no more distinct values than ranges gets one for each. Otherwise ranges hold about as many rows each;
equal values are never separated, and a value that fills two ranges or more has one of its own, which leaves the others
to the rest. All of it is sorting, counting and halving, so the same rows give the same edges everywhere.

>>> edges_of(np.array([30.0, 50.0, 40.0, np.nan]), bins=8, min_rows=1).tolist()
[35.0, 45.0]
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats, Ints


def edges_of(values: Floats, bins: int, min_rows: int) -> Floats:
    """Where one bin ends and the next begins, for at most so many bins of at least so many rows."""
    ordered = np.sort(values[~np.isnan(values)])
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else np.empty(0, np.int64)
    cuts = np.arange(len(ends) - 1) if len(ends) <= bins else _cuts(np.diff(ends, prepend=-1), bins)
    cuts = _far_enough(cuts, ends, min_rows)
    below, above = ordered[ends[cuts]], ordered[ends[cuts] + 1]
    middle = below / 2 + above / 2
    edges: Floats = np.where(middle < above, middle, below)  # neighbours that have no number between them
    return edges


def _far_enough(cuts: Ints, ends: Ints, min_rows: int) -> Ints:
    """The cuts without those that would leave too few rows between them, given the last row of each distinct value."""
    kept, before = list[int](), 0
    for cut, rows in zip(cuts.tolist(), (ends[cuts] + 1).tolist(), strict=True):
        if min(rows - before, int(ends[-1]) + 1 - rows) >= min_rows:
            kept.append(cut)
            before = rows
    return np.array(kept, np.int64)


def _cuts(counts: Ints, bins: int) -> Ints:
    """After which of the distinct values to cut, given how many rows have each, when there are more values than bins.

    The cuts are those nearest to equal parts of the rows. A value that fills two parts or more has both its ends cut;
    it counts as two parts, however many rows have it.
    """
    falling = np.sort(counts)[::-1]
    rest = falling[::-1].cumsum()[::-1]
    heavy = int((falling * (bins - 2 * np.arange(len(falling))) <= 2 * rest).argmax())
    most = -(-2 * int(rest[heavy]) // (bins - 2 * heavy))
    ends = np.minimum(counts, most).cumsum()
    parts = np.arange(1, bins) * ends[-1]
    possible = ends[:-1] * bins
    after = np.searchsorted(possible, parts).clip(max=len(possible) - 1)
    before = (after - 1).clip(min=0)
    return np.unique(np.where(parts - possible[before] <= possible[after] - parts, before, after))
