"""Distance to the closest record: whether filled rows are suspiciously near to rows that were learned from.

A row is compared with the training rows and with rows that were held out from training, by Gower's distance over all
columns (`data.coding.distances`). Where nothing was memorised, a filled row is as likely to be nearest to any of them:
about n / (n + m) of the rows are nearer to one of n training rows than to one of m held-out rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Floats
from unpooled.data.coding import Column, distances, encode_all, learn_all
from unpooled.data.columns import fault
from unpooled.data.table import Table

_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class ClosestRecord:
    """The fraction of filled rows nearer to a training row than to any held-out row, ties counting half.

    `expected` is that fraction if nothing was memorised, `copies` the fraction of filled rows with a training row at
    distance 0. The medians are of the distances to the nearest training row and to the nearest held-out row.
    """

    nearer_to_training: float
    expected: float
    copies: float
    median_to_training: float
    median_to_held_out: float


def closest_record(
    filled: Table, training: Table, held_out: Table, columns: Sequence[Column] | None = None
) -> ClosestRecord:
    """Compare filled rows with rows that were learned from and rows that were not; all have the same columns.

    Ranges and levels are those of the training rows, or of `columns` if others have more.
    """
    for table in (filled, training, held_out):
        if table.frame.is_empty():
            raise fault(table.party, table.origin, "there are no rows to compare")
    columns = learn_all(training) if columns is None else columns
    rows, learned, others = (encode_all(columns, table) for table in (filled, training, held_out))
    to_training, to_held_out = (nearest_distances(columns, rows, part) for part in (learned, others))
    nearer = (to_training < to_held_out) + 0.5 * (to_training == to_held_out)
    return ClosestRecord(
        nearer_to_training=float(nearer.mean()),
        expected=len(learned) / (len(learned) + len(others)),
        copies=float((to_training == 0.0).mean()),
        median_to_training=float(np.median(to_training)),
        median_to_held_out=float(np.median(to_held_out)),
    )


def nearest_distances(columns: Sequence[Column], rows: Floats, others: Floats) -> Floats:
    """The distance of each row to the nearest of the others."""
    step = max(_CELLS_AT_ONCE // len(others), 1)
    parts = (rows[start : start + step] for start in range(0, len(rows), step))
    return np.concatenate([distances(columns, part, others).min(axis=1) for part in parts])
