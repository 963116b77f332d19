"""Received frames of a party: one queue per peer, and the news that a peer failed or finished.

Every frame is written to the ledger as it arrives, whether or not it is ever read. A full queue makes the sender wait
(back-pressure). A frame up to the free size is accepted while the queue holds less than its room. Of a larger
one only the head is: it waits at the door until the party expects exactly that message and allows the size. So a peer
uses no more memory here than the party chose.
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
from unpooled.transport.waiting import Arrival, Door, Wait, WaitingRoom
from unpooled.wire import Buffer, Disclosure, Header, disclosure_named, kind_of, largest_named, read_body, read_header

ROOM_BYTES = 64 * 2**20
FREE_BYTES = 16 * 2**20
"""A frame up to this size is accepted before it is expected."""
EARLY_BYTES = 2**20
"""The same, and the room of a queue, until the plan is agreed."""
SMALL_BYTES = 2**16
"""A frame up to this size is read without a check; a control message is never larger."""
_MOST_NEWS = 10_000
"""How many control messages a peer may send; they are never held back, so they are counted."""
TURN_SECONDS = 0.01
"""The longest that a party waits for its turn."""

Listener = Callable[[Callable[[], bool], float], bool]
"""Takes frames in until it is over, or a moment has passed."""

Judge = Callable[[Header, int], None]
"""Raises if the message with this header and size is not an expected one."""


class Mailbox:
    """One party's mailbox.

    `tell_waiting` tells the others whom this party has long been waiting for, so that they do not blame this party.
    `listeners` are by peer: called while this party waits for one, to take its frames in; False if others do. What
    happens elsewhere then ends with `alarm`.
    """

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
        self._whole_room = room
        self._room = min(room, EARLY_BYTES)
        self._free = EARLY_BYTES
        self.tell_waiting: Callable[[str], None] = lambda _: None
        self.listeners: dict[str, Listener] = {}
        self.alarm: Callable[[], None] = lambda: None
        self._waiting_room = waiting_room
        self._turn = turn
        self._has_turn = False
        self._changed = waiting_room.changed if waiting_room else threading.Condition()
        # None in a queue means: look again, something happened. These queues wake a thread faster than a condition.
        self._queues: dict[str, queue.SimpleQueue[Arrival | None]] = {p: queue.SimpleQueue() for p in peers}
        self._queued = dict.fromkeys(peers, 0)
        self._doors: dict[str, Door] = {}
        self._waiting_for_room = 0
        self._finished: set[str] = set()
        self._heard = dict.fromkeys(peers, 0)
        self._waits_for: dict[str, str] = {}
        self._at_work: dict[str, float] = {}
        self._trouble: Callable[[str], UnpooledError] | None = None
        self._left = False
        self._closed = False

    def agreed(self) -> None:
        """The plan is agreed with all peers: messages may be larger from now on."""
        with self._changed:
            self._room, self._free = self._whole_room, FREE_BYTES
            for door in self._doors.values():
                door.open = door.open or door.size <= FREE_BYTES
            self._changed.notify_all()

    def check_size(self, peer: str, head: Buffer, size: int) -> Header:
        """Check a frame by its head: a long frame of a message type that is always short is refused."""
        with self._changed:
            self._refuse_if(self._closed)
            try:
                header = read_header(head)
            except WireError as error:
                raise self._misbehaves(peer, f"sent bytes that are not a message: {error}") from None
            kind, fields = header.kind, largest_named(header.kind)
            most = SMALL_BYTES if kind in _NEWS else None if fields is None else header.start + fields
            if most is not None and size > max(most, SMALL_BYTES):
                raise self._misbehaves(peer, f"announced a {kind} of {size} bytes; at most {most} are allowed")
            return header

    def knock(self, peer: str, head: Buffer, size: int) -> bool:
        """Check a frame before more than its head is read; a large one waits until this party expects it.

        Returns whether it had to wait; PeerLost if this party has left.
        """
        header = self.check_size(peer, head, size)
        with self._changed:
            if size <= self._free:
                return False
            door = Door(size)
            self._doors[peer] = door
            self._enqueue(peer, Arrival(header, size, door))
            self._changed.wait_for(lambda: door.open or self._left)
            del self._doors[peer]
            self._refuse_if(self._left and not door.open)
            return True

    def waits_at_door(self, size: int) -> bool:
        """Whether a frame of this size waits until it is expected."""
        return size > self._free

    def is_full(self, peer: str) -> bool:
        """Whether a peer's next frame waits for room."""
        return self._queued[peer] >= self._room

    def somebody_waits(self) -> bool:
        """Whether a large frame waits at the door."""
        return bool(self._doors)

    def arriving(self, peer: str) -> None:
        """A part of a large frame has arrived, so the peer is busy sending."""
        with self._changed:
            self._at_work[peer] = time.monotonic()

    def deliver(self, peer: str, data: Buffer, timeout: float | None = None) -> None:
        """Add a frame from a peer, waiting while its queue is full; PeerLost if this mailbox has closed."""
        with self._changed:
            self._refuse_if(self._closed)
            if self._heard[peer] >= _MOST_NEWS:
                raise self._misbehaves(peer, f"sent more than {_MOST_NEWS} control messages")
            header = self._received(peer, data)
            if header is None:
                return
            if self._queued[peer] >= self._room:
                self._wait_for_room(peer, header.kind, timeout)
                self._refuse_if(self._left)
            self._enqueue(peer, Arrival(header, len(data)))

    def take(self, peer: str, what: str, timeout: float, judge: Judge | None = None) -> Header:
        """The next frame of a peer; raises the error that says why there is none, above all a known failure.

        The timeout restarts when the peer, or the party that it waits for, sends a keep-alive. The others are told
        once, when half of it has passed since the wait began. `judge` raises if the frame is not accepted.
        """
        start, told = time.monotonic(), False
        arrived: Arrival | None = None
        while True:
            if arrived is not None:
                header, size, door = self._taken(peer, arrived)
                if judge is not None:
                    judge(header, size)
                if door is None:
                    return header
                with self._changed:
                    door.open = True
                    self._changed.notify_all()
                start, arrived = time.monotonic(), None
            if self._trouble is not None:
                raise self._trouble(f"while {self.party} waited for {what} from {peer}")
            if not self._queues[peer].empty():  # this thread alone takes anything out
                arrived = self._queues[peer].get()
                continue
            if peer in self._finished and not self._queued[peer]:
                raise PeerLost(f"{peer} has finished, but {self.party} still waits for {what} from it", peer)
            deadline, now = self._last_at_work(peer, start) + timeout, time.monotonic()
            if not told and now >= start + timeout / 2:
                told = True
                self.tell_waiting(peer)
            elif now >= deadline:
                raise self._silent(peer, f"{self.party} waited {timeout:g} s for {what} from {peer}: nothing arrived")
            else:
                arrived = self._next(peer, what, deadline if told else start + timeout / 2)

    def take_goodbye(self, peer: str, timeout: float) -> None:
        """Wait for a peer's goodbye; any other message of it is unexpected."""

        def refuse(header: Header, size: int) -> None:  # noqa: ARG001
            raise ProtocolError(f"{peer} sent an unexpected {header.kind} (scope '{header.scope}')")

        try:
            self.take(peer, "the goodbye", timeout, refuse)
        except PeerLost:
            with self._changed:
                if peer not in self._finished or self._trouble is not None:
                    raise

    def lose(self, peer: str, reason: str) -> None:
        """Note that a peer's connection ended; if it had not finished, every wait ends with that."""
        with self._changed:
            if peer not in self._finished:
                self._note_peer(PeerLost, peer, f"{peer}: {reason}")

    def check(self, doing: str = "was at work", *details: str) -> None:
        """Raise if a peer has failed; the error says what this party was doing."""
        if self._trouble is not None:
            raise self._trouble(f"while {self.party} {doing.format(*details)}")

    def take_turn(self) -> None:
        """Where parties take turns, wait for this one's turn, but not for long."""
        if self._turn is not None and not self._has_turn:
            self._has_turn = self._turn.acquire(timeout=TURN_SECONDS)

    def _end_turn(self) -> None:
        if self._turn is not None and self._has_turn:
            self._has_turn = False
            self._turn.release()

    def leave(self) -> None:
        """This party reads nothing more: nobody needs to wait to deliver a frame."""
        with self._changed:
            self._left = True
            self._changed.notify_all()

    def close(self) -> None:
        self._end_turn()
        self.leave()
        self._closed = True

    def _refuse_if(self, gone: bool) -> None:
        if gone:
            raise PeerLost(f"{self.party} has left the conversation", self.party)

    def _enqueue(self, peer: str, arrival: Arrival) -> None:
        self._queued[peer] += arrival.takes
        self._queues[peer].put(arrival)

    def _received(self, peer: str, data: Buffer) -> Header | None:
        """Record a frame and read its header; None for what never reaches the queue: garbage, and control messages."""
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
            raise self._misbehaves(peer, f"sent {kind} after its Goodbye")
        if kind not in _NEWS:
            self._waits_for.pop(peer, None)
            return header
        self._heard[peer] += 1
        try:
            self._hear(peer, read_body(header, _NEWS[kind]))
        except WireError as error:
            self._note_peer(PeerFailed, peer, f"{peer} sent an invalid {kind}: {error}")
        return None

    def _misbehaves(self, peer: str, what: str) -> ProtocolError:
        self._note_peer(PeerFailed, peer, f"{peer} {what}")
        return ProtocolError(f"{peer} {what}")

    def _hear(self, peer: str, news: object) -> None:
        match news:
            case Abort(origin=origin, reason=reason) if origin != peer and origin in (self.party, *self.peers):
                self._note_peer(PeerFailed, origin, f"{peer} reports: {spoken(reason)}")
            case Abort(reason=reason):
                self._note_peer(PeerFailed, peer, f"{peer} {spoken(reason)}")
            case Working():
                self._at_work[peer] = time.monotonic()
                self._waits_for.pop(peer, None)
            case Waiting(whom=whom) if whom in (self.party, *self.peers):
                self._waits_for[peer] = whom
            case Goodbye():
                self._finished.add(peer)
                self._queues[peer].put(None)

    def _taken(self, peer: str, arrival: Arrival) -> Arrival:
        """Free the room that an item took in a peer's queue."""
        with self._changed:
            self._queued[peer] -= arrival.takes
            if self._waiting_for_room:
                self._changed.notify_all()
        return arrival

    def _next(self, peer: str, what: str, deadline: float) -> Arrival | None:
        """Wait for the next item in a peer's queue; None if it is not a frame, or the deadline passes."""

        def over() -> bool:
            return self._queued[peer] > 0 or self._trouble is not None or peer in self._finished

        if self._waiting_room:
            with self._changed:
                self._waiting_room.enter(self.party, Wait(peer, what, over))
        listen = self.listeners.get(peer)
        if listen and listen(over, deadline):
            return None
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

    def _wait_for_room(self, peer: str, kind: str, timeout: float | None) -> None:
        def over() -> bool:
            return self._queued[peer] < self._room or self._left

        if self._waiting_room:
            self._waiting_room.enter(peer, Wait(self.party, f"room for {kind}", over))
        self._waiting_for_room += 1
        try:
            if not self._changed.wait_for(over, timeout):
                raise PeerSilent(f"{peer} waited {timeout:g} s for {self.party} to read a message", self.party)
        finally:
            self._waiting_for_room -= 1
            if self._waiting_room:
                self._waiting_room.leave(peer)

    def _silent(self, peer: str, text: str) -> PeerSilent:
        """Blame the end of the chain: a peer that is itself waiting is not the silent one."""
        with self._changed:
            chain = self._chain(peer)
            text += "".join(f"; {waiting} waits for {whom}" for waiting, whom in pairwise(chain))
            return PeerSilent(text, chain[-1])

    def patience(self, peer: str, timeout: float) -> Callable[[], None]:
        """A function to call while waiting for a peer to read a message; it raises when the timeout has passed.

        As in `take`, keep-alives restart the timeout, and halfway through it the others are told.
        """
        start, told = time.monotonic(), False

        def look() -> None:
            nonlocal told
            self.check("waited for {} to read a message", peer)
            now = time.monotonic()
            if not told and now >= start + timeout / 2:
                told = True
                self.tell_waiting(peer)
            if now > self._last_at_work(peer, start) + timeout:
                raise self._silent(peer, f"{self.party} waited {timeout:g} s for {peer} to read a message")

        return look

    def _last_at_work(self, peer: str, since: float) -> float:
        with self._changed:
            return max(since, *(self._at_work.get(party, since) for party in self._chain(peer)))

    def _chain(self, peer: str) -> list[str]:
        """A peer, the party it waits for, the party that one waits for, and so on."""
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
        self.alarm()


_NEWS = {kind_of(kind): kind for kind in (Abort, Goodbye, Waiting, Working)}
"""The control messages that are not queued but handled at once."""
