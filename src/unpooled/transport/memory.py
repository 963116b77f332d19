"""Parties as threads of one process. Messages still go through bytes, and a deadlock is noticed when it begins."""

from __future__ import annotations

from collections.abc import Mapping

from unpooled.errors import PeerLost
from unpooled.ledger import Ledger
from unpooled.transport.mailbox import ROOM_BYTES, Mailbox
from unpooled.transport.waiting import WaitingRoom
from unpooled.wire import Frame


def mailboxes(ledgers: Mapping[str, Ledger], room: int = ROOM_BYTES) -> dict[str, Mailbox]:
    """A mailbox for each party that has a ledger, all in one waiting room."""
    shared = WaitingRoom()
    return {
        party: Mailbox(party, tuple(peer for peer in ledgers if peer != party), ledger, shared, room)
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
        """Nothing to do: the others' mailboxes are there."""

    def send(self, peer: str, frame: Frame) -> None:
        try:
            self._mailboxes[peer].deliver(self.mailbox.party, frame.joined(), self._timeout)
        except PeerLost:
            self.mailbox.check()  # what this party was told before says why the peer has left
            raise

    def can_send(self, peer: str) -> bool:  # noqa: ARG002
        return True

    def close(self) -> None:
        self.mailbox.close()
        for peer in self.mailbox.peers:
            self._mailboxes[peer].lose(self.mailbox.party, "left the conversation")
