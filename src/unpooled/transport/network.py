"""Parties on different machines: TLS 1.3 over TCP, one connection per pair, and either side may dial.

A party's identity is that of its certificate, never what a message says, and both sides check it in full before the
first message. A lost connection ends the run: the run is resumed, the connection is not dialled again.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from unpooled.errors import CertificateError, PeerLost
from unpooled.transport.dialling import Dialler
from unpooled.transport.doorway import Doorway, listen_at
from unpooled.transport.link import Link
from unpooled.transport.listening import alarm
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.tls import Secured, context_of
from unpooled.transport.trust import Identity, check_peer
from unpooled.wire import Frame

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

log = logging.getLogger("unpooled.transport")

_GRACE_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_DESCRIPTORS = 4096


@dataclass(frozen=True)
class Addresses:
    """Where this party listens (None: it only dials), and the peers it dials; all others dial this party.

    A run of a service has a listener for the connections that the service passes on, and sends a preface when it dials.
    """

    listen: str | socket.socket | None
    dial: Mapping[str, str]
    preface: bytes = b""


class NetworkTransport:
    """One party's links over the network; `open` makes them."""

    networked = True

    def __init__(self, identity: Identity, mailbox: Mailbox, addresses: Addresses, timeout: float) -> None:
        self.mailbox = mailbox
        self._identity = identity
        self._addresses = addresses
        self._timeout = timeout
        self._links = {peer: Link(peer, mailbox, timeout, self.flush) for peer in mailbox.peers}
        self._alarm = alarm()
        if self._alarm:
            mailbox.alarm = self._alarm.ring
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
            check = partial(self.mailbox.check, "was connecting with {}", peer)
            dialler = Dialler(self._identity, peer, address, check, self._addresses.preface)
            self._linked_with(peer, *dialler.dial(deadline))
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

    def send(self, peer: str, frame: Frame, *, more: bool = False) -> None:
        self._links[peer].send(frame, more=more)

    def flush(self) -> None:
        for link in self._links.values():
            link.flush()

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
        self._links[peer].begin(connection, secured, self._alarm)
        with self._changed:
            self._linked.add(peer)
            self._changed.notify_all()

    def _listen(self, at: str | socket.socket, expected: set[str]) -> Doorway:
        context = context_of(self._identity, server=True)
        listener = listen_at(at, self.mailbox.party) if isinstance(at, str) else at

        def admit(certificate: bytes) -> str:
            peer = check_peer(self._identity, certificate)
            if peer not in expected:
                raise CertificateError(f"{peer} is not a party of this plan that connects to {self.mailbox.party}")
            if peer in self._linked:
                raise CertificateError(f"{peer} is already connected")
            return peer

        def complete() -> bool:
            return expected <= self._linked

        doorway = Doorway(self.mailbox.party, listener, lambda: context, admit, self._linked_with, complete)
        doorway.open()
        log.info("%s listens on %s", self.mailbox.party, at if isinstance(at, str) else "its service's address")
        return doorway


def _raise_limit_of_descriptors() -> None:
    """Let this process open more than the usual 1024 files, if allowed."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
