"""Dynamic choice: each cell is filled by the member that did best in the most similar held-out rows.

Rows are compared by the cells that are known (Gower's distance). What members lost there is drawn towards what they
lost in the whole column, as if there were so many more rows of it; how many is chosen by the held-out cells themselves,
each by its neighbours without itself. Unless that is clearly better, the column's best member fills all of its cells;
so it does where nothing of a row is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.ensembles.settings import DynamicSettings
from unpooled.complete.ensembles.trial import Trial, best_members, clearly_better, mean_losses, try_members
from unpooled.complete.ensembles.way import Combine, Way, by_column
from unpooled.data.coding import Column, distances

_SHRINKING = (0.1, 0.5, 2.0)
"""How many rows of the whole column there are for each neighbour."""
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class Choice:
    """What was known of held-out rows, rows × columns, and what each member lost there, members × rows × columns.

    `shrinking` has how strongly a column's losses are drawn together; infinite: its best member fills all cells.
    """

    known: Floats
    losses: Floats
    shrinking: Floats

    def fits(self, members: int, columns: int) -> bool:
        """Whether the arrays are of so many members and columns."""
        rows = len(self.known) if self.known.ndim else 0
        shapes = (self.known.shape, self.losses.shape, self.shrinking.shape)
        return shapes == ((rows, columns), (members, rows, columns), (columns,)) and bool((self.shrinking > 0).all())


def _learn(settings: DynamicSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator) -> Choice:
    return learned_from(settings, try_members(settings, columns, values, rng), columns)


def learned_from(settings: DynamicSettings, trial: Trial, columns: Sequence[Column]) -> Choice:
    """The losses of members, and for each column how strongly they are drawn together."""
    losses = trial.losses(columns)
    overall, best = mean_losses(losses), best_members(columns, losses)
    shrinking = np.full(len(columns), np.inf)
    local = local_losses(settings, columns, trial.known, trial.known, losses, trial.hidden, own=True)
    for place, near in enumerate(local):
        if near.shape[1]:
            cells = losses[:, trial.hidden[:, place], place]
            shrinking[place] = _best_shrinking(near, overall[:, place], cells, cells[best[place]])
    return Choice(trial.known, losses, shrinking)


def _best_shrinking(near: Floats, overall: Floats, losses: Floats, of_best: Floats) -> float:
    """Infinite unless a choice by neighbours is clearly better than the best member alone."""
    each = np.arange(losses.shape[1])
    tried = [losses[chosen(near, overall, strength), each] for strength in _SHRINKING]
    lowest = int(np.argmin([one.mean() for one in tried]))
    return _SHRINKING[lowest] if clearly_better(tried[lowest], of_best) else np.inf


def chosen(near: Floats, overall: Floats, strength: float) -> Ints:
    """The member for each cell, by what members lost near it (members × cells) and in the whole column."""
    best: Ints = (near + strength * overall[:, np.newaxis]).argmin(axis=0)
    return best


def local_losses(
    settings: DynamicSettings,
    columns: Sequence[Column],
    rows: Floats,
    held: Floats,
    losses: Floats,
    wanted: Bools,
    *,
    own: bool = False,
) -> list[Floats]:
    """For each column the mean losses in the rows nearest to each wanted cell, members × cells.

    Where nothing of a row is known, or no more held-out cells than neighbours, they are those of the column. Rows that
    are the held-out ones themselves are not their own neighbours.
    """
    overall, usable = mean_losses(losses), ~np.isnan(losses[0])
    found = [np.repeat(one[:, np.newaxis], cells.sum(), axis=1) for one, cells in zip(overall.T, wanted.T, strict=True)]
    count, informed = settings.neighbours, ~np.isnan(rows).all(axis=1)
    enough = usable.sum(axis=0) > count
    asked = np.flatnonzero(informed & wanted[:, enough].any(axis=1))
    number = np.cumsum(wanted, axis=0) - 1
    for block, apart in _apart(columns, rows, held, asked):
        if own:
            apart[np.arange(len(block)), block] = np.inf
        for place in np.flatnonzero(enough & wanted[block].any(axis=0)):
            cells, able = np.flatnonzero(wanted[block, place]), np.flatnonzero(usable[:, place])
            near = able[np.argpartition(apart[np.ix_(cells, able)], count - 1, axis=1)[:, :count]]
            found[place][:, number[block[cells], place]] = losses[:, near, place].mean(axis=2)
    return found


def _apart(columns: Sequence[Column], rows: Floats, held: Floats, asked: Ints) -> Iterator[tuple[Ints, Floats]]:
    """Rows that are asked about, and their distances to the held-out rows, a block at a time."""
    step = max(_CELLS_AT_ONCE // max(len(held), 1), 1)
    for block in np.split(asked, range(step, len(asked), step)):
        yield block, distances(columns, rows[block], held)


def _dynamic(
    settings: DynamicSettings, columns: Sequence[Column], learned: Choice, values: Floats, wanted: Bools
) -> Combine:
    overall, best = mean_losses(learned.losses), best_members(columns, learned.losses)
    compared = wanted & np.isfinite(learned.shrinking)
    near = local_losses(settings, columns, values, learned.known, learned.losses, compared)

    def one_column(place: int, cells: Floats) -> Floats:
        strength = learned.shrinking[place]
        if np.isinf(strength):
            of_best: Floats = cells[best[place]]
            return of_best
        found: Floats = cells[chosen(near[place], overall[:, place], strength), np.arange(cells.shape[1])]
        return found

    return by_column(wanted, one_column)


DYNAMIC = Way(DynamicSettings, Choice, _learn, _dynamic)
