"""Letters: messages from one service to another, kept until the other has them.

Letters to a peer are numbered. They are put into the outbox in the transaction of the act that they tell of, and leave
it when the peer has said that it has them. The receiver handles a letter and notes its number in one transaction, and
skips numbers that it has: so each letter is handled exactly once and in order, however often it is sent. Numbers
that do not fit, or a differing digest of the last letter, show that one side has forgotten letters: its state was
restored from an older backup, or the peer was removed and added again. Then nothing is exchanged until both sides have
removed and added each other.
"""

from __future__ import annotations

import hashlib
import logging
import re
import sqlite3
from collections.abc import Callable
from typing import Any

from unpooled.control import spoken
from unpooled.errors import InputError, ProtocolError, RefusedError, UnpooledError
from unpooled.serve.audit_log import note
from unpooled.serve.database import Database
from unpooled.serve.peering.talk import MOST_BYTES
from unpooled.transport.doorway import Allowance
from unpooled.wire import Buffer, Frame, Header, encode, kind_of, read_body

log = logging.getLogger("unpooled.serve")

MOST_LETTERS, MOST_LETTERS_BYTES = 64, 2**24
"""How many letters are handed over in one exchange, and how many bytes they have, but for the last."""
_NOTED_AN_HOUR = 100
"""How many refused letters of a peer are noted in the audit log: a peer must not fill it."""
_SCOPE = re.compile("letter ([1-9][0-9]{0,17})")

Handle = Callable[[sqlite3.Connection, str, Any], None]
"""Does what a message from a peer asks for, in a transaction; an UnpooledError refuses it."""


def put(connection: sqlite3.Connection, peer: str, message: object) -> int:
    """Put a message for a peer into the outbox, within a transaction; returns its number."""
    number: int = connection.execute(
        "INSERT INTO exchanged (peer, sent) VALUES (?, 1) ON CONFLICT (peer) DO UPDATE SET sent = sent + 1 "
        "RETURNING sent",
        (peer,),
    ).fetchone()["sent"]
    frame = encode(message, scope=f"letter {number}")
    if frame.size > MOST_BYTES:
        raise InputError(f"a message of {frame.size} bytes to {peer}: at most {MOST_BYTES} are allowed")
    connection.execute("INSERT INTO outbox (peer, number, frame) VALUES (?, ?, ?)", (peer, number, frame.joined()))
    return number


class Post:
    """The letters from and to all peers, in a service's database; any thread may use it.

    `kinds` are the message types that a letter may carry. `taken` is called after each letter that was taken.
    """

    def __init__(
        self, database: Database, kinds: tuple[type, ...], handle: Handle, taken: Callable[[], None] = lambda: None
    ) -> None:
        self._database = database
        self._kinds = {kind_of(kind): kind for kind in kinds}
        self._handle = handle
        self._taken = taken
        self._noted: dict[str, Allowance] = {}

    def pending(self, peer: str) -> list[Frame]:
        """The letters for a peer that it has not acknowledged, in order; not more than one exchange hands over."""
        found, size = list[Frame](), 0
        for row in self._database.rows(
            "SELECT frame FROM outbox WHERE peer = ? ORDER BY number LIMIT ?", peer, MOST_LETTERS
        ):
            found.append(Frame((row["frame"],), len(row["frame"])))
            size += found[-1].size
            if size >= MOST_LETTERS_BYTES:
                break
        return found

    def received_until(self, peer: str) -> tuple[int, str]:
        """The number of the last letter from a peer, and its digest."""
        row = self._database.row("SELECT received, last FROM exchanged WHERE peer = ?", peer)
        return (row["received"], row["last"]) if row else (0, "")

    def acknowledged(self, peer: str, number: int, digest: str) -> None:
        """Remove the letters that a peer has, up to one with this digest; ProtocolError if that was not sent."""
        row = self._database.row("SELECT sent FROM exchanged WHERE peer = ?", peer)
        if not 0 <= number <= (row["sent"] if row else 0):
            raise ProtocolError(f"{peer} has received letter {number}, which was not sent: {_OLDER}")
        last = self._database.row("SELECT frame FROM outbox WHERE peer = ? AND number = ?", peer, number)
        if last is None:  # removed before
            return
        if _digest(last["frame"]) != digest:
            raise ProtocolError(f"{peer} has received a letter {number} other than the one for it: {_OLDER}")
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM outbox WHERE peer = ? AND number <= ?", (peer, number))

    def take(self, peer: str, letter: Header) -> None:
        """Handle a letter and note its number, both or neither; one that was handled before is skipped.

        A letter that is refused counts as taken, and the refusal is in the audit log.
        """
        number, digest = _number(peer, letter), _digest(letter.data)
        with self._database.transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO exchanged (peer) VALUES (?)", (peer,))
            row = connection.execute("SELECT received, last FROM exchanged WHERE peer = ?", (peer,)).fetchone()
            received, last = row["received"], row["last"]
            if number == received and digest != last:
                raise ProtocolError(f"letter {number} of {peer} came again with other content: {_OLDER}")
            if number <= received:
                return
            if number != received + 1:
                raise ProtocolError(f"letter {number} of {peer} came where {received + 1} was expected: {_OLDER}")
            connection.execute("SAVEPOINT letter")
            try:
                self._handle(connection, peer, self._opened(letter))
            except UnpooledError as error:
                connection.execute("ROLLBACK TO letter")
                self._note(connection, peer, f"letter {number}, {letter.kind}: {spoken(str(error))}")
            connection.execute("RELEASE letter")
            connection.execute("UPDATE exchanged SET received = ?, last = ? WHERE peer = ?", (number, digest, peer))
        self._taken()

    def _opened(self, letter: Header) -> object:
        if letter.kind not in self._kinds:
            raise RefusedError(f"a letter cannot be a {letter.kind}")
        return read_body(letter, self._kinds[letter.kind])

    def _note(self, connection: sqlite3.Connection, peer: str, about: str) -> None:
        log.info("a letter of %s was refused: %s", peer, about)
        if self._noted.setdefault(peer, Allowance(_NOTED_AN_HOUR, 3600.0)).take():
            note(connection, f"peer {peer}", "sent a letter that was refused", about)


_OLDER = "the state of one of the two services is older than it was"


def _digest(frame: Buffer) -> str:
    return hashlib.sha256(frame).hexdigest()


def _number(peer: str, letter: Header) -> int:
    match = _SCOPE.fullmatch(letter.scope)
    if match is None:
        raise ProtocolError(f"{peer} sent a {letter.kind} where a letter was expected")
    return int(match[1])
