"""What a passive party's result says of the columns it lent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unpooled.jobs.private import Policy
from unpooled.vertical.learner import Part
from unpooled.vertical.learners import learner_named


def lent_importance(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """How far all models together go by each column: counts are added up, weights are averaged; the most first."""
    merged: dict[str, dict[str, Any]] = {}
    for part in parts:
        for one in learner_named(part.learner).importance(part).get("importance", ()):
            entry = merged.setdefault(one["name"], {"name": one["name"]})
            for key, value in one.items():
                if key != "name":
                    entry[key] = entry.get(key, 0) + (value / len(parts) if key == "weight" else value)
    return sorted(merged.values(), key=lambda one: (-one.get("rows", one.get("weight", 0)), one["name"]))


def lent_limits(policy: Policy) -> dict[str, float]:
    """The limits that the party itself has set."""
    limits = {
        "questions": policy.maximum_questions,
        "bits_per_row": policy.maximum_bits_per_row,
        "splits": policy.maximum_splits,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}
