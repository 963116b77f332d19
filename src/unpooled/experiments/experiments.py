"""The experiments that there are; no other module knows them by name."""

from __future__ import annotations

from unpooled.errors import PlanError
from unpooled.experiments.completion import COMPLETION
from unpooled.experiments.experiment import Experiment
from unpooled.experiments.generators import GENERATORS
from unpooled.experiments.imputers import IMPUTERS
from unpooled.experiments.lookalike.ablations import ABLATIONS
from unpooled.experiments.lookalike.baselines import BASELINES
from unpooled.experiments.lookalike.federated_vs_pooled import FEDERATED_VS_POOLED
from unpooled.experiments.lookalike.growth import GROWTH

EXPERIMENTS: tuple[Experiment, ...] = (
    COMPLETION,
    GENERATORS,
    IMPUTERS,
    FEDERATED_VS_POOLED,
    GROWTH,
    BASELINES,
    ABLATIONS,
)
ALL = "all"
"""What stands for every experiment."""


def experiments_named(name: str) -> tuple[Experiment, ...]:
    """The experiment of this name, or all of them."""
    return EXPERIMENTS if name == ALL else (experiment_named(name),)


def experiment_named(name: str) -> Experiment:
    """The experiment of this name."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    raise PlanError(f"unknown experiment {name!r}; known are {', '.join(each.name for each in EXPERIMENTS)} and {ALL}")
