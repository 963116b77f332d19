"""What a learner leaves at a party, whichever learner it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unpooled.arrays import Bools, Floats
from unpooled.vertical.linear.model import LinearModel, LinearModels, LinearPart, LinearParts
from unpooled.vertical.trees.model import Model, Part

AnyWhole = Model | LinearModel | LinearModels
"""What the active party keeps of a model."""
AnyPart = Part | LinearPart | LinearParts
"""What a passive party keeps of it."""


@dataclass(frozen=True, eq=False)
class Learned:
    """At the active party: the model, the score of every common row, which were set aside, and more for the result."""

    model: AnyWhole
    scores: Floats
    test: Bools
    result: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Lent:
    """At a passive party: its part of the model, and more for the result."""

    part: AnyPart
    result: dict[str, Any]
