"""A table's matrix as units of a network, and back.

The matrix of units has float32 numbers: first the scalars of all columns, then the groups of one-hot units, column by
column. Both parts are padded with zeros to round widths, and at least one unit at the end is padding, so that tables of
similar width need no new compilation. A missing cell of a column that had none when it was learned is all zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Floats
from unpooled.data.coding import Column
from unpooled.networks.coders import (
    Coder,
    Way,
    cells_of,
    choose,
    coder_arrays,
    coder_from,
    draw,
    learn_coder,
    scalars_of,
)

Singles = NDArray[np.float32]

_SCALARS = 8
_WIDTH = 64
_PREFIX = "encoding."


@dataclass(frozen=True)
class Group:
    """One-hot units of one column: where they are, and whether the last one stands for missing cells."""

    column: int
    start: int
    units: int
    missing: bool


@dataclass(frozen=True)
class Layout:
    """Which unit belongs to what.

    `scalars` has the unit of each column's scalar, -1 if it has none; the first `scalar_units` are for scalars.
    """

    scalars: tuple[int, ...]
    groups: tuple[Group, ...]
    scalar_units: int
    width: int

    @cached_property
    def column_of(self) -> NDArray[np.int64]:
        """The column that each unit belongs to, -1 for padding."""
        found = np.full(self.width, -1)
        for column, unit in enumerate(self.scalars):
            if unit >= 0:
                found[unit] = column
        for group in self.groups:
            found[group.start : group.start + group.units] = group.column
        return found


def _layout(coders: Sequence[Coder]) -> Layout:
    numbers = iter(range(len(coders)))
    scalars = tuple(next(numbers) if coder.scalar else -1 for coder in coders)
    scalar_units = _round_up(max(scalars, default=-1) + 1, _SCALARS)
    groups, start = [], scalar_units
    for column, coder in enumerate(coders):
        if coder.units:
            groups.append(Group(column, start, coder.units, coder.missing))
            start += coder.units
    return Layout(scalars, tuple(groups), scalar_units, _round_up(start + 1, _WIDTH))


def _round_up(count: int, step: int) -> int:
    return -(-max(count, 1) // step) * step


@dataclass(frozen=True, eq=False)
class Encoding:
    """A coder for each column."""

    coders: tuple[Coder, ...]

    @cached_property
    def layout(self) -> Layout:
        """Where each column's units are."""
        return _layout(self.coders)

    def encode(self, values: Floats, rng: np.random.Generator) -> Singles:
        """Rows as units."""
        units = np.zeros((len(values), self.layout.width), np.float32)
        starts = {group.column: group.start for group in self.layout.groups}
        for place, coder in enumerate(self.coders):
            rows = np.flatnonzero(~np.isnan(values[:, place]))
            cells = values[rows, place]
            chosen = choose(coder, cells, rng)
            if coder.scalar:
                units[rows, self.layout.scalars[place]] = scalars_of(coder, cells, chosen)
            if coder.units:
                units[rows[chosen >= 0], starts[place] + chosen[chosen >= 0]] = 1.0
            if coder.missing:
                units[np.isnan(values[:, place]), starts[place] + coder.units - 1] = 1.0
        return units

    def decode(self, units: Singles, rng: np.random.Generator, *, missing: bool = True) -> Floats:
        """Units as rows: one unit of each group is drawn, its numbers being chances; `missing` cells only if wanted."""
        values = np.empty((len(units), len(self.coders)))
        groups = {group.column: group for group in self.layout.groups}
        for place, coder in enumerate(self.coders):
            chosen = np.zeros(len(units), np.int64)
            if group := groups.get(place):
                width = group.units - (coder.missing and not missing)
                chances = units[:, group.start : group.start + width].astype(np.float64)
                chosen = draw(chances, rng)
            absent = coder.missing & (chosen == coder.units - 1) & missing
            scalars = units[:, self.layout.scalars[place]].astype(np.float64) if coder.scalar else np.zeros(len(units))
            cells = cells_of(coder, scalars, np.where(absent, 0, chosen), rng)
            values[:, place] = np.where(absent, np.nan, cells)
        return values

    def unit_mask(self, cells: Bools) -> Bools:
        """Rows × units: those that belong to the cells."""
        column_of = self.layout.column_of
        return np.where(column_of >= 0, cells[:, column_of], False)

    def arrays(self) -> dict[str, Floats]:
        """What there is to keep, by name."""
        return {
            f"{_PREFIX}{place}.{name}": array
            for place, coder in enumerate(self.coders)
            for name, array in coder_arrays(coder).items()
        }


def learn_encoding(
    columns: Sequence[Column], values: Floats, way: Way, *, levels: int = 100, discrete_values: int = 0
) -> Encoding:
    """How to code columns that have at least one known cell each.

    Numbers and dates are coded in the given way, or as one-hot units if they have at most so many `discrete_values`.
    At most so many `levels` of a column have a unit of their own.
    """
    coders = [
        learn_coder(column, cells, way, levels, discrete_values)
        for column, cells in zip(columns, values.T, strict=True)
    ]
    return Encoding(tuple(coders))


def encoding_from(columns: Sequence[Column], arrays: Mapping[str, NDArray[Any]]) -> Encoding:
    """What `Encoding.arrays` told; ValueError if it cannot have been that."""
    own: list[dict[str, NDArray[Any]]] = [{} for _ in columns]
    for name, array in arrays.items():
        place, _, what = name.removeprefix(_PREFIX).partition(".")
        if not (name.startswith(_PREFIX) and place.isdecimal() and int(place) < len(columns)):
            raise ValueError("an array does not belong to a column")
        own[int(place)][what] = array
    return Encoding(tuple(map(coder_from, columns, own)))


def is_encoding(name: str) -> bool:
    """Whether an array of this name is part of an encoding."""
    return name.startswith(_PREFIX)
