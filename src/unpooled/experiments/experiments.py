"""The experiments that there are; no other module knows them by name."""

from __future__ import annotations

from unpooled.errors import PlanError
from unpooled.experiments.completion import COMPLETION
from unpooled.experiments.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (COMPLETION,)


def experiment_named(name: str) -> Experiment:
    """The experiment of this name."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    raise PlanError(f"unknown experiment {name!r}; known are {', '.join(each.name for each in EXPERIMENTS)}")
