"""How much each tier computes of the experiments of the VFPU paper."""

from __future__ import annotations

from typing import Any

from unpooled.experiments.experiment import Tier
from unpooled.experiments.lookalike.presets import LEARNERS, Settings, same_as_default

TRAIN = {Tier.quick: 0.1, Tier.standard: 0.6, Tier.seed: 0.6}
"""The fraction of the rows that is trained on; 0.6 fits the sizes that the paper names."""

DRAWS = {Tier.quick: 1, Tier.standard: 5, Tier.seed: 5}

ABLATIONS = {Tier.quick: (1, 0.1), Tier.standard: (2, 0.3), Tier.seed: (5, 0.6)}
"""Draws and the fraction trained on where one thing is changed at a time, which takes many searches."""

FEDERATED: dict[Tier, dict[str, Any]] = {
    Tier.quick: {"train": 0.1, "iterations": 2, "bags": 5},
    Tier.standard: {"train": 0.1, "iterations": 2, "bags": 5},
    Tier.seed: {"train": 0.6},
}
"""Federated searches of every learner on every set."""

PAPER: dict[Tier, Settings] = {Tier.quick: "paper", Tier.standard: "paper", Tier.seed: "paper 3"}
"""The paper's settings that a tier takes where the paper has larger ones for its experiment 3."""

TIMED: dict[str, Any] = {"train": 0.05, "iterations": 1, "bags": 2, "hide_bags": "no", "hide_nodes": "no"}
"""The small search that compares engines: encryption takes long."""


def variants(tier: Tier) -> list[tuple[str, Settings]]:
    """Each learner with the paper's settings, and with the job's where these are others."""
    paper = PAPER[tier]
    found: list[tuple[str, Settings]] = [(learner, paper) for learner in LEARNERS]
    return found + [(learner, "default") for learner in LEARNERS if not same_as_default(learner, "paper")]
