"""What has arrived at a party and waits to be taken: one queue per peer, and the news that a peer failed or finished.

Every frame goes on the ledger as it arrives, whether or not anybody takes it. A queue that is full makes the one who
delivers wait: that is the back-pressure. A frame of any size is let in while the queue holds less than its room.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from itertools import pairwise

from unpooled.control import Abort, Goodbye, Waiting, Working, spoken
from unpooled.errors import (
    LedgerError,
    PeerError,
    PeerFailed,
    PeerLost,
    PeerSilent,
    ProtocolError,
    UnpooledError,
    WireError,
)
from unpooled.ledger import Ledger
from unpooled.transport.waiting import Wait, WaitingRoom
from unpooled.wire import Buffer, Disclosure, Header, disclosure_named, kind_of, read_body, read_header

ROOM_BYTES = 64 * 2**20
_MOST_NEWS = 10_000
"""How many messages about the conversation itself a peer may send; they are not held back, so they are counted."""
TURN_SECONDS = 0.01
"""How long a party waits for its turn, at most."""
FRAME_BYTES = 1024
"""What a queued frame takes in memory besides its content, about: a queue of tiny frames must fill up too."""


class Mailbox:
    """One party's mailbox."""

    def __init__(
        self,
        party: str,
        peers: tuple[str, ...],
        ledger: Ledger,
        waiting_room: WaitingRoom | None = None,
        room: int = ROOM_BYTES,
        turn: threading.Lock | None = None,
    ) -> None:
        self.party = party
        self.peers = peers
        self._ledger = ledger
        self._room = room
        self._waiting_room = waiting_room
        self._turn = turn
        self._has_turn = False
        self._changed = waiting_room.changed if waiting_room else threading.Condition()
        # None in a queue means: look again, something happened. These queues wake a thread faster than a condition.
        self._queues: dict[str, queue.SimpleQueue[tuple[Header, int] | None]] = {p: queue.SimpleQueue() for p in peers}
        self._queued = dict.fromkeys(peers, 0)
        self._waiting_for_room = 0
        self._finished: set[str] = set()
        self._heard = dict.fromkeys(peers, 0)
        self._waits_for: dict[str, str] = {}
        self._at_work: dict[str, float] = {}
        self._trouble: Callable[[str], UnpooledError] | None = None
        self._closed = False

    def deliver(self, peer: str, data: Buffer, timeout: float | None = None) -> None:
        """Add a frame from a peer, waiting while its queue is full; PeerLost if this mailbox has closed."""
        size = len(data) + FRAME_BYTES
        with self._changed:
            self._refuse_if_closed()
            if self._heard[peer] >= _MOST_NEWS:
                raise self._misbehaves(peer, f"sent more than {_MOST_NEWS} messages about the conversation itself")
            header = self._received(peer, data)
            if header is None:
                return
            if self._queued[peer] >= self._room:
                self._wait_for_room(peer, header.kind, timeout)
                self._refuse_if_closed()
            self._queued[peer] += size
            self._queues[peer].put((header, size))

    def take(self, peer: str, what: str, timeout: float, halfway: Callable[[], None] | None = None) -> Header:
        """The next frame of a peer; raises the error that says why there is none, first of all any trouble.

        The timeout begins anew when the peer, or whom it waits for, says that it is at work. `halfway` is called once,
        when half of it has passed since the wait began.
        """
        start, told = time.monotonic(), False
        while True:
            if self._trouble is not None:
                raise self._trouble(f"while {self.party} waited for {what} from {peer}")
            if not self._queues[peer].empty():  # this thread alone takes anything out
                arrived = self._queues[peer].get()
                if arrived is not None:
                    return self._taken(peer, *arrived)
                continue
            if peer in self._finished and not self._queued[peer]:
                raise PeerLost(f"{peer} has finished, but {self.party} still waits for {what} from it", peer)
            deadline, now = self._last_at_work(peer, start) + timeout, time.monotonic()
            if not told and now >= start + timeout / 2:
                told = True
                if halfway is not None:
                    halfway()
            elif now >= deadline:
                raise self._silent(peer, f"{self.party} waited {timeout:g} s for {what} from {peer}, in vain")
            else:
                arrived = self._next(peer, what, deadline if told else start + timeout / 2)
                if arrived is not None:
                    return self._taken(peer, *arrived)

    def take_goodbye(self, peer: str, timeout: float, halfway: Callable[[], None] | None = None) -> None:
        """Wait for a peer's goodbye; a message of it that nobody took has no place in the protocol."""
        try:
            header = self.take(peer, "its goodbye", timeout, halfway)
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
                self._note_peer(PeerLost, peer, f"{peer}: {reason}")

    def check(self, doing: str = "was at work", *details: str) -> None:
        """Raise if a peer is known to have failed; the error says what this party was doing."""
        if self._trouble is not None:
            raise self._trouble(f"while {self.party} {doing.format(*details)}")

    def take_turn(self) -> None:
        """Where parties take turns, wait until it is this one's; nobody waits for one that is at work for long."""
        if self._turn is not None and not self._has_turn:
            self._has_turn = self._turn.acquire(timeout=TURN_SECONDS)

    def _end_turn(self) -> None:
        if self._turn is not None and self._has_turn:
            self._has_turn = False
            self._turn.release()

    def close(self) -> None:
        self._end_turn()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise PeerLost(f"{self.party} has left the conversation", self.party)

    def _received(self, peer: str, data: Buffer) -> Header | None:
        """Record a frame and read its beginning; None for what never reaches the queue: garbage, and news."""
        try:
            header = read_header(data)
            kind, scope, disclosure = header.kind, header.scope, disclosure_named(header.kind)
        except WireError as error:
            self._note_peer(PeerFailed, peer, f"{peer} sent bytes that are not a message: {error}")
            header, kind, scope, disclosure = None, "(unreadable)", "", Disclosure("nothing: not a message", "")
        try:
            self._ledger.record("received", peer, kind, scope, len(data), disclosure)
        except LedgerError as error:
            text = str(error)
            self._note(lambda _: LedgerError(text))
            return None
        if header is None:
            return None
        if peer in self._finished and kind not in (kind_of(Abort), kind_of(Waiting), kind_of(Working)):
            raise self._misbehaves(peer, f"sent {kind} after its goodbye")
        if kind not in _NEWS:
            self._waits_for.pop(peer, None)
            return header
        self._heard[peer] += 1
        try:
            self._hear(peer, read_body(header, _NEWS[kind]))
        except WireError as error:
            self._note_peer(PeerFailed, peer, f"{peer} sent a {kind} that cannot be read: {error}")
        return None

    def _misbehaves(self, peer: str, what: str) -> ProtocolError:
        self._note_peer(PeerFailed, peer, f"{peer} {what}")
        return ProtocolError(f"{peer} {what}")

    def _hear(self, peer: str, news: object) -> None:
        match news:
            case Abort(origin=origin, reason=reason) if origin != peer and origin in (self.party, *self.peers):
                self._note_peer(PeerFailed, origin, f"{peer} reports: {spoken(reason)}")
            case Abort(reason=reason):
                self._note_peer(PeerFailed, peer, f"{peer} failed: {spoken(reason)}")
            case Working():
                self._at_work[peer] = time.monotonic()
                self._waits_for.pop(peer, None)
            case Waiting(whom=whom) if whom in (self.party, *self.peers):
                self._waits_for[peer] = whom
            case Goodbye():
                self._finished.add(peer)
                self._queues[peer].put(None)

    def _taken(self, peer: str, header: Header, size: int) -> Header:
        """Make room for as much as was taken out of a peer's queue."""
        with self._changed:
            self._queued[peer] -= size
            if self._waiting_for_room:
                self._changed.notify_all()
        return header

    def _next(self, peer: str, what: str, deadline: float) -> tuple[Header, int] | None:
        """Wait for the next thing in a peer's queue; None if it is no frame, or the deadline passes."""
        if self._waiting_room:
            with self._changed:
                self._waiting_room.enter(self.party, Wait(peer, what, lambda: self._has_news(peer)))
        self._end_turn()
        try:
            return self._queues[peer].get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
        finally:
            if self._waiting_room:
                with self._changed:
                    self._waiting_room.leave(self.party)
            self.take_turn()

    def _has_news(self, peer: str) -> bool:
        return self._queued[peer] > 0 or self._trouble is not None or peer in self._finished

    def _wait_for_room(self, peer: str, kind: str, timeout: float | None) -> None:
        def over() -> bool:
            return self._queued[peer] < self._room or self._closed

        if self._waiting_room:
            self._waiting_room.enter(peer, Wait(self.party, f"room for {kind}", over))
        self._waiting_for_room += 1
        try:
            if not self._changed.wait_for(over, timeout):
                raise PeerSilent(f"{peer} waited {timeout:g} s for {self.party} to take a message, in vain", self.party)
        finally:
            self._waiting_for_room -= 1
            if self._waiting_room:
                self._waiting_room.leave(peer)

    def _silent(self, peer: str, text: str) -> PeerSilent:
        """Blame the end of the chain: a peer that said that it waits itself is not the silent one."""
        with self._changed:
            chain = self._chain(peer)
            text += "".join(f"; {waiting} waits for {whom}" for waiting, whom in pairwise(chain))
            return PeerSilent(text, chain[-1])

    def _last_at_work(self, peer: str, since: float) -> float:
        with self._changed:
            return max(since, *(self._at_work.get(party, since) for party in self._chain(peer)))

    def _chain(self, peer: str) -> list[str]:
        """A peer, whom it waits for, whom that one waits for, and so on."""
        chain = [peer]
        while (whom := self._waits_for.get(chain[-1])) is not None and whom not in (self.party, *chain):
            chain.append(whom)
        return chain

    def _note_peer(self, kind: type[PeerError], origin: str, text: str) -> None:
        self._note(lambda when: kind(f"{text} ({when})", origin))

    def _note(self, trouble: Callable[[str], UnpooledError]) -> None:
        if self._trouble is None:
            self._trouble = trouble
        for waiting in self._queues.values():
            waiting.put(None)


_NEWS = {kind_of(kind): kind for kind in (Abort, Goodbye, Waiting, Working)}
"""The messages that are not queued: they are heard at once, whatever lies before them."""
