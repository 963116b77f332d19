"""What a party brings to a learner: its columns of the aligned rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unpooled.arrays import Floats

TARGETS, COLUMNS = "targets", "columns"
"""What a party commits to for an audit: the active one to its labels and draws, owners to their columns."""


@dataclass(frozen=True, eq=False)
class Columns:
    """One party's columns of the aligned rows, rows × columns, missing values as not-a-number.

    In a pooled run `blocks` says how many columns each party has, in their order: only columns of the same party are
    bundled, and batches of linear models are as large, as if they were apart. `active` is the block of the active
    party; the others' columns are then treated as if they were lent. `folder` is where large arrays that are made of
    them lie as memory maps; without it they are in memory.
    """

    matrix: Floats
    names: tuple[str, ...]
    blocks: tuple[int, ...] = ()
    active: int | None = None
    folder: Path | None = None
