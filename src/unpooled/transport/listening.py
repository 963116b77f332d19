"""What threads wait with for sockets, so that one of several can be the one that is woken."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from contextlib import suppress

_LONGEST = 10.0**6  # milliseconds


class Bell:
    """Wakes a thread that waits for sockets, from then on, until it is hushed."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __del__(self) -> None:  # not before the last thread that may ring it is gone
        os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def ring(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def hush(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)


class Ears:
    """What the two threads that may read a connection wait with: its reading thread, and the party's own.

    The reading thread hears of what arrives while it `listens`; of the bell it always hears.
    """

    def __init__(self, connection: socket.socket, alarm: Bell) -> None:
        self._connection, self._bell = connection, Bell()
        self._of_thread, self._of_party = select.epoll(), select.poll()
        self._of_thread.register(connection, select.EPOLLIN)
        self._of_thread.register(self._bell, select.EPOLLIN)
        self._of_party.register(connection, select.POLLIN)
        self._of_party.register(alarm, select.POLLIN)

    def wait(self) -> None:
        """At the reading thread: wait until something arrives, or the bell rings."""
        if any(descriptor == self._bell.fileno() for descriptor, _ in self._of_thread.poll()):
            self._bell.hush()

    def wait_until(self, deadline: float) -> bool:
        """At the party: wait until something arrives, or the alarm rings; False if that takes too long."""
        return bool(self._of_party.poll(min(max(0.0, 1000 * (deadline - time.monotonic())), _LONGEST)))

    def thread_listens(self, *, listens: bool) -> None:
        self._of_thread.modify(self._connection, select.EPOLLIN if listens else 0)

    def call_thread(self) -> None:
        self._bell.ring()


def alarm() -> Bell | None:
    """A bell, where the system has what `Ears` need."""
    return Bell() if sys.platform == "linux" else None
