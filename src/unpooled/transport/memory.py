"""Parties as threads of one process. Messages still go through bytes, and a deadlock is noticed when it begins.

Parties take turns: threads that all work in small steps get in one another's way, since numpy lets another one in at
every call. Whoever waits for a message ends its turn. The others do not wait for a step that takes long, so that large
steps still go on side by side.
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
    """A mailbox for each party that has a ledger, all in one waiting room."""
    shared, turn = WaitingRoom(), threading.Lock()
    return {
        party: Mailbox(party, tuple(peer for peer in ledgers if peer != party), ledger, shared, room, turn)
        for party, ledger in ledgers.items()
    }


class MemoryTransport:
    """One party's end: it puts what it sends straight into the others' mailboxes."""

    networked = False

    def __init__(self, party: str, mailboxes: Mapping[str, Mailbox], timeout: float) -> None:
        self.mailbox = mailboxes[party]
        self._mailboxes = mailboxes
        self._timeout = timeout

    def open(self) -> None:
        """Nothing to link up with: the others' mailboxes are there."""
        self.mailbox.take_turn()

    def send(self, peer: str, frame: Frame) -> None:
        box, party = self._mailboxes[peer], self.mailbox.party
        try:
            if frame.size > SMALL_BYTES:
                box.check_size(party, frame.head(), frame.size)
            box.deliver(party, frame.joined(), self._timeout)
        except PeerLost:
            self.mailbox.check()  # what this party was told before says why the peer has left
            raise

    def can_send(self, peer: str) -> bool:  # noqa: ARG002
        return True

    def close(self) -> None:
        self.mailbox.close()
        for peer in self.mailbox.peers:
            self._mailboxes[peer].lose(self.mailbox.party, "left the conversation")
