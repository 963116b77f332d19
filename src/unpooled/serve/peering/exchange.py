"""An exchange: on a connection between two services, each hands over the letters that it has for the other.

The caller says how far it has received, and sends its letters; then the acceptor does the same, which acknowledges what
it has just received; at the end the caller acknowledges. What is not acknowledged, because the connection or a service
was lost, is sent again in the next exchange, and skipped by a receiver that has it. Letters to a service that has begun
anew, before the sender has seen that, are not taken.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from unpooled.errors import ProtocolError, UnpooledError
from unpooled.serve.messages import ExchangeHello, LettersTaken
from unpooled.serve.peering.contact import met, missed
from unpooled.serve.peering.post import MOST_LETTERS, Post
from unpooled.serve.peering.record import ServiceLedger
from unpooled.serve.peering.talk import Talk
from unpooled.serve.state.database import Database
from unpooled.transport.tls import Secured
from unpooled.version import PROTOCOL_VERSION, must_upgrade


class Exchanges:
    """All exchanges of a party's service with those of its peers; any thread may begin one."""

    def __init__(self, party: str, post: Post, database: Database, ledger: ServiceLedger) -> None:
        self._party = party
        self._post = post
        self._database = database
        self._ledger = ledger
        self._lock = threading.Lock()
        self._connections = set[socket.socket]()
        self.ending = False

    def hold(self, peer: str, connection: socket.socket, secured: Secured, *, calls: bool) -> int:
        """Exchange letters, hang up, and note the contact, or what went wrong; returns how many went either way."""
        with self._lock:
            self._connections.add(connection)
        try:
            if self.ending:
                connection.close()
            with Talk(self._party, peer, connection, secured, self._ledger) as talk:
                moved = exchange(talk, self._post, calls=calls)
            met(self._database, peer, secured.certificate())
        except UnpooledError as error:
            if not self.ending:
                missed(self._database, peer, str(error))
            raise
        finally:
            with self._lock:
                self._connections.discard(connection)
        return moved

    def end(self) -> None:
        """Hang up on all; letters that were not acknowledged are sent again when the service runs again."""
        self.ending = True
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def exchange(talk: Talk, post: Post, *, calls: bool) -> int:
    """Exchange letters with a peer, as the side that `calls` or as the other; returns how many went either way."""
    if calls:
        _, sent = _hand_over(talk, post)
        taken = _take(talk, post)
        if taken:
            talk.tell(LettersTaken(*post.received_until(talk.peer)))
    else:
        taken = _take(talk, post)
        epoch, sent = _hand_over(talk, post)
        if sent:
            there = talk.hear(LettersTaken)
            post.acknowledged(talk.peer, epoch, there.received, there.digest)
    return sent + taken


def _hand_over(talk: Talk, post: Post) -> tuple[str, int]:
    """Send what waits; returns the epoch in which it is numbered, and how many letters it was."""
    waiting = post.waiting(talk.peer)
    received = waiting.received, waiting.digest
    talk.tell(ExchangeHello(PROTOCOL_VERSION, waiting.epoch, waiting.known, *received, len(waiting.letters)))
    for letter in waiting.letters:
        talk.send(letter)
    return waiting.epoch, len(waiting.letters)


def _take(talk: Talk, post: Post) -> int:
    hello = talk.hear(ExchangeHello)
    if hello.version != PROTOCOL_VERSION:
        raise ProtocolError(must_upgrade(talk.party, talk.peer, hello.version))
    if not 0 <= hello.letters <= MOST_LETTERS:
        raise ProtocolError(f"{talk.peer} announced {hello.letters} letters, at most {MOST_LETTERS} are allowed")
    post.meet(talk.peer, hello.epoch)
    current = post.acknowledged(talk.peer, hello.known, hello.received, hello.digest)
    for _ in range(hello.letters):
        letter = talk.receive()
        if current:
            post.take(talk.peer, hello.epoch, letter)
    return hello.letters
