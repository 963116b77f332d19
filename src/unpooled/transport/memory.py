"""Parties as threads of one process. Messages still go through bytes, and a deadlock is noticed when it begins."""

from __future__ import annotations

from collections.abc import Mapping

from unpooled.ledger import Ledger
from unpooled.transport.mailbox import ROOM_BYTES, Mailbox, WaitingRoom
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

    def send(self, peer: str, frame: Frame) -> None:
        self._mailboxes[peer].deliver(self.mailbox.party, frame.joined(), self._timeout)

    def close(self, *, failed: bool) -> None:
        self.mailbox.close()
        if failed:
            for peer in self.mailbox.peers:
                self._mailboxes[peer].lose(self.mailbox.party, "left the conversation")
