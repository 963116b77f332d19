"""A completer on a matrix of numbers (`data.coding`) some of whose columns may have no value: these are left alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import Completer, CompleterSettings
from unpooled.data.coding import Column, rounded, seen


@dataclass(frozen=True, eq=False)
class Learned:
    """A completer that has learned: the columns as it saw them, and its state, None if no column has a value."""

    completer: Completer
    settings: CompleterSettings
    columns: tuple[Column, ...]
    state: Any


def learn(
    completer: Completer,
    settings: CompleterSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
) -> Learned:
    """Learn from the known cells."""
    columns = tuple(seen(column, cells) for column, cells in zip(columns, values.T, strict=True))
    used = [place for place, column in enumerate(columns) if not column.empty]
    state = None
    if used:
        state = completer.fit(settings, [columns[place] for place in used], values[:, used], rng)
    return Learned(completer, settings, columns, state)


def draw(
    learned: Learned, values: Floats, wanted: Bools, rng: np.random.Generator, *, rounding: bool = True
) -> Iterator[Floats]:
    """Values with the wanted cells filled, again and again; without `rounding`, numbers may have any digits."""
    used = [place for place, column in enumerate(learned.columns) if not column.empty]
    if not used or not wanted[:, used].any():
        yield from repeat(values)
    columns = [learned.columns[place] for place in used]
    drawn = learned.completer.draw(learned.settings, columns, learned.state, values[:, used], wanted[:, used], rng)
    for cells in drawn:
        filled = values.copy()
        filled[:, used] = np.where(wanted[:, used], _allowed(columns, cells, rounding), values[:, used])
        yield filled


def _allowed(columns: Sequence[Column], cells: Floats, rounding: bool) -> Floats:
    """In the range that was seen; classes are whole, and numbers rounded as the column's own are, if they must be."""
    low, high = (np.array([getattr(column, end) for column in columns], float) for end in ("low", "high"))
    fitting = [
        rounded(column, own) if rounding or not column.is_number else own
        for column, own in zip(columns, cells.T, strict=True)
    ]
    allowed: Floats = np.clip(np.stack(fitting, axis=1), low, high)
    return allowed


def middle(column: Column, cells: Floats) -> Floats:
    """For each cell, draws × cells: the median of numbers, else the most frequent value, the first of several."""
    if column.is_number:
        median: Floats = np.median(cells, axis=0)
        return median
    counts = np.array([(cells == one).sum(axis=0) for one in cells])
    first: Floats = np.where(counts == counts.max(axis=0), cells, np.inf).min(axis=0)
    return first
