"""The accepting side's memory of who was turned away.

gRPC tells a Python server nothing of a TLS handshake that fails. It does ask for the server's certificate before each
one, so a handshake that no link follows can be noticed, if not explained: the reason is known to the dialler alone.
"""

from __future__ import annotations

import logging
import threading
import time

log = logging.getLogger("unpooled.transport")

_HANDSHAKE_SECONDS = 2.0


class Door:
    """Counts handshakes begun, links made and callers refused."""

    def __init__(self, party: str) -> None:
        self._party = party
        self._lock = threading.Lock()
        self._knocks: list[float] = []
        self._answered = 0
        self._told = 0
        self._refusals: list[str] = []

    def knock(self) -> None:
        """A TLS handshake begins."""
        with self._lock:
            self._knocks.append(time.monotonic())

    def welcome(self) -> None:
        """A handshake led to a link."""
        with self._lock:
            self._answered += 1

    def refuse(self, reason: str) -> None:
        """A caller got through the handshake, but its certificate will not do."""
        with self._lock:
            self._answered += 1
            self._refusals.append(reason)
        log.warning("%s refused a connection: %s", self._party, reason)

    def report(self) -> None:
        """Log handshakes that came to nothing, each of them once."""
        with self._lock:
            failed = self._failed()
            new, self._told = failed - self._told, max(failed, self._told)
        if new > 0:
            log.warning("%s refused %d connection(s): %s", self._party, new, _FAILED_HANDSHAKE)

    def hint(self) -> str:
        """What to add to the news that somebody never came."""
        with self._lock:
            reasons = [*dict.fromkeys(self._refusals), *([_FAILED_HANDSHAKE] if self._failed() > 0 else [])]
        return "".join(f"; a connection was refused: {reason}" for reason in reasons)

    def _failed(self) -> int:
        old = sum(time.monotonic() - knock > _HANDSHAKE_SECONDS for knock in self._knocks)
        return max(0, old - self._answered)


_FAILED_HANDSHAKE = (
    "its TLS handshake failed, so its certificate is missing, expired or not signed by the authority trusted here "
    "(or it was no party at all)"
)
