"""How often a positive is known: c, and what follows from it (Elkan and Noto, KDD 2008).

A model of "is known" gives g(x), a probability for rows it has not seen. If every positive was as likely to be known as
any other, g(x) = c p(x), with p(x) the probability of being positive. Where classes overlap, the mean of g over known
rows is less than c, so p and the number of positives come out too large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError
from unpooled.pu.bags import Bag, Learn, fold_bags, outside_means

_MOST = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class HeldOut:
    """For every row, known ones too, the score by a model that has not seen the row."""

    known: Bools
    scores: Floats

    @property
    def of_known(self) -> Floats:
        return self.scores[self.known]

    @property
    def of_unlabelled(self) -> Floats:
        return self.scores[~self.known]

    @property
    def c(self) -> float:
        """The fraction of positives that is known: the mean score of known rows."""
        return min(max(float(self.of_known.mean()), 1.0 / len(self.scores)), 1.0)

    def positive(self, scores: Floats) -> Floats:
        """p(x) = g(x) / c, for any row, at most 1."""
        return np.clip(scores / self.c, 0.0, 1.0)

    def positive_if_unlabelled(self, scores: Floats) -> Floats:
        """The same for a row that is not known: (1 - c) / c × g / (1 - g), at most 1."""
        g = np.clip(scores, 0.0, _MOST)
        return np.clip((1.0 - self.c) / self.c * g / (1.0 - g), 0.0, 1.0)


def held_out(known: Bools, learn: Learn, seed: int, folds: int = 5, *, balanced: bool = False) -> HeldOut:
    """Learn known rows against all others, with each fold of either left out once and then scored."""
    bags = held_out_bags(known, seed, folds, balanced=balanced)
    return HeldOut(known, outside_means(bags, learn(bags)))


def held_out_bags(known: Bools, seed: int, folds: int = 5, *, balanced: bool = False) -> list[Bag]:
    """What is learned for that."""
    fold = folds_of(known, folds, seed)
    return fold_bags(known, np.ones(len(known)), fold, np.random.default_rng([seed, 2]), balanced=balanced)


def folds_of(known: Bools, folds: int, seed: int) -> Ints:
    """For each row its fold, known and unlabelled rows each divided evenly."""
    rng = np.random.default_rng([seed, 1])
    fold = np.zeros(len(known), np.int64)
    for what, rows in (("known", np.flatnonzero(known)), ("unlabelled", np.flatnonzero(~known))):
        if len(rows) < folds:
            raise InputError(f"folds: {len(rows)} {what} rows cannot be divided into {folds}")
        fold[rng.permutation(rows)] = np.arange(len(rows)) % folds
    return fold
