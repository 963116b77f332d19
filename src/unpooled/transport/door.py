"""The accepting side's memory of who was turned away.

gRPC tells a Python server nothing of a TLS handshake that fails. It does ask for the server's certificate before each
one, so a handshake that no link follows can be noticed, if not explained: the reason is known to the dialler alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

log = logging.getLogger("unpooled.transport")

_HANDSHAKE_SECONDS = 2.0
_REASONS_KEPT = 5


class Door:
    """Counts handshakes that led to nothing, and keeps the last reasons for which callers were refused."""

    def __init__(self, party: str) -> None:
        self._party = party
        self._lock = threading.Lock()
        self._under_way: deque[float] = deque()
        self._failed = 0
        self._told = 0
        self._refusals: deque[str] = deque(maxlen=_REASONS_KEPT)

    def knock(self) -> None:
        """A TLS handshake begins."""
        with self._lock:
            self._settle()
            self._under_way.append(time.monotonic())

    def welcome(self) -> None:
        """A handshake led to a link."""
        with self._lock:
            self._answered()

    def refuse(self, reason: str) -> None:
        """A caller got through the handshake, but its certificate will not do."""
        with self._lock:
            self._answered()
            self._refusals.append(reason)
        log.warning("%s refused a connection: %s", self._party, reason)

    def report(self) -> None:
        """Log handshakes that came to nothing, each of them once."""
        with self._lock:
            self._settle()
            new, self._told = self._failed - self._told, self._failed
        if new > 0:
            log.warning("%s refused %d connection(s): %s", self._party, new, _FAILED_HANDSHAKE)

    def hint(self) -> str:
        """What to add to the news that somebody never came."""
        with self._lock:
            self._settle()
            reasons = [*dict.fromkeys(self._refusals), *([_FAILED_HANDSHAKE] if self._failed else [])]
        return "".join(f"; a connection was refused: {reason}" for reason in reasons)

    def _answered(self) -> None:
        if self._under_way:
            self._under_way.popleft()

    def _settle(self) -> None:
        while self._under_way and time.monotonic() - self._under_way[0] > _HANDSHAKE_SECONDS:
            self._under_way.popleft()
            self._failed += 1


_FAILED_HANDSHAKE = (
    "its TLS handshake failed, so its certificate is missing, expired or not signed by the authority trusted here "
    "(or it only looked whether anybody is there)"
)
