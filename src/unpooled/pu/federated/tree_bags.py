"""Learning trees from bags, jointly: `learn` at the active party, `help_learn` at the others."""

from __future__ import annotations

from collections.abc import Sequence

from unpooled.arrays import Floats
from unpooled.checkpoint import Notebook
from unpooled.pu.bags import Bag
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.vertical.trees import ensemble, predictor
from unpooled.vertical.trees.binning import Binning
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.parameters import AnyTrees

CLASSES = ("other", "positive")


def learn(
    team: Team, base: AnyTrees, columns: Columns, binning: Binning, bags: Sequence[Bag], notebook: Notebook | None
) -> tuple[Model, list[Floats]]:
    """A model for each bag, all in lock-step, and for each what it says of every row."""
    targets = [Target(bag.labels, bag.weights, bag.seed) for bag in bags]
    fitted = ensemble.fit(team, base, columns, targets, CLASSES, binning, notebook)
    found = list(fitted.scores)
    if not base.hide_bags:  # rows outside were left out, and have no scores yet
        found = predictor.scores(team, fitted.model, columns.matrix)
    return fitted.model, [scores[:, 0] for scores in found]


def help_learn(
    team: Team, base: AnyTrees, columns: Columns, binning: Binning, models: int, notebook: Notebook | None
) -> Part:
    """Lend columns for so many models."""
    part = ensemble.help_fit(team, base, columns, models=models, binning=binning, notebook=notebook)
    if not base.hide_bags:
        predictor.help_predict(team, part, columns.matrix, same_rows=True)
    return part
