"""A link to one peer: frames go out as chunks and come in as chunks, whoever dialled.

A frame that fits one chunk travels as itself plus a last byte 1. A longer one is announced by its size (8 bytes) plus
a last byte 0, and follows in chunks of nothing but itself. The mark comes last so that arrays keep their alignment.
A sender holds a frame and a few chunks; a receiver what its mailbox has room for, and the frame that is on its way.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator

from unpooled.errors import PeerSilent, WireError
from unpooled.transport.mailbox import Mailbox
from unpooled.wire import MAX_FRAME_BYTES, Buffer, Frame

CHUNK_BYTES = 2 * 2**20
QUEUED_CHUNKS = 4
_WHOLE, _ANNOUNCED = b"\1", b"\0"
_GLANCE_SECONDS = 0.2


def to_chunks(frame: Frame, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Cut a frame into what travels."""
    if frame.size < size:
        yield b"".join((*frame.parts, _WHOLE))
    else:
        yield frame.size.to_bytes(8, "little") + _ANNOUNCED
        yield from frame.chunks(size)


def from_chunks(chunks: Iterable[bytes]) -> Iterator[Buffer]:
    """Put frames together again; memory grows with what arrives, never with what is announced."""
    frame, missing = bytearray(), 0
    for chunk in chunks:
        if missing:
            if not 0 < len(chunk) <= missing:
                raise WireError(f"a chunk of {len(chunk)} bytes where 1 to {missing} were to come")
            frame += chunk
            missing -= len(chunk)
            if not missing:
                yield frame
                frame = bytearray()
        elif chunk.endswith(_WHOLE):
            yield memoryview(chunk)[:-1]
        elif len(chunk) == 9 and chunk.endswith(_ANNOUNCED):
            missing = int.from_bytes(chunk[:8], "little")
            if not 0 < missing <= MAX_FRAME_BYTES:
                raise WireError(f"a frame of {missing} bytes was announced, 1 to {MAX_FRAME_BYTES} are allowed")
        else:
            raise WireError("a chunk that neither is a frame nor announces one")
    if missing:
        raise WireError(f"the stream ended {missing} bytes before the end of a frame")


class Link:
    """The way to and from one peer, on top of any pair of chunk streams."""

    def __init__(self, peer: str, mailbox: Mailbox, timeout: float) -> None:
        self.peer = peer
        self.heard = False
        self._mailbox = mailbox
        self._timeout = timeout
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._taken = threading.Event()

    def send(self, frame: Frame) -> None:
        """Hand a frame over to the stream, waiting as long as the peer does not take more."""
        for chunk in to_chunks(frame):
            self._put(chunk)

    def can_send(self) -> bool:
        """Whether a short frame could be sent without waiting."""
        return self._out.qsize() < QUEUED_CHUNKS

    def end(self) -> None:
        """Let the outgoing stream end after what was sent."""
        self._out.put(None)

    def outgoing(self) -> Iterator[bytes]:
        """The chunks to be sent, until `end`."""
        while (chunk := self._out.get()) is not None:
            self._taken.set()
            yield chunk

    def incoming(self, chunks: Iterable[bytes]) -> None:
        """Deliver what arrives until the stream ends; what is not a frame ends the conversation."""
        try:
            for frame in from_chunks(chunks):
                self.heard = True
                self._mailbox.deliver(self.peer, frame)
        except WireError as error:
            self._mailbox.lose(self.peer, f"broke off: {error}")

    def _put(self, chunk: bytes) -> None:
        if self._out.qsize() >= QUEUED_CHUNKS:
            self._wait_for_place()
        self._out.put(chunk)

    def _wait_for_place(self) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            self._taken.clear()
            if self._out.qsize() < QUEUED_CHUNKS:
                return
            self._taken.wait(_GLANCE_SECONDS)
            self._mailbox.check("waited for {} to take a message", self.peer)
            if time.monotonic() > deadline:
                party = self._mailbox.party
                text = f"{party} waited {self._timeout:g} s for {self.peer} to take a message, in vain"
                raise PeerSilent(text, self.peer)
