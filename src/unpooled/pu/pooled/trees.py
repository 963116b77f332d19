"""Learning from bags where all columns are in one place, with our own trees or another of our learners.

>>> import numpy as np
>>> from unpooled.pu.methods import rank
>>> from unpooled.pu.settings import BaggingSettings
>>> rng = np.random.default_rng(1)
>>> matrix = rng.normal(size=(300, 2))
>>> positive = matrix[:, 0] > 1
>>> known = positive & (np.arange(300) % 2 == 0)
>>> ranking = rank(known, BaggingSettings(bags=5), PooledTrees(matrix, GbdtParameters(trees=20)), seed=1)
>>> bool(positive[ranking.order[:10]].mean() > 0.7)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.pu.bags import CLASSES, Bag
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters, Model
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.resume import Fits
from unpooled.vertical.team import alone
from unpooled.vertical.trees.parameters import AnyTrees, GbdtParameters


class Learner(Protocol):
    """Learns from bags of its own rows; scores other rows by the models that it made last."""

    def __call__(self, bags: Sequence[Bag]) -> Sequence[Floats]: ...

    def score(self, matrix: Floats) -> Floats: ...


class PooledModels:
    """Any of our learners, a model for each bag, all of them in step.

    The federated run gives the same scores if its columns come in the same order; those of trees to the last bit.
    """

    def __init__(self, columns: Columns, parameters: LearnerParameters) -> None:
        if parameters.classes != 2:
            raise InputError("look-alikes: the learner must be one of two classes")
        self._columns = columns
        self._fits = Fits(alone(), parameters, columns)
        self._model: Model | None = None

    def __call__(self, bags: Sequence[Bag]) -> list[Floats]:
        fitted = self._fits.scored(self._fits.fit([bag.target for bag in bags], CLASSES))
        self._model = fitted.model
        return [scores[:, 0] for scores in fitted.scores or ()]

    def score(self, matrix: Floats) -> Floats:
        """The mean probability by the models made last; of training rows too, which these have seen."""
        if self._model is None:
            raise InputError("look-alikes: nothing has been learned yet")
        found = self._fits.learner.score(alone(), self._model, Columns(matrix, self._columns.names))
        return mean_of_models(found)[:, 0]


class PooledTrees(PooledModels):
    """Trees on rows × columns."""

    def __init__(self, matrix: Floats, parameters: AnyTrees | None = None) -> None:
        names = tuple(f"column {place + 1}" for place in range(matrix.shape[1]))
        super().__init__(Columns(matrix, names), parameters or GbdtParameters())
