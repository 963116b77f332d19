"""Hot deck: the cells to be filled are copied together from a donor, a row that has them.

The donor is drawn among the rows nearest by the cells that are known (Gower's distance), or among all of them. Where no
row has all the cells that are wanted together, each is copied from a donor of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.completers.completer import Completer, CompleterSettings, row_patterns, some_rows
from unpooled.data.coding import Column, distances

_CELLS_AT_ONCE = 2_000_000
_TIE = 1e-9


class HotDeckSettings(CompleterSettings):
    """Cells are copied from a donor row."""

    completer: Literal["hot-deck"] = Field("hot-deck", description="copies from a donor row")
    donor: Literal["nearest", "random"] = Field(
        "nearest", description="'nearest': drawn among the rows nearest by the known cells; 'random': among all rows"
    )
    neighbours: int = Field(5, description="how many nearest rows a donor is drawn from", ge=1)
    donors: int = Field(5_000, description="the most rows that are kept as donors, drawn at random", ge=1)


@dataclass(frozen=True, eq=False)
class Deck:
    """The donors, rows × columns."""

    donors: Floats


@dataclass(frozen=True, eq=False)
class Group:
    """Rows in which the same cells are wanted, donors that have these, and for each row the nearest; None: all."""

    rows: Ints
    places: Ints
    donors: Ints
    nearest: Ints | None


def _fit(settings: HotDeckSettings, _: Sequence[Column], values: Floats, rng: np.random.Generator) -> Deck:
    return Deck(some_rows(values, settings.donors, rng))


def _draw(
    settings: HotDeckSettings,
    columns: Sequence[Column],
    state: Deck,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    count = settings.neighbours if settings.donor == "nearest" else None
    groups = list(donor_groups(count, columns, state.donors, values, wanted, rng))
    while True:
        filled = values.copy()
        for group in groups:
            chosen = group.donors[chosen_donors(group, rng)]
            filled[np.ix_(group.rows, group.places)] = state.donors[np.ix_(chosen, group.places)]
        yield filled


def chosen_donors(group: Group, rng: np.random.Generator) -> Ints:
    """For each row of a group a donor, as a place among the group's."""
    if group.nearest is None:
        return rng.integers(len(group.donors), size=len(group.rows))
    chosen: Ints = group.nearest[np.arange(len(group.rows)), rng.integers(group.nearest.shape[1], size=len(group.rows))]
    return chosen


def donor_groups(
    neighbours: int | None,
    columns: Sequence[Column],
    donors: Floats,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Group]:
    """Rows by the cells that are wanted, with so many nearest donors for each, or without a number all donors."""
    has = ~np.isnan(donors)
    for pattern, rows in row_patterns(wanted):
        places = np.flatnonzero(pattern)
        together = [places] if has[:, places].all(axis=1).any() else [np.array([place]) for place in places]
        for some in together if len(places) else []:
            able = np.flatnonzero(has[:, some].all(axis=1))
            nearest = None
            if neighbours is not None and not np.isnan(values[rows]).all() and len(able) > neighbours:
                nearest = nearest_donors(neighbours, columns, values[rows], donors[able], rng)
            yield Group(rows, some, able, nearest)


def nearest_donors(
    count: int, columns: Sequence[Column], rows: Floats, donors: Floats, rng: np.random.Generator
) -> Ints:
    """For each row the places of the nearest donors; among equally near ones chance decides."""
    nearest = np.empty((len(rows), count), np.int64)
    step = max(_CELLS_AT_ONCE // len(donors), 1)
    for start in range(0, len(rows), step):
        apart = distances(columns, rows[start : start + step], donors)
        apart += _TIE * rng.random(apart.shape)
        nearest[start : start + step] = np.argpartition(apart, count - 1, axis=1)[:, :count]
    return nearest


HOT_DECK = Completer(HotDeckSettings, Deck, _fit, _draw)
