"""The dialling side of a connection: calling a peer at its address, until both have accepted each other."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from unpooled.errors import CertificateError, PeerLost, PeerSilent, WireError
from unpooled.transport.tls import RECORD_BYTES, Secured, context_of, own_refusal, peers_refusal
from unpooled.transport.trust import Identity, check_peer

log = logging.getLogger("unpooled.transport")

_LOOK_SECONDS = 1.0
_CALL_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class NotYet(Exception):
    """A failed attempt to connect that is worth trying again."""


@dataclass(frozen=True)
class Dialler:
    """Calls one peer at its address.

    `check` is called every second or more often, and raises if the party no longer wants to connect. `preface` is sent
    before TLS begins.
    """

    identity: Identity
    peer: str
    address: str
    check: Callable[[], None]
    preface: bytes = b""

    def dial(self, deadline: float) -> tuple[socket.socket, Secured]:
        """Call again and again until the peer answers; PeerLost if it has not done so by the deadline."""
        told, pause = "", _FIRST_PAUSE
        while True:
            try:
                return self.call(deadline)
            except NotYet as reason:
                text = str(reason)
            self.check()
            if time.monotonic() > deadline:
                # the last attempt may have been too short to learn the reason
                raise PeerLost(f"{self.peer} at {self.address} could not be reached: {told or text}", self.peer)
            if text != told:
                log.info("%s waits for %s: %s", self.identity.party, self.peer, text)
                told = text
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def call(self, deadline: float) -> tuple[socket.socket, Secured]:
        """Call once; `NotYet` if it is worth calling again."""
        context = context_of(self.identity, server=False)
        connection = self._connect(deadline)
        try:
            secured = Secured(context, server=False)
            self._shake_hands(connection, secured, deadline)
            self._exchange_verdicts(connection, secured, deadline)
        except BaseException:
            connection.close()
            raise
        return connection, secured

    def _connect(self, deadline: float) -> socket.socket:
        seconds = min(_CALL_SECONDS, max(_FIRST_PAUSE, deadline - time.monotonic()))
        try:
            return socket.create_connection(host_and_port(self.address), seconds)
        except ConnectionRefusedError:
            text = f"nobody listens at {self.address}; check that {self.peer} has started, and the address"
        except TimeoutError:
            text = f"no answer from {self.address} within {seconds:.2g} s; check the address and the firewalls"
        except (OSError, UnicodeError, OverflowError) as error:
            text = f"{self.address} cannot be reached: {error}"
        raise NotYet(text)

    def _shake_hands(self, connection: socket.socket, secured: Secured, deadline: float) -> None:
        until = min(deadline, time.monotonic() + _CALL_SECONDS)
        try:
            connection.sendall(self.preface)
            while not secured.shake_hands():
                connection.sendall(secured.to_send())
                if not self._more(connection, secured, until):
                    raise self._no_tls("accepts connections, but does not answer with TLS")
        except ssl.SSLError as error:
            with suppress(OSError):
                connection.sendall(secured.to_send())  # a TLS alert that says why
            if fault := own_refusal(error, self.identity.party):
                raise self._cannot(f"the certificate shown by {self.peer} at {self.address} {fault}") from None
            raise self._refused(error) from None
        except (OSError, EOFError) as error:
            raise self._no_tls(f"answers, but not with TLS: {error or 'it hung up'}") from None

    def _exchange_verdicts(self, connection: socket.socket, secured: Secured, deadline: float) -> None:
        try:
            check_peer(self.identity, secured.certificate(), expected=self.peer)
        except CertificateError as error:
            with suppress(OSError):
                connection.sendall(secured.to_send() + secured.verdict(str(error)))
            raise self._cannot(f"{self.address} is refused: {error}") from None
        try:
            connection.sendall(secured.to_send() + secured.verdict())
            while (refusal := secured.peers_verdict()) is None:
                if not self._more(connection, secured, deadline):
                    text = f"{self.peer} accepted the connection of {self.identity.party}, but does not answer"
                    raise PeerSilent(text, self.peer)
        except ssl.SSLError as error:
            raise self._refused(error) from None
        except (OSError, EOFError, WireError) as error:
            text = f"{self.peer} at {self.address} hung up before it accepted {self.identity.party}"
            raise NotYet(f"{text}: {error}" if str(error) else text) from None
        if refusal:
            raise CertificateError(f"{self.peer} refused the connection: {refusal}")

    def _more(self, connection: socket.socket, secured: Secured, until: float) -> bool:
        """Read what the peer sends next; False if it sends nothing in time."""
        while (left := until - time.monotonic()) > 0:
            self.check()
            connection.settimeout(min(left, _LOOK_SECONDS))
            try:
                data = connection.recv(RECORD_BYTES)
            except TimeoutError:
                continue
            if not data:
                raise EOFError
            secured.receive(data)
            return True
        return False

    def _no_tls(self, what: str) -> NotYet:
        if self.preface:
            return NotYet(f"{self.peer} at {self.address} has not started its part of the run yet")
        return NotYet(f"something at {self.address} {what}")

    def _refused(self, error: ssl.SSLError) -> Exception:
        if fault := peers_refusal(error):
            advice = "compare what `unpooled certs check` says on both sides"
            refused = f"{self.peer} at {self.address} refused {self.identity.party}'s certificate: {fault}; {advice}"
            return self._cannot(refused)
        return NotYet(f"something at {self.address} answers, but not with TLS 1.3: {error}")

    def _cannot(self, text: str) -> CertificateError:
        return CertificateError(f"{self.identity.party} cannot connect with {self.peer}: {text}")


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
