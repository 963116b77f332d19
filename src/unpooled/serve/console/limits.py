"""How often something may happen, kept in memory."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_KEYS = 10_000


@dataclass
class _Counts:
    slot: int
    current: int = 0
    previous: int = 0


class Window:
    """At most `most` times within any `seconds`, for each key.

    The window slides: of the slot before, the part that still lies within the window counts. Only counts are kept, and
    those of the keys that were used last.
    """

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.seconds = seconds
        self._clock = clock
        self._counts: OrderedDict[str, _Counts] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> int:
        """Count once more and return 0, or return after how many seconds to try again."""
        slot, passed = divmod(self._clock(), self.seconds)
        with self._lock:
            counts = self._counts.setdefault(key, _Counts(int(slot)))
            self._counts.move_to_end(key)
            if len(self._counts) > _KEYS:
                self._counts.popitem(last=False)
            if counts.slot != slot:
                counts.previous = counts.current if counts.slot == slot - 1 else 0
                counts.slot, counts.current = int(slot), 0
            if counts.current + counts.previous * (1 - passed / self.seconds) >= self.most:
                return int(self.seconds - passed) + 1
            counts.current += 1
            return 0

    def give_back(self, key: str) -> None:
        """Count once less: what happened does not count against the limit."""
        with self._lock:
            counts = self._counts.get(key)
            if counts and counts.current:
                counts.current -= 1


class Streams:
    """At most so many at the same time, for each key."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, key: str) -> bool:
        """Whether one more may begin; if so, it must end."""
        with self._lock:
            if self._open.get(key, 0) >= self.most:
                return False
            self._open[key] = self._open.get(key, 0) + 1
            return True

    def end(self, key: str) -> None:
        with self._lock:
            left = self._open.pop(key) - 1
            if left:
                self._open[key] = left


def network_of(host: str | None) -> str:
    """What stands for a caller: its address; of IPv6 the network, of which one caller has all addresses.

    >>> network_of("192.0.2.7"), network_of("2001:db8::1"), network_of(None)
    ('192.0.2.7', '2001:db8::/64', '')
    """
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return host or ""
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else str(address)
