"""How a plan's products are protected."""

from __future__ import annotations

from unpooled.jobs.plan import Plan
from unpooled.secure.engine import Rules


def rules_of(plan: Plan, questions: int | None = None) -> Rules:
    """The plan's settings for products; a learner that asks often says how many columns it asks about the same rows."""
    return Rules(plan.engine, plan.key_bits, plan.insecure, plan.count_rows, questions)
