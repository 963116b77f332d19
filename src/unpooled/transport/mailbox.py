"""What has arrived at a party and waits to be taken: one queue per peer, and the news that a peer failed or finished.

Every frame goes on the ledger as it arrives, whether or not anybody takes it. A queue that is full makes the one who
delivers wait: that is the back-pressure. A frame of any size is let in while the queue holds less than its room.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from unpooled.control import Abort, Goodbye
from unpooled.errors import Deadlock, PeerError, PeerFailed, PeerLost, PeerSilent, ProtocolError, WireError
from unpooled.ledger import Ledger
from unpooled.wire import Buffer, Disclosure, Header, disclosure_named, kind_of, read_body, read_header

ROOM_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Wait:
    """Whom somebody waits for, what for, and how to see that the wait is over."""

    whom: str
    what: str
    over: Callable[[], bool]


class WaitingRoom:
    """A lock, and who waits for whom under it. Mailboxes that share one notice when they wait in a circle."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waits: dict[str, Wait] = {}

    def enter(self, who: str, wait: Wait) -> None:
        """Note, holding the lock, that somebody waits; Deadlock if those waited for wait for `who`."""
        self._waits[who] = wait
        if wait.over():
            return
        circle, party = [who], wait.whom
        while party not in circle:
            other = self._waits.get(party)
            if other is None or other.over():
                return
            circle.append(party)
            party = other.whom
        circle = circle[circle.index(party) :]
        lines = [f"{party} waits for {self._waits[party].what} from {self._waits[party].whom}" for party in circle]
        del self._waits[who]
        raise Deadlock("; ".join(lines), who)

    def leave(self, who: str) -> None:
        """Note, holding the lock, that the wait is over."""
        del self._waits[who]


class Mailbox:
    """One party's mailbox."""

    def __init__(
        self,
        party: str,
        peers: tuple[str, ...],
        ledger: Ledger,
        waiting_room: WaitingRoom | None = None,
        room: int = ROOM_BYTES,
    ) -> None:
        self.party = party
        self.peers = peers
        self._ledger = ledger
        self._room = room
        self._waiting_room = waiting_room or WaitingRoom()
        self._changed = self._waiting_room.changed
        # None in a queue means: look again, something happened. These queues wake a thread faster than a condition.
        self._queues: dict[str, queue.SimpleQueue[tuple[Header, int] | None]] = {p: queue.SimpleQueue() for p in peers}
        self._queued = dict.fromkeys(peers, 0)
        self._finished: set[str] = set()
        self._trouble: tuple[type[PeerError], str, str] | None = None
        self._closed = False

    def deliver(self, peer: str, data: Buffer, timeout: float | None = None) -> None:
        """Add a frame from a peer, waiting while its queue is full; PeerLost if this mailbox has closed."""
        if self._closed:
            raise PeerLost(f"{self.party} has left the conversation", self.party)
        header = self._read_header(peer, data)
        if header is None:
            return
        with self._changed:
            if self._queued[peer] >= self._room:
                self._wait_for_room(peer, header.kind, timeout)
            if self._closed:
                raise PeerLost(f"{self.party} has left the conversation", self.party)
            if header.kind == kind_of(Goodbye):
                self._finished.add(peer)
                self._queues[peer].put(None)
            else:
                self._queued[peer] += len(data)
                self._queues[peer].put((header, len(data)))

    def take(self, peer: str, what: str, timeout: float) -> Header:
        """The next frame of a peer; raises the PeerError that says why there is none, first of all any trouble."""
        deadline = time.monotonic() + timeout
        while True:
            with self._changed:
                self._raise_trouble(f"while {self.party} waited for {what} from {peer}")
                if not self._queued[peer] and peer in self._finished:
                    raise PeerLost(f"{peer} has finished, but {self.party} still waits for {what} from it", peer)
            arrived = self._next(peer, what, deadline)
            if arrived is not None:
                return arrived
            if time.monotonic() > deadline:
                raise PeerSilent(f"{self.party} waited {timeout:g} s for {what} from {peer}, in vain", peer)

    def take_goodbye(self, peer: str, timeout: float) -> None:
        """Wait for a peer's goodbye; a message of it that nobody took has no place in the protocol."""
        what = "its goodbye"
        try:
            header = self.take(peer, what, timeout)
        except PeerLost:
            with self._changed:
                if peer in self._finished and self._trouble is None:
                    return
            raise
        raise ProtocolError(f"{peer} sent {header.kind} (scope '{header.scope}'), which nobody asked for")

    def lose(self, peer: str, reason: str) -> None:
        """Note that a peer's connection ended; if it had not finished, every wait ends with that."""
        with self._changed:
            if peer not in self._finished:
                self._note(PeerLost, peer, f"{peer}: {reason}")

    def check(self) -> None:
        """Raise if a peer is known to have failed."""
        with self._changed:
            self._raise_trouble(f"while {self.party} was at work")

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _read_header(self, peer: str, data: Buffer) -> Header | None:
        """Record a frame and read its beginning; None for what never reaches the queue: garbage, and bad news."""
        try:
            header = read_header(data)
        except WireError as error:
            nothing = Disclosure("nothing: not a message", "")
            self._ledger.record("received", peer, "(unreadable)", "", len(data), nothing)
            with self._changed:
                self._note(PeerFailed, peer, f"{peer} sent bytes that are not a message: {error}")
            return None
        self._ledger.record("received", peer, header.kind, header.scope, len(data), disclosure_named(header.kind))
        if header.kind != kind_of(Abort):
            return header
        try:
            abort = read_body(header, Abort)
        except WireError:
            abort = Abort(peer, "no readable reason")
        with self._changed:
            if abort.origin == peer:
                self._note(PeerFailed, peer, f"{peer} failed: {abort.reason}")
            else:
                self._note(PeerFailed, abort.origin, f"{peer} reports: {abort.reason}")
        return None

    def _next(self, peer: str, what: str, deadline: float) -> Header | None:
        """Wait for the next thing in a peer's queue; None if it is no frame, or the deadline passes."""
        with self._changed:
            self._waiting_room.enter(self.party, Wait(peer, what, lambda: self._has_news(peer)))
        arrived = None
        try:
            arrived = self._queues[peer].get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
        finally:
            with self._changed:
                self._waiting_room.leave(self.party)
                if arrived is not None:
                    self._queued[peer] -= arrived[1]
                    self._changed.notify_all()
        return arrived[0] if arrived else None

    def _has_news(self, peer: str) -> bool:
        return self._queued[peer] > 0 or self._trouble is not None or peer in self._finished

    def _wait_for_room(self, peer: str, kind: str, timeout: float | None) -> None:
        def over() -> bool:
            return self._queued[peer] < self._room or self._closed

        self._waiting_room.enter(peer, Wait(self.party, f"room for {kind}", over))
        try:
            if not self._changed.wait_for(over, timeout):
                raise PeerSilent(f"{peer} waited {timeout:g} s for {self.party} to take a message, in vain", self.party)
        finally:
            self._waiting_room.leave(peer)

    def _note(self, kind: type[PeerError], origin: str, text: str) -> None:
        if self._trouble is None:
            self._trouble = (kind, origin, text)
        for waiting in self._queues.values():
            waiting.put(None)

    def _raise_trouble(self, when: str) -> None:
        if self._trouble is not None:
            kind, origin, text = self._trouble
            raise kind(f"{text} ({when})", origin)
