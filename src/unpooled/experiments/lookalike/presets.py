"""The settings that experiments name: the VFPU paper's, for every learner, and the job's own.

A learner's settings go through the job's parameters, so whatever is not said here is as the job has it: what bags and
nodes show, `min_rows`, how linear models are protected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from unpooled.jobs.lookalike.parameters import Parameters
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.linear.parameters import PAPER_PRESETS

LEARNERS = {"linear": "LR", "rf": "RF", "gbdt": "GBDT", "xgb": "XGB", "lgb": "LGB"}
"""The learners, and what the paper calls them."""

Settings = Literal["paper", "paper 3", "default"]
"""The paper's for its experiments 1 and 2; for its experiment 3; the job's."""

TREES: dict[str, Mapping[str, Any]] = {
    "paper": {"trees": 50, "depth": 6, "learning_rate": 0.1},
    "paper 3": {"trees": 500, "depth": 12, "learning_rate": 0.02},
    "default": {},
}
LINEAR: dict[str, Mapping[str, Any]] = {
    "paper": PAPER_PRESETS["experiments 1 and 2"].model_dump(exclude_unset=True) | {"reveal": "gradients"},
    "paper 3": PAPER_PRESETS["experiment 3"].model_dump(exclude_unset=True) | {"reveal": "gradients"},
    "default": {},
}


def model_of(learner: str, settings: Settings, **more: Any) -> LearnerParameters:
    """A learner with these settings, as the job has it."""
    chosen = dict((LINEAR if learner == "linear" else TREES)[settings])
    if learner == "rf":
        chosen.pop("learning_rate", None)
    return Parameters.model_validate({"model": {"learner": learner, **chosen, **more}}).model


def same_as_default(learner: str, settings: Settings) -> bool:
    """Whether settings are those of the job, so that one search stands for both."""
    return model_of(learner, settings) == model_of(learner, "default")
