"""Parties as threads of one process. Messages are still encoded as bytes, and a deadlock is detected at once.

Parties take turns: threads that all work in small steps slow each other down, since numpy releases the interpreter at
every call. A party that waits for a message ends its turn. The others do not wait long for a turn, so that long steps
still run in parallel.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from unpooled.errors import PeerLost
from unpooled.ledger import Ledger
from unpooled.transport.mailbox import ROOM_BYTES, SMALL_BYTES, Mailbox
from unpooled.transport.waiting import WaitingRoom
from unpooled.wire import Frame


def mailboxes(ledgers: Mapping[str, Ledger], room: int = ROOM_BYTES) -> dict[str, Mailbox]:
    """A mailbox for each party that has a ledger; together they detect deadlocks."""
    shared, turn = WaitingRoom(), threading.Lock()
    return {
        party: Mailbox(party, tuple(peer for peer in ledgers if peer != party), ledger, shared, room, turn)
        for party, ledger in ledgers.items()
    }


class MemoryTransport:
    """One party's transport: it puts frames directly into the others' mailboxes."""

    networked = False

    def __init__(self, party: str, mailboxes: Mapping[str, Mailbox], timeout: float) -> None:
        self.mailbox = mailboxes[party]
        self._mailboxes = mailboxes
        self._timeout = timeout

    def open(self) -> None:
        """Nothing to connect: the others' mailboxes exist."""
        self.mailbox.take_turn()

    def send(self, peer: str, frame: Frame, *, more: bool = False) -> None:  # noqa: ARG002
        box, party = self._mailboxes[peer], self.mailbox.party
        try:
            if frame.size > SMALL_BYTES:
                box.check_size(party, frame.head(), frame.size)
            box.deliver(party, frame.joined(), self._timeout)
        except PeerLost:
            self.mailbox.check()  # an earlier failure explains why the peer has left
            raise

    def flush(self) -> None:
        """Nothing is held back."""

    def can_send(self, peer: str) -> bool:  # noqa: ARG002
        return True

    def close(self) -> None:
        self.mailbox.close()
        for peer in self.mailbox.peers:
            self._mailboxes[peer].lose(self.mailbox.party, "left the conversation")
