"""The other end of a link, by hand, for the tests of frames on a connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from unpooled.arrays import Bytes
from unpooled.transport import listening
from unpooled.transport.link import SIZE_BYTES, Link
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.tls import Secured, context_of
from unpooled.transport.trust import load_identity
from unpooled.wire import Frame, encode, message

LONG = 100.0


@message(discloses="nothing: made for this test")
class Blob:
    data: Bytes


@message(discloses="nothing: made for this test")
class Count:
    value: int
    share: float


def blob(size: int) -> Frame:
    return encode(Blob(np.arange(size, dtype=np.uint64).astype(np.uint8)))


class Peer:
    """The other end of the bank's link, by hand."""

    def __init__(self, connection: socket.socket, secured: Secured) -> None:
        self.connection, self.secured = connection, secured

    def say(self, data: bytes) -> None:
        self.connection.sendall(self.secured.encrypt(data))

    def announce(self, size: int, head: bytes = b"") -> None:
        self.say(size.to_bytes(8, "little") + head)

    def read(self, count: int) -> bytes:
        data = bytearray(count)
        done = 0
        while (done := done + self.secured.decrypt_into(memoryview(data)[done:])) < count:
            self.secured.receive(self.connection.recv(2**16))
        return bytes(data)


@contextmanager
def linked(certs: Path, mailbox: Mailbox, timeout: float = LONG) -> Iterator[tuple[Link, Peer]]:
    """The bank's link to the telco, and the telco."""
    here, there = socket.create_server(("127.0.0.1", 0)), socket.socket()
    there.connect(here.getsockname())
    accepted, _ = here.accept()
    here.close()
    bank = Secured(context_of(load_identity(certs / "bank", "bank"), server=True), server=True)
    telco = Secured(context_of(load_identity(certs / "telco", "telco"), server=False), server=False)
    done = [False, False]
    while not all(done):
        for number, (one, other) in enumerate(((bank, telco), (telco, bank))):
            done[number] = one.shake_hands()
            other.receive(one.to_send())
    made, bell = Link("telco", mailbox, timeout), listening.alarm()
    if bell:
        mailbox.alarm = bell.ring
    made.begin(accepted, bank, bell)
    there.settimeout(LONG)
    try:
        yield made, Peer(there, telco)
    finally:
        made.end()
        mailbox.leave()
        there.close()
        made.close(time.monotonic() + LONG)
        assert not any(thread.is_alive() for thread in made._threads)


def arrives(peer: Peer, *frames: Frame) -> None:
    for frame in frames:
        assert peer.read(SIZE_BYTES) == frame.size.to_bytes(SIZE_BYTES, "little")
        assert peer.read(frame.size) == frame.joined()
