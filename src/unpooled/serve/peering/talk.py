"""Single frames between two services, one after the other, each within a time limit and recorded in the ledger."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Self, TypeVar

from unpooled.control import Abort, spoken
from unpooled.errors import PeerError, PeerFailed, PeerLost, PeerSilent, UnpooledError, WireError, told
from unpooled.serve.peering.record import ServiceLedger
from unpooled.transport.link import SIZE_BYTES, pieces
from unpooled.transport.tls import RECORD_BYTES, Secured
from unpooled.wire import Buffer, Frame, Header, disclosure_named, encode, kind_of, read_body, read_header

MOST_BYTES = 2**20
"""The largest frame between services."""
FRAME_SECONDS, WHOLE_SECONDS = 30.0, 300.0
"""How long the peer may take to send or accept a frame, and for everything."""
_LAST_SECONDS = 2.0

T = TypeVar("T")


class Talk:
    """A connection between the services of two parties, on which both have accepted each other.

    As a context manager it tells the peer what went wrong in the block, if that was not the peer's, and hangs up.
    """

    def __init__(
        self, party: str, peer: str, connection: socket.socket, secured: Secured, ledger: ServiceLedger
    ) -> None:
        self.party = party
        self.peer = peer
        self._connection = connection
        self._secured = secured
        self._ledger = ledger
        self._until = time.monotonic() + WHOLE_SECONDS
        self._inbox = memoryview(bytearray(RECORD_BYTES))

    def send(self, frame: Frame) -> None:
        """Send a frame, after it was recorded."""
        header = read_header(frame.head())
        self._ledger.record("sent", self.peer, header.kind, header.scope, frame.size, disclosure_named(header.kind))
        try:
            for piece in pieces(frame):
                self._set_timeout(time.monotonic() + FRAME_SECONDS)
                self._connection.sendall(self._secured.encrypt(piece))
        except OSError as error:
            raise self._trouble(error) from None

    def receive(self) -> Header:
        """The next frame; PeerFailed if the peer says that it has failed."""
        until = time.monotonic() + FRAME_SECONDS
        try:
            size = int.from_bytes(self._exactly(SIZE_BYTES, until), "little")
            if not 0 < size <= MOST_BYTES:
                raise WireError(f"{self.peer} announced a frame of {size} bytes, 1 to {MOST_BYTES} are allowed")
            frame = self._exactly(size, until)
        except (OSError, EOFError) as error:
            raise self._trouble(error) from None
        try:
            header = read_header(frame)
        except WireError as error:
            raise WireError(f"{self.peer} sent bytes that are not a message: {error}") from None
        self._ledger.record("received", self.peer, header.kind, header.scope, size, disclosure_named(header.kind))
        if header.kind == kind_of(Abort):
            raise PeerFailed(f"{self.peer} {spoken(read_body(header, Abort).reason)}", self.peer)
        return header

    def tell(self, message: object) -> None:
        self.send(encode(message))

    def hear(self, kind: type[T]) -> T:
        """The next message, which must be of this type."""
        return read_body(self.receive(), kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        with self._connection:
            if error is not None and not isinstance(error, PeerError):
                with suppress(UnpooledError):  # the first error counts
                    self.tell(Abort(self.party, told(error)))
            with suppress(OSError):
                self._hang_up()

    def _hang_up(self) -> None:
        """Close, once the peer has hung up or soon: closing earlier could discard this party's last words."""
        until = time.monotonic() + _LAST_SECONDS
        self._set_timeout(until)
        self._connection.sendall(self._secured.farewell())
        self._connection.shutdown(socket.SHUT_WR)
        while self._connection.recv_into(self._inbox):
            self._set_timeout(until)

    def _exactly(self, count: int, until: float) -> Buffer:
        data = memoryview(bytearray(count))
        done = 0
        while True:
            done += self._secured.decrypt_into(data[done:])
            if done == count:
                return data
            self._set_timeout(until)
            got = self._connection.recv_into(self._inbox)
            if not got:
                raise EOFError
            self._secured.receive(self._inbox[:got])

    def _set_timeout(self, until: float) -> None:
        left = min(until, self._until) - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)

    def _trouble(self, error: OSError | EOFError) -> PeerError:
        if isinstance(error, TimeoutError):
            return PeerSilent(f"{self.peer} neither sent nor accepted anything in time", self.peer)
        return PeerLost(f"{self.peer}: the connection was lost", self.peer)
