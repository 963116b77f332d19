"""The ledger of a service: every frame between it and others.

A ledger that ends in an incomplete line, as on a full disk, lets nothing more be sent. A service lives on, so it mends
the ledger and continues it, as a resumed run would.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from unpooled.errors import LedgerError
from unpooled.ledger import Ledger, Way, mend
from unpooled.wire import Disclosure

_LONG = 2**26


class ServiceLedger:
    """Records frames; any thread may use it. A long file is put aside when a service starts, and another begun."""

    def __init__(self, path: Path, party: str) -> None:
        self.path = path
        self._party = party
        self._lock = threading.Lock()
        if path.exists() and path.stat().st_size > _LONG:
            path.rename(path.with_name(f"{path.stem}-until-{datetime.now(UTC):%Y%m%d-%H%M%S}{path.suffix}"))
        self._ledger: Ledger | None = self._opened()

    def record(self, way: Way, peer: str, kind: str, scope: str, size: int, disclosure: Disclosure) -> None:
        """Add a frame; call this before a frame is sent."""
        with self._lock:
            if self._ledger is None:
                self._ledger = self._opened()
            try:
                self._ledger.record(way, peer, kind, scope, size, disclosure)
            except LedgerError:
                with suppress(LedgerError, OSError):
                    self._ledger.close()
                self._ledger = None
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._ledger:
                self._ledger.close()

    def _opened(self) -> Ledger:
        mend(self.path)
        return Ledger(self.path, self._party, "service", resume=self.path.exists())
