"""Who waits for whom, to detect deadlocks at once; and what waits in a mailbox."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from unpooled.errors import Deadlock
from unpooled.wire import Header

FRAME_BYTES = 1024
"""About what a queued frame takes in memory besides its content: a queue of tiny frames must fill up too."""


@dataclass(frozen=True)
class Wait:
    """Whom a party waits for, what for, and whether the wait is over."""

    whom: str
    what: str
    over: Callable[[], bool]


class WaitingRoom:
    """A lock, and who waits for whom under it. Mailboxes that share one detect deadlocks."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waits: dict[str, Wait] = {}

    def enter(self, who: str, wait: Wait) -> None:
        """Note, holding the lock, that a party waits; Deadlock if it waits in a circle."""
        self._waits[who] = wait
        if wait.over():
            return
        circle, party = [who], wait.whom
        while party not in circle:
            other = self._waits.get(party)
            if other is None or other.over():
                return
            circle.append(party)
            party = other.whom
        circle = circle[circle.index(party) :]
        lines = [f"{party} waits for {self._waits[party].what} from {self._waits[party].whom}" for party in circle]
        del self._waits[who]
        raise Deadlock("; ".join(lines), who)

    def leave(self, who: str) -> None:
        """Note, holding the lock, that the wait is over."""
        del self._waits[who]


@dataclass(eq=False)
class Door:
    """Where a large frame of this size waits."""

    size: int
    open: bool = False


class Arrival(NamedTuple):
    """An item of a queue: a frame, or the head of one that waits at the door; `size` is that of the whole frame."""

    header: Header
    size: int
    door: Door | None = None

    @property
    def takes(self) -> int:
        return FRAME_BYTES + (0 if self.door else self.size)
