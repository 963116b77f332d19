"""Learning linear models from bags, jointly: `learn` at the active party, `help_learn` at the others."""

from __future__ import annotations

from collections.abc import Sequence

from unpooled.checkpoint import Notebook
from unpooled.codec import Floats
from unpooled.pu.bags import Bag
from unpooled.pu.tree_bags import CLASSES
from unpooled.vertical import linear, linear_scoring
from unpooled.vertical.linear_model import LinearModel, LinearModels, LinearParts
from unpooled.vertical.linear_parameters import LinearParameters
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.vertical.trees import Columns


def learn(
    team: Team, base: LinearParameters, columns: Columns, bags: Sequence[Bag], _notebook: Notebook | None
) -> tuple[LinearModels, list[Floats]]:
    """A model for each bag, all in lock-step, and for each what it says of every row; nothing is kept on the way."""
    targets = [Target(bag.labels, bag.weights, bag.seed) for bag in bags]
    models = [fitted.model for fitted in linear.fit_many(team, base, columns, targets, CLASSES)]
    return LinearModels(models=tuple(models)), score(team, models, columns.matrix)


def help_learn(
    team: Team, base: LinearParameters, columns: Columns, models: int, _notebook: Notebook | None
) -> LinearParts:
    """Take part with this party's columns in so many models."""
    parts = linear.help_fit_many(team, base, columns, models)
    linear_scoring.help_predict_many(team, parts, columns.matrix)
    return LinearParts(parts=tuple(parts))


def score(team: Team, models: Sequence[LinearModel], matrix: Floats) -> list[Floats]:
    """At the active party: what each model says of rows."""
    base = models[0].parameters
    each = linear_scoring.score_many(team, models, matrix)
    return [linear_scoring.probabilities(base, found)[:, 1] for found in each]
