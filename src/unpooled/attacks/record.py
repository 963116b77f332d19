"""What a party has seen of learning in a simulated job: the messages that it sent and received, and its gradients.

Messages of the engine are left out: in a simulation nothing is protected, in a real run they are random numbers to
whoever receives them. What a product shows to its receiver is there in the messages and gradients that follow from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

M = TypeVar("M")

_LEARNING = "unpooled.vertical."


@dataclass(eq=False)
class Record:
    """All that passed between a party and its peers while they learned, in order; `note` is an observer."""

    entries: list[tuple[str, object]] = field(default_factory=list)

    def note(self, peer: str, what: object) -> None:
        if type(what).__module__.startswith(_LEARNING):
            self.entries.append((peer, what))

    def of(self, kind: type[M]) -> Iterator[M]:
        """The messages of one type."""
        return (what for _, what in self.entries if isinstance(what, kind))
