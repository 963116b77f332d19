"""A trial of the members: what they answer in rows that they were not fitted to, where the truth is known.

A quarter of the rows is held out, members are fitted to the others, and cells of held-out rows are hidden as cells are
missing elsewhere in the table: a row takes the pattern of a row that lacks the same cells and more, if there is one, so
that as much is known of it as of rows that are to be filled. Where nothing is missing, a third of the cells is hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.ensembles.members import answers, fit_members
from unpooled.complete.ensembles.settings import LearningSettings
from unpooled.data.coding import Column

_QUARTERS = 4
_PATTERNS = 1_000
_HIDDEN = 1 / 3
_LEAST = 1e-12
_OVERALL_CELLS = 5.0  # a member's error over all columns counts as much as so many cells of a column


@dataclass(frozen=True, eq=False)
class Trial:
    """Held-out rows: what was left known of them, which cells were hidden, the truth, and what members answered.

    Members' answers are members × rows × columns.
    """

    known: Floats
    hidden: Bools
    truth: Floats
    answers: Floats

    def losses(self, columns: Sequence[Column]) -> Floats:
        """How wrong each answer is, NaN where nothing was hidden: the squared error in variances of the column, or 1
        for a wrong class."""
        apart = self.answers - self.truth
        numbers = np.array([column.is_number for column in columns])
        scale = np.array([column.spread or 1.0 for column in columns])
        found: Floats = np.where(numbers, (apart / scale) ** 2, (apart != 0.0).astype(np.float64))
        return np.where(self.hidden, found, np.nan)


def try_members(
    settings: LearningSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator
) -> Trial:
    """Hold out quarters of the rows in turn."""
    rows = rng.permutation(np.flatnonzero(~np.isnan(values).all(axis=1)))
    quarters = np.array_split(rows, _QUARTERS)[: settings.quarters]
    most = -(-settings.rows // settings.quarters)
    parts = [
        _part(settings, columns, values, quarter, quarter[:most], own)
        for quarter, own in zip(quarters, rng.spawn(len(quarters)), strict=True)
        if 0 < len(quarter) < len(rows)
    ]
    if not parts:
        nothing = np.empty((0, len(columns)))
        return Trial(nothing, nothing.astype(np.bool_), nothing, np.empty((len(settings.members), *nothing.shape)))
    return Trial(
        np.concatenate([part.known for part in parts]),
        np.concatenate([part.hidden for part in parts]),
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.answers for part in parts], axis=1),
    )


def _part(
    settings: LearningSettings,
    columns: Sequence[Column],
    values: Floats,
    quarter: Ints,
    held: Ints,
    rng: np.random.Generator,
) -> Trial:
    for_hiding, for_fit, for_answers = rng.spawn(3)
    hidden = hidden_cells(values, held, for_hiding)
    truth = values[held]
    known = np.where(hidden, np.nan, truth)
    members = fit_members(settings, columns, np.delete(values, quarter, axis=0), for_fit)
    found = next(answers(settings, members, known, hidden, for_answers))
    return Trial(known, hidden & ~np.isnan(found).any(axis=0), truth, found)


def hidden_cells(values: Floats, held: Ints, rng: np.random.Generator) -> Bools:
    """Which known cells of these rows are hidden."""
    missing = np.isnan(values)
    own = missing[held]
    patterns = missing[missing.any(axis=1)]
    if not len(patterns):
        return rng.random(own.shape) < _HIDDEN
    patterns = patterns[rng.permutation(len(patterns))[:_PATTERNS]]
    lacks_more = (own.astype(np.float64) @ (~patterns).T.astype(np.float64) == 0) & (
        own.sum(axis=1)[:, np.newaxis] < patterns.sum(axis=1)
    )
    likely = np.where(lacks_more, 1.0, 0.0) + rng.random(lacks_more.shape)
    chosen: Bools = patterns[likely.argmax(axis=1)]
    return chosen & ~own


def mean_losses(losses: Floats) -> Floats:
    """Of each member in each column, members × columns; where few cells were hidden, drawn towards that in all columns.

    Without any hidden cell all members are alike.
    """
    hidden = ~np.isnan(losses)
    known = np.where(hidden, losses, 0.0)
    overall = known.sum(axis=(1, 2)) / np.maximum(hidden.sum(axis=(1, 2)), 1)
    found: Floats = (known.sum(axis=1) + _OVERALL_CELLS * overall[:, np.newaxis]) / (
        hidden.sum(axis=1) + _OVERALL_CELLS
    )
    return found


def best_members(columns: Sequence[Column], losses: Floats) -> Ints:
    """For each column the member to follow: the best over all numbers, or over all classes, unless the column's own is
    clearly better there. Without any hidden cell it is the first."""
    cells = [of_column[:, ~np.isnan(of_column[0])] for of_column in np.moveaxis(losses, 2, 0)]
    found = np.zeros(len(columns), np.int64)
    for numbers in (True, False):
        places = [place for place, column in enumerate(columns) if column.is_number == numbers and cells[place].size]
        if not places:
            continue
        means = np.column_stack([cells[place].mean(axis=1) for place in places])
        overall = int((means / np.maximum(means.mean(axis=0), _LEAST)).mean(axis=1).argmin())
        found[[column.is_number == numbers for column in columns]] = overall
        for place, own in zip(places, means.argmin(axis=0), strict=True):
            if clearly_better(cells[place][own], cells[place][overall]):
                found[place] = own
    return found


def clearly_better(losses: Floats, than: Floats) -> bool:
    """Whether a mean loss is smaller by more than the standard error of the difference, cell by cell."""
    saved = than - losses
    return len(saved) > 1 and bool(saved.mean() > saved.std(ddof=1) / len(saved) ** 0.5)
