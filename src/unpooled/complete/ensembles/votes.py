"""Combining by votes and means: `vote`, where members count alike, and `weighted`, where they count by their quality.

The weight of a number is the inverse of the member's mean squared error. The weight of a vote is log(p (k - 1) / (1 -
p)) for a member that is right with probability p in a column of k classes, not below 0: the best there is if members
are wrong independently. Of classes with equally many votes the one that the earliest member has named is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.ensembles.settings import EnsembleSettings, LearningSettings, VoteSettings, WeightedSettings
from unpooled.complete.ensembles.trial import mean_losses, try_members
from unpooled.complete.ensembles.way import Combine, Way, by_column
from unpooled.data.coding import Column

_LEAST_LOSS = 1e-6


@dataclass(frozen=True, eq=False)
class Nothing:
    """There is nothing to learn."""

    def fits(self, _: int, __: int) -> bool:
        """Whatever members and columns there are."""
        return True


@dataclass(frozen=True, eq=False)
class Weights:
    """How much each member counts in each column, members × columns."""

    weights: Floats

    def fits(self, members: int, columns: int) -> bool:
        """Whether there is a weight for each, none below 0, and in each column one above."""
        same = self.weights.shape == (members, columns)
        return same and bool((self.weights >= 0).all() and (self.weights.sum(axis=0) > 0).all())


def weighted_vote(cells: Floats, weights: Floats) -> Floats:
    """For each cell, members × cells, the class with most votes; among equals that of the earliest member."""
    votes = np.array([((cells == one) * weights[:, np.newaxis]).sum(axis=0) for one in cells])
    winner = (votes > votes.max(axis=0) - 1e-9).argmax(axis=0)
    found: Floats = cells[winner, np.arange(cells.shape[1])]
    return found


def _learn_nothing(*_: object) -> Nothing:
    return Nothing()


def _vote(_: EnsembleSettings, columns: Sequence[Column], __: Nothing, ___: Floats, wanted: Bools) -> Combine:
    def one_column(place: int, cells: Floats) -> Floats:
        if columns[place].is_number:
            found: Floats = np.median(cells, axis=0)
            return found
        return weighted_vote(cells, np.ones(len(cells)))

    return by_column(wanted, one_column)


def _learn_weights(
    settings: LearningSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator
) -> Weights:
    losses = mean_losses(try_members(settings, columns, values, rng).losses(columns))
    classes = np.array([np.unique(cells[~np.isnan(cells)]).size for cells in values.T])
    return Weights(np.column_stack(list(map(column_weights, columns, classes, losses.T))))


def column_weights(column: Column, classes: int, losses: Floats) -> Floats:
    """The weights of members with these mean losses in a column; they add up to 1."""
    losses = np.clip(losses, _LEAST_LOSS, None if column.is_number else 1 - _LEAST_LOSS)
    weights = 1 / losses
    if not column.is_number:
        weights = np.maximum(np.log((1 - losses) * max(classes - 1, 1) / losses), 0.0)
    total = weights.sum()
    found: Floats = weights / total if total > 0 else np.full(len(losses), 1 / len(losses))
    return found


def _weighted(_: EnsembleSettings, columns: Sequence[Column], learned: Weights, __: Floats, wanted: Bools) -> Combine:
    def one_column(place: int, cells: Floats) -> Floats:
        weights = learned.weights[:, place]
        return weights @ cells if columns[place].is_number else weighted_vote(cells, weights)

    return by_column(wanted, one_column)


VOTE = Way(VoteSettings, Nothing, _learn_nothing, _vote)
WEIGHTED = Way(WeightedSettings, Weights, _learn_weights, _weighted)
