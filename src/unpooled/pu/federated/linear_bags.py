"""Learning linear models from bags, jointly: `learn` at the active party, `help_learn` at the others."""

from __future__ import annotations

from collections.abc import Sequence

from unpooled.arrays import Floats
from unpooled.checkpoint import Notebook
from unpooled.pu.bags import Bag
from unpooled.pu.federated.tree_bags import CLASSES
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear import fitting, predictor
from unpooled.vertical.linear.model import LinearModel, LinearModels, LinearParts
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team


def learn(
    team: Team, base: LinearParameters, columns: Columns, bags: Sequence[Bag], _notebook: Notebook | None
) -> tuple[LinearModels, list[Floats]]:
    """A model for each bag, all in lock-step, and for each what it says of every row; nothing is kept on the way."""
    targets = [Target(bag.labels, bag.weights, bag.seed) for bag in bags]
    models = [fitted.model for fitted in fitting.fit_many(team, base, columns, targets, CLASSES)]
    return LinearModels(models=tuple(models)), score(team, models, columns.matrix)


def help_learn(
    team: Team, base: LinearParameters, columns: Columns, models: int, _notebook: Notebook | None
) -> LinearParts:
    """Take part with this party's columns in so many models."""
    parts = fitting.help_fit_many(team, base, columns, models)
    predictor.help_predict_many(team, parts, columns.matrix)
    return LinearParts(parts=tuple(parts))


def score(team: Team, models: Sequence[LinearModel], matrix: Floats) -> list[Floats]:
    """At the active party: what each model says of rows."""
    base = models[0].parameters
    each = predictor.score_many(team, models, matrix)
    return [predictor.probabilities(base, found)[:, 1] for found in each]
