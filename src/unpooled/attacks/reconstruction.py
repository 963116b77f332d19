"""Reconstruction of bins: each opened split says on which side of a threshold rows are, so bounds close in on cells.

Only sides of splits are used. The sums over bins say more, so this is the least that the active party can tell.
"""

from __future__ import annotations

from unpooled.attacks.opened_sides import OpenedSides
from unpooled.attacks.trees_seen import TreesSeen


def sides_of(seen: TreesSeen, rows: int) -> OpenedSides:
    """What the opened splits leave possible of each cell, in all rows that take part."""
    sides = OpenedSides(seen.layout, rows)
    for split in seen.opened:
        sides.open(split.feature, split.place, split.missing_left, split.rows, split.right)
    return sides


def cells_known(seen: TreesSeen, rows: int) -> float:
    """The fraction of cells with one possible bin left, in columns with more than one bin."""
    sides = sides_of(seen, rows)
    one_value = (sides.low == sides.high) & ~sides.missing
    known = (one_value | (sides.low > sides.high))[:, [feature.size > 1 for feature in seen.layout.features]]
    return float(known.mean()) if known.size else 0.0
