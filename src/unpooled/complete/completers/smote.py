"""SMOTE for whole tables (Chawla and others 2002): cells between a row of the table and one of its nearest neighbours.

Numbers and dates lie at a random place on the line from the row to the neighbour. All other cells are the most frequent
among the row's nearest neighbours, chance deciding between equally frequent ones. Where cells of a row are known, it is
drawn among the rows nearest by these, as a donor of the hot deck is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.completers.completer import Completer, CompleterSettings, some_rows
from unpooled.complete.completers.hot_deck import Deck, chosen_donors, donor_groups, nearest_donors
from unpooled.data.coding import Column


class SmoteSettings(CompleterSettings):
    """Cells between a row and one of its nearest neighbours."""

    completer: Literal["smote"] = Field(
        "smote", description="between a row and one of its nearest neighbours: numbers interpolated, else the majority"
    )
    neighbours: int = Field(5, description="how many nearest rows count as neighbours", ge=1)
    donors: int = Field(5_000, description="the most rows that are kept, drawn at random", ge=1)


def _fit(settings: SmoteSettings, _: Sequence[Column], values: Floats, rng: np.random.Generator) -> Deck:
    return Deck(some_rows(values, settings.donors, rng))


def _draw(
    settings: SmoteSettings,
    columns: Sequence[Column],
    state: Deck,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    groups = list(donor_groups(settings.neighbours, columns, state.donors, values, wanted, rng))
    found = [Neighbours(settings, columns, state.donors[group.donors], rng) for group in groups]
    while True:
        filled = values.copy()
        for group, neighbours in zip(groups, found, strict=True):
            rows = neighbours.between(chosen_donors(group, rng), rng)
            filled[np.ix_(group.rows, group.places)] = rows[:, group.places]
        yield filled


class Neighbours:
    """The nearest neighbours of rows, found when they are first asked for."""

    def __init__(
        self, settings: SmoteSettings, columns: Sequence[Column], rows: Floats, rng: np.random.Generator
    ) -> None:
        self._columns, self._rows = columns, rows
        self._count = min(settings.neighbours, len(rows) - 1)
        self._found = np.full((len(rows), self._count), -1)
        self._rng = rng.spawn(1)[0]

    def between(self, places: Ints, rng: np.random.Generator) -> Floats:
        """A new row for each of these; cells that are missing in the row itself stay missing."""
        rows = self._rows[places]
        if not self._count:
            return rows.copy()
        near = self._rows[self._nearest(places)]
        chosen = near[np.arange(len(rows)), rng.integers(self._count, size=len(rows))]
        step = rng.random((len(rows), 1))
        new = np.where(np.isnan(chosen), rows, rows + step * (chosen - rows))
        for place, column in enumerate(self._columns):
            if not column.is_number:
                known = ~np.isnan(rows[:, place])
                new[known, place] = _most_frequent(near[known, :, place], rows[known, place], rng)
        return new

    def _nearest(self, places: Ints) -> Ints:
        """The neighbours of these rows; none is its own, unless there are equal ones."""
        new = np.unique(places[self._found[places, 0] < 0])
        if len(new):
            found = nearest_donors(self._count + 1, self._columns, self._rows[new], self._rows, self._rng)
            own = found == new[:, np.newaxis]
            own[~own.any(axis=1), -1] = True
            self._found[new] = found[~own].reshape(len(new), self._count)
        nearest: Ints = self._found[places]
        return nearest


def _most_frequent(near: Floats, own: Floats, rng: np.random.Generator) -> Floats:
    """In each line the most frequent cell, missing ones left out; the row's own if all are missing."""
    counts = (near[:, :, np.newaxis] == near[:, np.newaxis, :]).sum(axis=2) + rng.random(near.shape)
    best = np.where(np.isnan(near), -1.0, counts).argmax(axis=1)
    found = near[np.arange(len(near)), best]
    return np.where(np.isnan(found), own, found)


SMOTE = Completer(SmoteSettings, Deck, _fit, _draw)
