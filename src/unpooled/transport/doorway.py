"""The doorway: where callers prove who they are before they can use anything else of the party.

One thread serves all of them. The number of callers and the seconds and bytes of each are limited, and when the doorway
is full, the least advanced caller is dropped. Once all expected parties are connected, only a few callers a second are
heard, so that they take little time from the job, and the rest are hung up on. Reasons for refusals are counted, not
listed: anybody can call.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from unpooled.errors import CertificateError, PlanError, RefusedError, WireError
from unpooled.transport.dialling import host_and_port
from unpooled.transport.tls import Secured, own_refusal, peers_refusal

log = logging.getLogger("unpooled.transport")

MOST_CALLERS = 64
CALLER_SECONDS = 5.0
CALLER_BYTES = 2**16
BACKLOG = 128
_PIECE_BYTES = 2**14
_ACCEPTED_AT_ONCE = 32
_HEARD_A_SECOND, _ANSWERED_A_SECOND = 20, 2000
"""Once all parties are connected: how many callers are heard, and how many are answered at all, mostly by hanging up;
the others wait in the system's queue."""
_REASONS_KEPT = 5
_GLANCE_SECONDS, _PAUSE_SECONDS = 0.5, 0.05
_TLS_HANDSHAKE = 0x16
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

Unencrypted = Callable[[socket.socket, bytes], int | None]
"""What is done with a caller that does not begin with TLS, given the connection and the bytes so far: how many more are
needed; 0 if the connection was passed on, or is to be hung up on; None if it is refused."""


class Refusals:
    """Counts refused callers by reason; the last few reasons are kept."""

    def __init__(self, party: str) -> None:
        self._party = party
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._new: dict[str, int] = {}

    def note(self, reason: str) -> None:
        with self._lock:
            for counts in (self._counts, self._new):
                counts[reason] = counts.pop(reason, 0) + 1
                if len(counts) > _REASONS_KEPT:
                    del counts[next(iter(counts))]

    def report(self) -> None:
        """Log what is new, with one line for each reason."""
        with self._lock:
            new, self._new = self._new, {}
        for reason, count in new.items():
            log.warning("%s refused %d connection(s): %s", self._party, count, reason)

    def hint(self) -> str:
        """What to add to the error that a party never connected."""
        with self._lock:
            return "".join(
                f"; {count} connection(s) refused: {reason}" if count > 1 else f"; a connection was refused: {reason}"
                for reason, count in self._counts.items()
            )


