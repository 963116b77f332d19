"""What a job will say, told before it starts: for a dry run, and for a policy to refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unpooled.control import Goodbye, PlanOffer
from unpooled.jobs.plan import Plan
from unpooled.wire import Disclosure, disclosure_of, kind_of


@dataclass(frozen=True)
class Exchange:
    """One kind of message from one party to another: how often, and about how many bytes in all.

    Where that depends on how many rows the parties have, which the plan does not know, both are None. `only_if` says
    when a message is sent that is not part of every run.
    """

    sender: str
    receiver: str
    message: type
    frames: int | None = None
    bytes: int | None = None
    only_if: str = ""

    @property
    def kind(self) -> str:
        return kind_of(self.message)

    @property
    def disclosure(self) -> Disclosure:
        return disclosure_of(self.message)


def frame_of_every_job(plan: Plan, inner: Iterable[Exchange]) -> list[Exchange]:
    """A job's own exchanges between those with which every job begins and ends."""
    pairs = [(sender, receiver) for sender in plan.parties for receiver in plan.parties if sender != receiver]
    begin = [Exchange(sender, receiver, PlanOffer, 1, 2_000) for sender, receiver in pairs]
    end = [Exchange(sender, receiver, Goodbye, 1, 30) for sender, receiver in pairs]
    return [*begin, *inner, *end]
