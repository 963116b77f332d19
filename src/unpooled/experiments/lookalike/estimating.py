"""How long a search probably takes, from its rows, models and trees; measured cells correct it."""

from __future__ import annotations

from math import inf

from unpooled.data.datasets import published
from unpooled.experiments.experiment import Cell
from unpooled.experiments.lookalike.calibrating import FOLDS
from unpooled.experiments.lookalike.networks import by_network
from unpooled.experiments.lookalike.searches import method_in, model_in
from unpooled.pu.federated.search import groups_of
from unpooled.pu.settings import NaiveSettings, VfpuSettings
from unpooled.vertical.learners import learner_of

LEAST = 2.0
"""Reading a data set, preparing it and judging."""

TREE, SPLIT, SPLIT_ROW = 1e-3, 5e-5, 2e-7
"""Seconds of one core for each tree, for each node of it, and for each row and level."""

STEP, STEP_ROW = 8e-5, 1.5e-8
"""The same for each step of a linear model, and for each of its rows."""

LIBRARY = 0.3
"""How long a library takes as a fraction of that."""

TOGETHER = {"shares": 4.0, "plain": 2.0, "paillier 2048": 60.0, "paillier 512, insecure": 12.0}
"""How many times as long parties take with an engine, the pooled search beside it included."""

NETWORK = 15.0
"""Training a network, whose steps are as many for any set."""

STARTED = 15.0
"""Starting the processes of two jobs."""


def seconds(cell: Cell) -> float:
    """A guess."""
    if cell["search"] == "random":
        return LEAST
    if by_network(str(cell["search"])):
        return LEAST + NETWORK
    facts = published(str(cell["set"]))
    rows = float(cell["train"]) * facts.rows
    known = float(cell["train"]) * float(cell["known"]) * facts.positives
    models, bag = _models(cell), _bag(cell, rows, known)
    model = model_in(cell)
    settings = model.model_dump()
    taking_part = rows if settings["hide_bags"] else bag
    if cell["learner"] == "linear":
        steps = 1 + round(taking_part / (settings["batch_rows"] or 1_000))
        rounds_of = learner_of(model).rounds_of
        epochs = rounds_of(model, steps) if rounds_of else 1
        taken = models * epochs * (STEP * steps + STEP_ROW * taking_part)
    else:
        depth, leaves = settings["depth"], settings.get("leaves", inf)
        nodes = min(2.0**depth, bag / 4, leaves)
        taken = models * settings["trees"] * (TREE + SPLIT * nodes + SPLIT_ROW * depth * taking_part)
    taken *= FOLDS if cell["calibrated"] else 1
    if cell["run"] == "library":
        taken *= LIBRARY
    elif cell["run"] != "pooled":
        where, engine = str(cell["run"]).split(", ", 1)
        taken *= TOGETHER[engine]
        taken += STARTED if where == "processes" else 0
    return LEAST + taken


def _models(cell: Cell) -> int:
    if cell["search"] in ("elkan-noto", "supervised"):
        return NaiveSettings().folds
    return sum(groups_of(method_in(cell)))


def _bag(cell: Cell, rows: float, known: float) -> float:
    """Rows of a bag, on average over iterations; methods other than VFPU and bagging learn from nearly all rows."""
    if cell["search"] not in ("vfpu", "bagging"):
        return rows
    method = method_in(cell)
    promoted = method.fraction * rows * (method.iterations - 1) / 2 if isinstance(method, VfpuSettings) else 0.0
    return 2 * (known + promoted)
