"""A link to one peer: frames on a TLS connection, whichever side dialled.

A frame is sent as its size (8 bytes) and its bytes. The sender encrypts, and passes the system as much as it accepts;
the rest waits for the link's writing thread, up to a limit, and then the sender waits. The receiver reads the head of a
frame, lets the mailbox check it, and only then allocates memory for the rest.

A party that waits for a peer reads by itself, since waking one thread by another takes longer than to read a short
frame. While it has not done so for a moment, because it computes or waits for others, the link's reading thread does;
so does it with a frame that has to wait at the door.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Literal

from unpooled.errors import PeerLost, UnpooledError, WireError
from unpooled.transport.mailbox import SMALL_BYTES, Mailbox
from unpooled.transport.tls import RECORD_BYTES, Secured
from unpooled.wire import HEAD_BYTES, MAX_FRAME_BYTES, Buffer, Frame

log = logging.getLogger("unpooled.transport")

CHUNK_BYTES = 2**18
QUEUED_BYTES = 2**22
_SIZE_BYTES = 8
_GLANCE_SECONDS = 0.2
_MOMENT_SECONDS = 0.05
_PAUSE_SECONDS = 0.1
_FOR_EVER = 10.0**6

Step = Literal["needs more", "frame", "large frame"]
"""Where reading pauses: more must come from the network, a frame was delivered, one may have to wait at the door."""


def pieces(frame: Frame, size: int = CHUNK_BYTES) -> Iterator[Buffer]:
    """A frame preceded by its size, in pieces to be encrypted one by one; only small parts are copied."""
    announced = frame.size.to_bytes(_SIZE_BYTES, "little")
    if frame.size < size:
        yield b"".join((announced, *frame.parts))
        return
    yield announced
    for part in frame.parts:
        view = memoryview(part)
        for start in range(0, len(view), size):
            yield view[start : start + size]


class Link:
    """The connection with one peer; usable once `begin` was called."""

    def __init__(self, peer: str, mailbox: Mailbox, timeout: float) -> None:
        self.peer = peer
        self._mailbox = mailbox
        self._timeout = timeout
        self._changed = threading.Condition()
        self._outbox: deque[Buffer] = deque()
        self._unsent = 0
        self._works = False
        self._ending = False
        self._threads: list[threading.Thread] = []
        self._inbox = memoryview(bytearray(CHUNK_BYTES))
        self._record = memoryview(bytearray(RECORD_BYTES))
        self._left = self._record[:0]
        self._frames = self._read_frames()
        self._is_read = threading.Lock()
        self._last_read = -_FOR_EVER
        self._wanted = False
        self._look = threading.Event()
        self._over = False

    def begin(self, connection: socket.socket, secured: Secured) -> None:
        """Start using a connection on which both sides have accepted each other."""
        _keep_alive(connection, self._timeout)
        connection.settimeout(_FOR_EVER)
        self._connection, self._secured = connection, secured
        self._at_once = connection.dup()
        self._at_once.settimeout(0)
        self._for_a_moment = connection.dup()
        self._for_a_moment.settimeout(_MOMENT_SECONDS)
        self._works = True
        for act, way in ((self._read, "from"), (self._write, "to")):
            thread = threading.Thread(target=act, name=f"unpooled-{way}-{self.peer}", daemon=True)
            self._threads.append(thread)
            thread.start()
        log.info("%s is connected with %s", self._mailbox.party, self.peer)

    def send(self, frame: Frame) -> None:
        """Send a frame; waits while the peer does not accept more."""
        for piece in pieces(frame):
            if self._unsent > QUEUED_BYTES:
                self._wait_for_place()
            self._hand_over(self._secured.encrypt(piece) if self._works else b"")

    def can_send(self) -> bool:
        """Whether a short frame could be sent without waiting."""
        return self._works and not self._unsent

    def end(self) -> None:
        """Close the sending direction after everything that was sent."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._look.set()

    def close(self, until: float) -> None:
        """Stop all threads; until then the peer may still read what was sent and close its side."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if self._threads:
            for end in (self._connection, self._at_once, self._for_a_moment):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)  # wakes a thread that still reads or writes
                end.close()

    # sending

    def _hand_over(self, data: Buffer) -> None:
        with self._changed:
            if not self._works:
                self._mailbox.check("was about to send a message to {}", self.peer)
                raise PeerLost(f"{self.peer}: the connection was lost", self.peer)
            if not self._unsent:
                try:
                    data = memoryview(data)[self._at_once.send(data) :]
                except BlockingIOError:
                    pass
                except OSError:
                    self._works = False  # the thread that reads finds out why
                    return
            if data:
                self._outbox.append(data)
                self._unsent += len(data)
                self._changed.notify_all()

    def _wait_for_place(self) -> None:
        """Wait until the peer has read enough; but not while a peer waits for this party, which could be a deadlock."""
        look = self._mailbox.patience(self.peer, self._timeout)
        while self._works and self._unsent > QUEUED_BYTES and not self._mailbox.somebody_waits():
            with self._changed:
                self._changed.wait(min(_GLANCE_SECONDS, self._timeout / 4))
            look()

    def _write(self) -> None:
        """Send what the system did not accept at once, and the end of the TLS stream."""
        try:
            while data := self._next_out():
                self._connection.sendall(data)
                with self._changed:
                    self._outbox.popleft()
                    self._unsent -= len(data)
                    self._changed.notify_all()
            self._connection.sendall(self._secured.farewell())
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            with self._changed:
                self._works = False
                self._changed.notify_all()

    def _next_out(self) -> Buffer | None:
        with self._changed:
            self._changed.wait_for(lambda: self._outbox or self._ending)
            return self._outbox[0] if self._outbox else None

    # receiving

    def read(self, until: float) -> bool:
        """Read in the calling thread until there is a frame or news, but not for long.

        False if the link's thread reads; it stops after the next frame, so that the caller can.
        """
        self._wanted = True
        if self._over or not self._is_read.acquire(blocking=False):
            return False
        try:
            while time.monotonic() < until:
                self._last_read = time.monotonic()
                step = self._step(self._for_a_moment)
                if step == "large frame":
                    self._look.set()
                    return False
                if step != "needs more":
                    break
            return True
        finally:
            self._last_read = time.monotonic()
            self._is_read.release()

    def _read(self) -> None:
        """The link's thread reads while the party does not."""
        while not self._over:
            pause = self._last_read + _PAUSE_SECONDS - time.monotonic()
            if pause > 0 and not self._ending and not self._look.wait(pause):
                continue
            with self._is_read:
                self._look.clear()
                self._wanted = False
                while not self._over and not (self._step(self._connection) == "frame" and self._wanted):
                    pass
                self._last_read = time.monotonic()
            self._mailbox.look_again(self.peer)
        self._drain()

    def _step(self, connection: socket.socket) -> Step | Literal["nothing", "the end"]:
        """Read on; "nothing" if nothing arrived in time, "the end" if nothing more comes, which the mailbox knows."""
        try:
            step = next(self._frames, None)  # None if an interrupt ended it
            if step == "needs more":
                count = connection.recv_into(self._inbox)
                self._secured.receive(self._inbox[:count])
            if step is None or (step == "needs more" and not count):
                raise EOFError
            return step
        except TimeoutError:
            return "nothing"
        except WireError as error:
            self._mailbox.lose(self.peer, f"invalid data: {error}")
        except (OSError, EOFError, UnpooledError) as error:  # an UnpooledError is known to the mailbox already
            log.debug("reading from %s ended: %r", self.peer, error)
            self._mailbox.lose(self.peer, "the connection was lost")
        self._over = True
        self._look.set()
        return "the end"

    def _read_frames(self) -> Generator[Step, None, None]:
        while True:
            size = int.from_bytes((yield from self._exactly(_SIZE_BYTES)), "little")
            if not 0 < size <= MAX_FRAME_BYTES:
                raise WireError(f"a frame of {size} bytes was announced, 1 to {MAX_FRAME_BYTES} are allowed")
            if size <= SMALL_BYTES:
                self._mailbox.deliver(self.peer, (yield from self._exactly(size)))
            else:
                yield from self._read_large(size)
            yield "frame"

    def _read_large(self, size: int) -> Generator[Step, None, None]:
        head = yield from self._exactly(HEAD_BYTES)
        if self._mailbox.holds_back(size):
            yield "large frame"
        waited = self._mailbox.knock(self.peer, head, size)
        frame = bytearray(size)
        frame[:HEAD_BYTES] = head
        view = memoryview(frame)
        for start in range(HEAD_BYTES, size, CHUNK_BYTES):
            yield from self._fill(view[start : start + CHUNK_BYTES])
            if waited:
                self._mailbox.arriving(self.peer)
        self._mailbox.deliver(self.peer, frame)

    def _exactly(self, count: int) -> Generator[Step, None, bytearray]:
        data = bytearray(count)
        yield from self._fill(memoryview(data))
        return data

    def _fill(self, view: memoryview) -> Generator[Step, None, None]:
        """Fill a buffer; short ones from a record that is decrypted as a whole, which takes fewer calls."""
        done = 0
        while True:
            if not self._left and len(view) - done < RECORD_BYTES:
                self._left = self._record[: self._secured.decrypt_into(self._record)]
            if count := min(len(self._left), len(view) - done):
                view[done : done + count] = self._left[:count]
                self._left = self._left[count:]
            else:
                count = self._secured.decrypt_into(view[done:])
            done += count
            if done == len(view):
                return
            if not count:
                yield "needs more"

    def _drain(self) -> None:
        """Read what still arrives: closing earlier could discard this party's last message at the peer."""
        with suppress(OSError):
            while self._connection.recv_into(self._inbox):
                pass


def _keep_alive(connection: socket.socket, timeout: float) -> None:
    """Let TCP keep-alive detect within two thirds of the timeout that the peer's machine or its network is gone."""
    pulse = int(max(1.0, min(20.0, timeout / 3)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {"TCP_KEEPIDLE": pulse, "TCP_KEEPALIVE": pulse, "TCP_KEEPINTVL": max(1, pulse // 4), "TCP_KEEPCNT": 4}
    for name, value in settings.items():  # not every system has all of them
        if option := getattr(socket, name, None):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
