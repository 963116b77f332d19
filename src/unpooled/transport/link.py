"""A link to one peer: frames on a TLS connection, whichever side dialled.

A frame is sent as its size (8 bytes) and its bytes. The sender encrypts, and passes the system as much as it accepts;
the rest waits for the link's writing thread, up to a limit, and then the sender waits. A frame that another one follows
may be held back, so that both are encrypted and sent together, and wake the receiver once. The receiver reads the head
of a frame, lets the mailbox check it, and only then allocates memory for the rest.

A link has a reading thread, so that frames are taken in while the party computes. While the party waits for this peer,
its own thread reads in place of that one (`listen`), where the system has epoll: being woken is most of what a small
frame costs. What could make it wait for itself, such as a large frame that it must first expect, it leaves to the
other.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from unpooled.errors import PeerLost, UnpooledError, WireError
from unpooled.transport.listening import Bell, Ears
from unpooled.transport.mailbox import SMALL_BYTES, Mailbox
from unpooled.transport.tls import Secured
from unpooled.wire import HEAD_BYTES, MAX_FRAME_BYTES, Buffer, Frame

log = logging.getLogger("unpooled.transport")

CHUNK_BYTES = 2**18
QUEUED_BYTES = 2**22
HELD_BYTES = 2**16
SIZE_BYTES = 8
_GLANCE_SECONDS = 0.2
_FOR_EVER = 10.0**6


def pieces(frame: Frame, size: int = CHUNK_BYTES) -> Iterator[Buffer]:
    """A frame preceded by its size, in pieces to be encrypted one by one; only small parts are copied."""
    announced = frame.size.to_bytes(SIZE_BYTES, "little")
    if frame.size < size:
        yield b"".join((announced, *frame.parts))
        return
    yield announced
    for part in frame.parts:
        view = memoryview(part)
        for start in range(0, len(view), size):
            yield view[start : start + size]


class Link:
    """The connection with one peer; usable once `begin` was called.

    One thread sends, flushes and ends. Before it waits for the peer to read, it calls `before_waiting`: other links may
    hold what the peer waits for.
    """

    def __init__(
        self, peer: str, mailbox: Mailbox, timeout: float, before_waiting: Callable[[], None] = lambda: None
    ) -> None:
        self.peer = peer
        self._mailbox = mailbox
        self._timeout = timeout
        self._before_waiting = before_waiting
        self._changed = threading.Condition()
        self._held: list[Buffer] = []
        self._held_bytes = 0
        self._outbox: deque[Buffer] = deque()
        self._unsent = 0
        self._works = False
        self._ending = False
        self._threads: list[threading.Thread] = []
        self._inbox = memoryview(bytearray(CHUNK_BYTES))
        self._ears: Ears | None = None
        self._reading = threading.Lock()  # whoever holds it reads
        self._for_thread = True  # the reading thread is next
        self._fault: Exception | None = None
        self._steps = self._frames()

    def begin(self, connection: socket.socket, secured: Secured, alarm: Bell | None = None) -> None:
        """Start using a connection on which both sides have accepted each other.

        The party reads itself only where it has an alarm, which rings when another peer is in trouble.
        """
        _keep_alive(connection, self._timeout)
        connection.settimeout(_FOR_EVER)
        self._connection, self._secured = connection, secured
        self._at_once = connection.dup()
        self._at_once.settimeout(0)
        if alarm:
            self._ears = Ears(connection, alarm)
            self._mailbox.listeners[self.peer] = self.listen
        self._works = True
        for act, way in ((self._read, "from"), (self._write, "to")):
            thread = threading.Thread(target=act, name=f"unpooled-{way}-{self.peer}", daemon=True)
            self._threads.append(thread)
            thread.start()
        log.info("%s is connected with %s", self._mailbox.party, self.peer)

    def send(self, frame: Frame, *, more: bool = False) -> None:
        """Send a frame; waits while the peer does not accept more.

        With `more` another one follows at once: a small frame is held back until then, or until `flush` or `end`.
        """
        if more and self._held_bytes + SIZE_BYTES + frame.size <= HELD_BYTES:
            self._refuse_if_lost()
            self._held += pieces(frame)
            self._held_bytes += SIZE_BYTES + frame.size
            return
        for piece in pieces(frame):
            if self._unsent > QUEUED_BYTES:
                self._wait_for_place()
            self._refuse_if_lost()
            self._hand_over(self._encrypted(piece))

    def flush(self) -> None:
        """Send what is held back."""
        if self._held:
            self._refuse_if_lost()
            self._hand_over(self._encrypted())

    def can_send(self) -> bool:
        """Whether a short frame could be sent without waiting."""
        return self._works and not self._unsent

    def end(self) -> None:
        """Close the sending direction after everything that was sent, or held back."""
        held = self._encrypted() if self._held and self._works else b""
        with self._changed:
            if held:
                self._add(held)
            self._ending = True
            self._changed.notify_all()

    def close(self, until: float) -> None:
        """Stop all threads; until then the peer may still read what was sent and close its side."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if self._threads:
            for end in (self._connection, self._at_once):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)  # wakes a thread that still reads or writes
            for thread in self._threads:
                thread.join(_GLANCE_SECONDS)
            for end in (self._connection, self._at_once):
                end.close()
            self._mailbox.listeners.pop(self.peer, None)
            self._ears = None

    # sending

    def _refuse_if_lost(self) -> None:
        if not self._works:
            self._mailbox.check("was about to send a message to {}", self.peer)
            raise PeerLost(f"{self.peer}: the connection was lost", self.peer)

    def _encrypted(self, piece: Buffer = b"") -> bytes:
        """What was held back, and a piece, encrypted together."""
        if self._held:
            piece = b"".join((*self._held, piece))
            self._held, self._held_bytes = [], 0
        return self._secured.encrypt(piece)

    def _hand_over(self, data: Buffer) -> None:
        with self._changed:
            self._refuse_if_lost()
            if not self._unsent:
                try:
                    data = memoryview(data)[self._at_once.send(data) :]
                except BlockingIOError:
                    pass
                except OSError:
                    self._works = False  # the thread that reads finds out why
                    return
            if data:
                self._add(data)

    def _add(self, data: Buffer) -> None:
        self._outbox.append(data)
        self._unsent += len(data)
        self._changed.notify_all()

    def _wait_for_place(self) -> None:
        """Wait until the peer has read enough; but not while a peer waits for this party, which could be a deadlock."""
        self._before_waiting()
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

    def listen(self, over: Callable[[], bool], deadline: float) -> bool:
        """Take in frames at the party's own thread until it is over, or too late; False if the other must go on."""
        ears = self._ears
        if ears is None or not self._reading.acquire(blocking=False):
            return False
        try:
            if self._for_thread:
                return False
            ears.thread_listens(listens=False)
            try:
                while not over() and ears.wait_until(deadline):
                    self._for_thread = True  # also if this thread is interrupted
                    if not self._take_in(alone=False):
                        ears.call_thread()
                        return False
                    self._for_thread = False
                return True
            finally:
                ears.thread_listens(listens=True)
        finally:
            self._reading.release()

    def _read(self) -> None:
        try:
            while True:
                with self._reading:
                    self._take_in(alone=True)
                    self._for_thread = False
                if ears := self._ears:
                    ears.wait()
        except WireError as error:
            self._mailbox.lose(self.peer, f"invalid data: {error}")
        except (OSError, EOFError, UnpooledError) as error:  # an UnpooledError is known to the mailbox already
            log.debug("reading from %s ended: %r", self.peer, error)
            self._mailbox.lose(self.peer, "the connection was lost")
        self._drain()

    def _take_in(self, *, alone: bool) -> bool:
        """Take in what has arrived; False where only the reading thread, which is alone with it, can go on.

        The party takes in only as much as arrives at once: it may have what it waits for.
        """
        once = False
        try:
            if self._fault:
                raise self._fault
            while True:
                if (may_wait := next(self._steps, None)) is None:
                    raise EOFError  # the party was interrupted while it read
                if may_wait:
                    if not alone:
                        return False
                elif (once and not alone) or (received := self._from_network()) is None:
                    return True
                else:
                    self._secured.receive(received)
                    once = True
        except (OSError, EOFError, UnpooledError) as fault:
            self._fault, self._for_thread = fault, True
            if alone:
                raise
            return False

    def _frames(self) -> Iterator[bool]:
        """Take in frame after frame: a step ends where more bytes are needed, or (True) where the next may wait."""
        while True:
            yield from self._frame()

    def _frame(self) -> Iterator[bool]:
        announced = bytearray(SIZE_BYTES)
        yield from self._fill(memoryview(announced))
        size = int.from_bytes(announced, "little")
        if not 0 < size <= MAX_FRAME_BYTES:
            raise WireError(f"a frame of {size} bytes was announced, 1 to {MAX_FRAME_BYTES} are allowed")
        head, waited = bytearray(HEAD_BYTES if size > SMALL_BYTES else 0), False
        if head:
            yield from self._fill(memoryview(head))
            if self._mailbox.waits_at_door(size):
                yield True
            waited = self._mailbox.knock(self.peer, head, size)
        frame = bytearray(size)
        frame[: len(head)] = head
        view = memoryview(frame)
        for start in range(len(head), size, CHUNK_BYTES):
            yield from self._fill(view[start : start + CHUNK_BYTES])
            if waited:
                self._mailbox.arriving(self.peer)
        if self._mailbox.is_full(self.peer):
            yield True
        self._mailbox.deliver(self.peer, frame)

    def _fill(self, view: memoryview) -> Iterator[bool]:
        done = 0
        while (done := done + self._secured.decrypt_into(view[done:])) < len(view):
            yield False

    def _from_network(self) -> memoryview | None:
        """What has arrived; None for nothing yet, where something else is waited with."""
        while True:
            try:
                count = (self._at_once if self._ears else self._connection).recv_into(self._inbox)
            except BlockingIOError:
                return None
            except TimeoutError:
                continue
            if not count:
                raise EOFError
            return self._inbox[:count]

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
