"""Parties on different machines: TLS 1.3 over TCP, one connection per pair, and either side may dial.

A party's identity is that of its certificate, never what a message says, and both sides check it in full before the
first message. A lost connection ends the run: the run is resumed, the connection is not dialled again.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from unpooled.errors import CertificateError, PeerLost, PeerSilent, PlanError, WireError
from unpooled.transport.doorway import BACKLOG, Doorway
from unpooled.transport.link import Link
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.tls import RECORD_BYTES, Secured, context_of, own_refusal, peers_refusal
from unpooled.transport.trust import Identity, check_peer
from unpooled.wire import Frame

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

log = logging.getLogger("unpooled.transport")

_GRACE_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_CALL_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_DESCRIPTORS = 4096


@dataclass(frozen=True)
class Addresses:
    """Where this party listens (None: it only dials), and the peers it dials; all others dial this party."""

    listen: str | None
    dial: Mapping[str, str]


class _NotYetError(Exception):
    """A failed attempt to connect that is worth trying again."""


class NetworkTransport:
    """One party's links over the network; `open` makes them."""

    networked = True

    def __init__(self, identity: Identity, mailbox: Mailbox, addresses: Addresses, timeout: float) -> None:
        self.mailbox = mailbox
        self._identity = identity
        self._addresses = addresses
        self._timeout = timeout
        self._links = {peer: Link(peer, mailbox, timeout) for peer in mailbox.peers}
        self._linked: set[str] = set()
        self._changed = threading.Condition()
        self._doorway: Doorway | None = None

    def open(self) -> None:
        """Connect with every peer, in whichever order they start; raises if that takes longer than the timeout."""
        _raise_limit_of_descriptors()
        deadline = time.monotonic() + self._timeout
        expected = {peer for peer in self._links if peer not in self._addresses.dial}
        if self._addresses.listen and expected:
            self._doorway = self._listen(self._addresses.listen, expected)
        for peer, address in self._addresses.dial.items():
            self._dial(peer, address, deadline)
        while missing := self._missing():
            self.mailbox.check("waited for {} to connect", ", ".join(missing))
            if self._doorway:
                self._doorway.refusals.report()
            if time.monotonic() > deadline:
                waited = f"{self.mailbox.party} waited {self._timeout:g} s for {', '.join(missing)} to connect"
                raise PeerLost(waited + (self._doorway.refusals.hint() if self._doorway else ""), missing[0])

    def _missing(self) -> list[str]:
        """Peers that are not connected yet, after a moment's wait if there are any."""
        with self._changed:
            if len(self._linked) < len(self._links):
                self._changed.wait(min(_LOOK_SECONDS, self._timeout))
            return [peer for peer in self._links if peer not in self._linked]

    def send(self, peer: str, frame: Frame) -> None:
        self._links[peer].send(frame)

    def can_send(self, peer: str) -> bool:
        return self._links[peer].can_send()

    def close(self) -> None:
        """Close every link after everything was sent, and stop all threads."""
        until = time.monotonic() + _GRACE_SECONDS
        if self._doorway:
            self._doorway.close()
        for link in self._links.values():
            link.end()
        self.mailbox.leave()
        for link in self._links.values():
            link.close(until)
        self.mailbox.close()

    def _linked_with(self, peer: str, connection: socket.socket, secured: Secured) -> None:
        self._links[peer].begin(connection, secured)
        with self._changed:
            self._linked.add(peer)
            self._changed.notify_all()

    # the accepting side

    def _listen(self, address: str, expected: set[str]) -> Doorway:
        context = context_of(self._identity, server=True)
        try:
            listener = _listener(*_host_and_port(address))
        except (OSError, UnicodeError, OverflowError) as error:
            raise PlanError(f"{self.mailbox.party} cannot listen on {address}; perhaps it is in use: {error}") from None

        def admit(certificate: bytes) -> str:
            peer = check_peer(self._identity, certificate)
            if peer not in expected:
                raise CertificateError(f"{peer} is not a party of this plan that connects to {self.mailbox.party}")
            if peer in self._linked:
                raise CertificateError(f"{peer} is already connected")
            return peer

        def complete() -> bool:
            return expected <= self._linked

        doorway = Doorway(self.mailbox.party, listener, context, admit, self._linked_with, complete)
        doorway.open()
        log.info("%s listens on %s", self.mailbox.party, address)
        return doorway

    # the dialling side

    def _dial(self, peer: str, address: str, deadline: float) -> None:
        context = context_of(self._identity, server=False)
        told, pause = "", _FIRST_PAUSE
        while True:
            try:
                self._linked_with(peer, *self._call(peer, address, context, deadline))
                return
            except _NotYetError as reason:
                text = str(reason)
            self.mailbox.check("was connecting with {}", peer)
            if time.monotonic() > deadline:
                # the last attempt may have been too short to learn the reason
                raise PeerLost(f"{peer} at {address} could not be reached: {told or text}", peer)
            if text != told:
                log.info("%s waits for %s: %s", self.mailbox.party, peer, text)
                told = text
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _call(self, peer: str, address: str, context: ssl.SSLContext, deadline: float) -> tuple[socket.socket, Secured]:
        connection = self._connect(peer, address, deadline)
        try:
            secured = Secured(context, server=False)
            self._shake_hands(peer, address, connection, secured, deadline)
            self._exchange_verdicts(peer, address, connection, secured, deadline)
        except BaseException:
            connection.close()
            raise
        return connection, secured

    def _connect(self, peer: str, address: str, deadline: float) -> socket.socket:
        seconds = min(_CALL_SECONDS, max(_FIRST_PAUSE, deadline - time.monotonic()))
        try:
            return socket.create_connection(_host_and_port(address), seconds)
        except ConnectionRefusedError:
            text = f"nobody listens at {address}; check that {peer} has started, and the address"
        except TimeoutError:
            text = f"no answer from {address} within {seconds:.2g} s; check the address and the firewalls"
        except (OSError, UnicodeError, OverflowError) as error:
            text = f"{address} cannot be reached: {error}"
        raise _NotYetError(text)

    def _shake_hands(
        self, peer: str, address: str, connection: socket.socket, secured: Secured, deadline: float
    ) -> None:
        until = min(deadline, time.monotonic() + _CALL_SECONDS)
        try:
            while not secured.shake_hands():
                connection.sendall(secured.to_send())
                if not self._more(peer, connection, secured, until):
                    raise _NotYetError(f"something at {address} accepts connections, but does not answer with TLS")
        except ssl.SSLError as error:
            with suppress(OSError):
                connection.sendall(secured.to_send())  # a TLS alert that says why
            if fault := own_refusal(error, self.mailbox.party):
                raise self._cannot(peer, f"the certificate shown by {peer} at {address} {fault}") from None
            raise self._refused(peer, address, error) from None
        except (OSError, EOFError) as error:
            raise _NotYetError(f"something at {address} answers, but not with TLS: {error or 'it hung up'}") from None

    def _exchange_verdicts(
        self, peer: str, address: str, connection: socket.socket, secured: Secured, deadline: float
    ) -> None:
        try:
            check_peer(self._identity, secured.certificate(), expected=peer)
        except CertificateError as error:
            with suppress(OSError):
                connection.sendall(secured.to_send() + secured.verdict(str(error)))
            raise self._cannot(peer, f"{address} is refused: {error}") from None
        try:
            connection.sendall(secured.to_send() + secured.verdict())
            while (refusal := secured.peers_verdict()) is None:
                if not self._more(peer, connection, secured, deadline):
                    text = f"{peer} accepted the connection of {self.mailbox.party}, but does not answer"
                    raise PeerSilent(text, peer)
        except ssl.SSLError as error:
            raise self._refused(peer, address, error) from None
        except (OSError, EOFError, WireError) as error:
            text = f"{peer} at {address} hung up before it accepted {self.mailbox.party}"
            raise _NotYetError(f"{text}: {error}" if str(error) else text) from None
        if refusal:
            raise CertificateError(f"{peer} refused the connection: {refusal}")

    def _more(self, peer: str, connection: socket.socket, secured: Secured, until: float) -> bool:
        """Read what the peer sends next; False if it sends nothing in time."""
        while (left := until - time.monotonic()) > 0:
            self.mailbox.check("was connecting with {}", peer)
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

    def _refused(self, peer: str, address: str, error: ssl.SSLError) -> Exception:
        if fault := peers_refusal(error):
            advice = "compare what `unpooled certs check` says on both sides"
            return self._cannot(
                peer, f"{peer} at {address} refused {self.mailbox.party}'s certificate: {fault}; {advice}"
            )
        return _NotYetError(f"something at {address} answers, but not with TLS 1.3: {error}")

    def _cannot(self, peer: str, text: str) -> CertificateError:
        return CertificateError(f"{self.mailbox.party} cannot connect with {peer}: {text}")


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _listener(host: str, port: int) -> socket.socket:
    """Listen at an IPv4 or IPv6 address; a name that has both is used as IPv4."""
    families = {family for family, *_ in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    if socket.AF_INET in families:
        return socket.create_server((host, port), backlog=BACKLOG)
    both = socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=both)


def _raise_limit_of_descriptors() -> None:
    """Let this process open more than the usual 1024 files, if allowed."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