@dataclass(eq=False)
class _Caller:
    connection: socket.socket
    until: float
    wanted: int
    received: int = 0
    said: bytes = b""
    secured: Secured | None = None
    shaken: bool = False
    leaving: bool = False

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The lowest is dropped first: a refused caller, then one that has sent nothing, then the oldest."""
        return not self.leaving, self.received > 0, self.until


class Doorway:
    """Listens at an address and passes on each caller that `admit` accepts; `complete`: all parties are connected.

    `unencrypted` may take callers that do not begin with TLS; until it has, they have the same limits as all others.
    """

    def __init__(
        self,
        party: str,
        listener: socket.socket,
        context: Callable[[], ssl.SSLContext],
        admit: Callable[[bytes], str],
        welcome: Callable[[str, socket.socket, Secured], None],
        complete: Callable[[], bool],
        unencrypted: Unencrypted | None = None,
    ) -> None:
        self.refusals = Refusals(party)
        self._party = party
        self._listener = listener
        self._context = context
        self._admit = admit
        self._welcome = welcome
        self._complete = complete
        self._unencrypted = unencrypted
        self._callers: set[_Caller] = set()
        self._heard = Allowance(_HEARD_A_SECOND)
        self._answered = Allowance(_ANSWERED_A_SECOND)
        self._listens_again = 0.0
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._closing, ends = socket.socketpair()
        self._selector.register(ends, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="unpooled-doorway", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Drop all callers and stop listening."""
        self._closing.close()
        self._thread.join()
        self.refusals.report()

    def _run(self) -> None:
        with self._selector, self._listener:
            while self._look():
                pass
            for caller in list(self._callers):
                self._send_off(caller)
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]

    def _look(self) -> bool:
        """Serve the callers that have sent something; False once the doorway is to close."""
        for key, _ in self._selector.select(_PAUSE_SECONDS if self._listens_again else _GLANCE_SECONDS):
            if key.data is None:
                return False
            if key.data == self._accept:
                self._accept()
            elif key.data in self._callers:  # it may have been dropped just now
                try:
                    self._hear(key.data)
                except Exception as error:  # whatever one caller does, the others are served
                    log.debug("a caller at %s led to %r", self._party, error)
                    self._send_off(key.data, "its handshake failed")
        now = time.monotonic()
        for caller in [caller for caller in self._callers if now > caller.until]:
            self._send_off(caller, f"it did not prove who it is within {CALLER_SECONDS:g} s")
        if self._listens_again and now >= self._listens_again:
            self._listens_again = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        return True

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            complete = self._complete()
            if complete and not self._answered.take():
                self._pause(_PAUSE_SECONDS)
                return
            try:
                connection, _ = self._listener.accept()
            except EOFError:  # whoever passed connections on has gone
                self._selector.unregister(self._listener)
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    if self._callers:
                        self._make_way()
                    else:  # no descriptor is left, and no caller to drop for one
                        self._pause(_GLANCE_SECONDS)
                return
            if complete and not self._heard.take():
                connection.close()
                self.refusals.note("no further parties are awaited")
                continue
            if len(self._callers) >= MOST_CALLERS:
                self._make_way()
            connection.setblocking(False)
            caller = _Caller(connection, time.monotonic() + CALLER_SECONDS, 1 if self._unencrypted else _PIECE_BYTES)
            self._callers.add(caller)
            self._selector.register(connection, selectors.EVENT_READ, caller)

    def _make_way(self) -> None:
        self._send_off(min(self._callers, key=lambda caller: caller.rank), "it made way for other callers")

    def _pause(self, seconds: float) -> None:
        self._selector.unregister(self._listener)
        self._listens_again = time.monotonic() + seconds

    def _hear(self, caller: _Caller) -> None:
        try:
            data = caller.connection.recv(_PIECE_BYTES if caller.secured else caller.wanted)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._send_off(caller, "" if caller.leaving else "it hung up before it had proved who it is")
            return
        caller.received += len(data)
        if caller.received > CALLER_BYTES:
            self._send_off(caller, f"it sent more than {CALLER_BYTES} bytes before it had proved who it is")
        elif caller.leaving:
            return
        elif caller.secured:
            caller.secured.receive(data)
            self._go_on(caller, caller.secured)
        else:
            caller.said += data
            self._begin(caller)

    def _begin(self, caller: _Caller) -> None:
        """Decide by a caller's first byte whether it uses TLS; others are read only as far as is asked for."""
        if caller.said[0] != _TLS_HANDSHAKE:
            more = self._unencrypted(caller.connection, caller.said) if self._unencrypted else None
            if more:
                caller.wanted = more
            else:
                self._send_off(caller, "it did not use TLS" if more is None else "")
            return
        try:
            caller.secured = Secured(self._context(), server=True)
        except CertificateError as error:
            self._send_off(caller, str(error))
            return
        caller.secured.receive(caller.said)
        self._go_on(caller, caller.secured)

    def _go_on(self, caller: _Caller, secured: Secured) -> None:
        try:
            caller.shaken = caller.shaken or secured.shake_hands()
            self._say(caller, secured.to_send())
            refusal = secured.peers_verdict() if caller.shaken else None
        except ssl.SSLError as error:
            self._refuse(caller, secured.to_send(), self._explained(error))
        except (EOFError, WireError):
            self._send_off(caller, "it hung up before it had proved who it is")
        else:
            if refusal:
                self._send_off(caller, f"it refused {self._party}: {refusal}")
            elif refusal is not None:
                self._decide(caller, secured)

    def _explained(self, error: ssl.SSLError) -> str:
        if fault := own_refusal(error, self._party):
            return f"its certificate {fault}"
        if fault := peers_refusal(error):
            return f"it refused {self._party}'s certificate: {fault}"
        return f"its TLS handshake failed: {error.reason or 'no reason given'}"

    def _decide(self, caller: _Caller, secured: Secured) -> None:
        try:
            peer = self._admit(secured.certificate())
        except (CertificateError, RefusedError) as error:
            self._refuse(caller, secured.verdict(str(error)), str(error))
            return
        self._selector.unregister(caller.connection)
        self._callers.remove(caller)
        try:
            self._say(caller, secured.verdict())
            self._welcome(peer, caller.connection, secured)
        except OSError:
            self.refusals.note("it hung up when it was accepted")
            caller.connection.close()

    def _say(self, caller: _Caller, data: bytes) -> None:
        with suppress(OSError):  # short enough for the system's buffer, unless the caller is not one of the parties
            caller.connection.send(data)

    def _refuse(self, caller: _Caller, last_words: bytes, reason: str) -> None:
        """Say why, and keep the connection until the caller hangs up: closing earlier could discard the reason."""
        self.refusals.note(reason)
        self._say(caller, last_words)
        caller.leaving = True
        with suppress(OSError):
            caller.connection.shutdown(socket.SHUT_WR)

    def _send_off(self, caller: _Caller, reason: str = "") -> None:
        if reason and not caller.leaving:
            self.refusals.note(reason)
        if caller not in self._callers:
            return
        self._selector.unregister(caller.connection)
        self._callers.remove(caller)
        caller.connection.close()


class Allowance:
    """A number of permits in so many seconds, and no more than that at once."""

    def __init__(self, permits: int, seconds: float = 1.0) -> None:
        self._most = permits
        self._a_second = permits / seconds
        self._left = float(permits)
        self._at = time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._a_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def listen_at(address: str, party: str) -> socket.socket:
    """Listen at an IPv4 or IPv6 address; a name that has both is used as IPv4."""
    try:
        host, port = host_and_port(address)
        families = {family for family, *_ in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        if socket.AF_INET in families:
            return socket.create_server((host, port), backlog=BACKLOG)
        both = socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=both)
    except (OSError, UnicodeError, OverflowError) as error:
        raise PlanError(f"{party} cannot listen on {address}; perhaps it is in use: {error}") from None
