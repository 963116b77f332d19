"""The service's listening side: one port, at which peers exchange letters, and through which runs are reached."""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from unpooled.errors import CertificateError, RefusedError, UnpooledError
from unpooled.serve.peering.credentials import Credentials
from unpooled.serve.peering.exchange import Exchanges
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import Database, now
from unpooled.transport.doorway import Allowance, Doorway, listen_at
from unpooled.transport.handover import passing_on
from unpooled.transport.tls import Secured
from unpooled.transport.trust import check_peer

log = logging.getLogger("unpooled.serve")

EXCHANGES_A_MINUTE = 120
"""How often a peer may call; it loses nothing if it calls more often, since it keeps its letters."""
_AT_ONCE, _PER_PEER = 8, 2
"""How many exchanges are served at the same time, and how many with one peer are served or wait for that."""


class Door:
    """Listens at an address; `run_at` has the socket to a run's process, by the run's key."""

    def __init__(
        self,
        party: str,
        address: str,
        credentials: Credentials,
        exchanges: Exchanges,
        database: Database,
        run_at: Callable[[str], socket.socket | None],
    ) -> None:
        self._party = party
        self._credentials = credentials
        self._exchanges = exchanges
        self._database = database
        self._run_at = run_at
        self._lock = threading.Lock()
        self._busy = Counter[str]()
        self._allowances: dict[str, Allowance] = {}
        self._noted = set[tuple[str, str]]()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "unpooled-exchange")
        listener = listen_at(address, party)
        self.port: int = listener.getsockname()[1]
        self._doorway = Doorway(
            party,
            listener,
            credentials.server_context,
            self._admit,
            self._welcome,
            complete=lambda: False,
            unencrypted=passing_on(self._run),
        )
        self.refusals = self._doorway.refusals

    def open(self) -> None:
        self._doorway.open()

    def close(self) -> None:
        """Stop listening, and end all exchanges."""
        self._doorway.close()
        self._exchanges.end()
        self._pool.shutdown()

    def _run(self, key: str) -> socket.socket | None:
        found = self._run_at(key)
        if found is None:
            self.refusals.note("it called a run that is not here, or not yet")
        return found

    def _admit(self, certificate: bytes) -> str:
        peer = self._checked(certificate)
        try:
            if self._database.row("SELECT 1 FROM peers WHERE name = ?", peer) is None:
                self._note_stranger(peer)
                raise RefusedError(f"{peer} is not a peer of {self._party}; an administrator of {self._party} adds it")
        finally:
            self._database.close()
        with self._lock:
            if self._busy[peer] >= _PER_PEER:
                raise RefusedError(f"{peer} has {_PER_PEER} connections already")
        if not self._allowances.setdefault(peer, Allowance(EXCHANGES_A_MINUTE, 60.0)).take():
            raise RefusedError(f"{peer} called more than {EXCHANGES_A_MINUTE} times in a minute")
        return peer

    def _checked(self, certificate: bytes) -> str:
        try:
            identity = self._credentials.identity()
        except CertificateError:  # its text names files, which are no caller's business
            raise RefusedError(f"the certificate of {self._party} itself is not in order") from None
        return check_peer(identity, certificate)

    def _note_stranger(self, name: str) -> None:
        """Note in the audit log, once a day for each name, that a party with a valid certificate was refused."""
        today = now()[:10]
        if (name, today) not in self._noted:
            self._noted = {(other, day) for other, day in self._noted if day == today} | {(name, today)}
            with self._database.transaction() as connection:
                note(connection, f"peer {name}", "called and was refused", "it is not among the peers")

    def _welcome(self, peer: str, connection: socket.socket, secured: Secured) -> None:
        with self._lock:
            self._busy[peer] += 1
        self._pool.submit(self._serve, peer, connection, secured)

    def _serve(self, peer: str, connection: socket.socket, secured: Secured) -> None:
        try:
            self._exchanges.hold(peer, connection, secured, calls=False)
        except UnpooledError as error:
            log.info("an exchange with %s ended: %s", peer, error)
        except Exception:
            log.exception("an exchange with %s ended with an internal error", peer)
        finally:
            self._database.close()
            with self._lock:
                self._busy[peer] -= 1
