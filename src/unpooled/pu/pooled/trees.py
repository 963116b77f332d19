"""Learning from bags where all columns are in one place, with our own trees.

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
from unpooled.pu.bags import Bag
from unpooled.pu.federated.tree_bags import learn
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import alone
from unpooled.vertical.trees.ensemble import own_binning
from unpooled.vertical.trees.model import Model
from unpooled.vertical.trees.parameters import AnyTrees, GbdtParameters
from unpooled.vertical.trees.predictor import mean_of, scores


class Learner(Protocol):
    """Learns from bags of its own rows; scores other rows by the models that it made last."""

    def __call__(self, bags: Sequence[Bag]) -> Sequence[Floats]: ...

    def score(self, matrix: Floats) -> Floats: ...


class PooledTrees:
    """Trees on rows × columns, a model for each bag, all of them in lock-step.

    The federated run gives the same scores, to the last bit, if its columns come in the same order.
    """

    def __init__(self, matrix: Floats, parameters: AnyTrees | None = None) -> None:
        self._parameters = parameters or GbdtParameters()
        if self._parameters.classes != 2:
            raise InputError("look-alikes: the learner must be one of two classes")
        self._columns = Columns(matrix, tuple(f"column {place + 1}" for place in range(matrix.shape[1])))
        self._binning = own_binning(alone(), self._parameters, self._columns)
        self._model: Model | None = None

    def __call__(self, bags: Sequence[Bag]) -> list[Floats]:
        self._model, found = learn(alone(), self._parameters, self._columns, self._binning, bags, None)
        return found

    def score(self, matrix: Floats) -> Floats:
        """The mean probability by the models made last; of training rows too, which these have seen."""
        if self._model is None:
            raise InputError("look-alikes: nothing has been learned yet")
        return mean_of(scores(alone(), self._model, matrix))[:, 0]
