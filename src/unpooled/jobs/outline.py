"""What every job sends, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable

from unpooled.control import Goodbye, PlanOffer
from unpooled.jobs.plan import Plan
from unpooled.secure.outline import Exchange

__all__ = ["Exchange", "frame_of_every_job"]


def frame_of_every_job(plan: Plan, inner: Iterable[Exchange]) -> list[Exchange]:
    """A job's own exchanges between those with which every job begins and ends."""
    pairs = [(sender, receiver) for sender in plan.parties for receiver in plan.parties if sender != receiver]
    begin = [Exchange(sender, receiver, PlanOffer, 1, 2_000) for sender, receiver in pairs]
    end = [Exchange(sender, receiver, Goodbye, 1, 30) for sender, receiver in pairs]
    return [*begin, *inner, *end]
