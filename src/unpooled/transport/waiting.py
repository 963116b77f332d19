"""Who waits for whom. Parties that wait in one room notice at once when they wait in a circle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from unpooled.errors import Deadlock


@dataclass(frozen=True)
class Wait:
    """Whom somebody waits for, what for, and how to see that the wait is over."""

    whom: str
    what: str
    over: Callable[[], bool]


class WaitingRoom:
    """A lock, and who waits for whom under it. Mailboxes that share one notice when they wait in a circle."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waits: dict[str, Wait] = {}

    def enter(self, who: str, wait: Wait) -> None:
        """Note, holding the lock, that somebody waits; Deadlock if those waited for wait for `who`."""
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
