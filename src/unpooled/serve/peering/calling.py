"""The service's dialling side: it calls peers for which letters are waiting.

A party without an address cannot be called, so its service polls: it calls every peer with an address again and again,
more often while letters come or go. A peer that cannot be reached is called less and less often.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from unpooled.errors import UnpooledError
from unpooled.serve.peering.contact import missed
from unpooled.serve.peering.credentials import Credentials
from unpooled.serve.peering.exchange import Exchanges
from unpooled.serve.state.database import Database
from unpooled.transport.dialling import Dialler, NotYet
from unpooled.transport.doorway import Allowance

log = logging.getLogger("unpooled.serve")

_AT_ONCE = 4
_LOOK_SECONDS = 0.5
_CALL_SECONDS = 10.0
_LEAST_PAUSE = 0.1
_CALLS_A_MINUTE = 100
"""Fewer than the doors of others allow."""
_SHORTEST_POLL, _LONGEST_POLL = 2.0, 15.0
_FIRST_RETRY, _LONGEST_RETRY = 1.0, 60.0


@dataclass
class _Turn:
    """When a peer may be called, and when it is to be polled; both pauses grow while nothing comes of it."""

    busy: bool = False
    may: float = 0.0
    poll: float = 0.0
    retry_pause: float = _FIRST_RETRY
    poll_pause: float = _SHORTEST_POLL
    allowance: Allowance = field(default_factory=lambda: Allowance(_CALLS_A_MINUTE, 60.0))


class Calling:
    """Calls peers while it is open; `polls` if others cannot call this party."""

    def __init__(
        self, party: str, credentials: Credentials, exchanges: Exchanges, database: Database, *, polls: bool
    ) -> None:
        self._party = party
        self._credentials = credentials
        self._exchanges = exchanges
        self._database = database
        self._polls = polls
        self._turns: dict[str, _Turn] = {}
        self._closing = False
        self._look = threading.Event()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "unpooled-call")
        self._thread = threading.Thread(target=self._run, name="unpooled-calling", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look at once whether letters are waiting."""
        self._look.set()

    def close(self) -> None:
        """Stop calling, and end all exchanges."""
        self._closing = True
        self._look.set()
        self._exchanges.end()
        self._thread.join()
        self._pool.shutdown(cancel_futures=True)

    def _run(self) -> None:
        while not self._closing:
            self._look.clear()
            try:
                self._call_those_due()
            except Exception:
                log.exception("the peers to call could not be found")
            self._look.wait(_LOOK_SECONDS)
        self._database.close()

    def _call_those_due(self) -> None:
        for row in self._database.rows(
            "SELECT name, address, EXISTS (SELECT 1 FROM outbox WHERE peer = name) AS pending FROM peers "
            "WHERE address IS NOT NULL"
        ):
            turn = self._turns.setdefault(row["name"], _Turn())
            now = time.monotonic()
            due = row["pending"] or (self._polls and now >= turn.poll)
            if due and not turn.busy and now >= turn.may and turn.allowance.take():
                turn.busy = True
                self._pool.submit(self._call, row["name"], row["address"], turn)

    def _call(self, peer: str, address: str, turn: _Turn) -> None:
        moved: int | None = None
        try:
            dialler = Dialler(self._credentials.identity(), peer, address, self._check)
            connection, secured = dialler.call(time.monotonic() + _CALL_SECONDS)
            moved = self._exchanges.hold(peer, connection, secured, calls=True)
        except (NotYet, UnpooledError) as error:
            if not self._closing:
                log.info("%s could not exchange letters with %s: %s", self._party, peer, error)
                missed(self._database, peer, str(error))
        except Exception:
            log.exception("a call to %s ended with an internal error", peer)
        finally:
            self._database.close()
            _plan_next(turn, moved)

    def _check(self) -> None:
        if self._closing:
            raise NotYet(f"{self._party}'s service is ending")


def _plan_next(turn: _Turn, moved: int | None) -> None:
    """Decide when to call next, after so many letters went either way; None after a failed call."""
    now = time.monotonic()
    if moved is None:
        turn.may = now + turn.retry_pause
        turn.retry_pause = min(2 * turn.retry_pause, _LONGEST_RETRY)
    else:
        turn.retry_pause = _FIRST_RETRY
        turn.poll_pause = _SHORTEST_POLL if moved else min(1.5 * turn.poll_pause, _LONGEST_POLL)
        turn.may, turn.poll = now + _LEAST_PAUSE, now + turn.poll_pause
    turn.busy = False
