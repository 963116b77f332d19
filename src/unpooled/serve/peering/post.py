"""Letters: messages from one service to another, kept until the other has them.

Letters to a peer are numbered. They are put into the outbox in the transaction of the act that they tell of, and leave
it when the peer has said that it has them. The receiver handles a letter and notes its number in one transaction, and
skips numbers that it has: so each letter is handled exactly once and in order, however often it is sent.

Numbers belong to an epoch, a random text that each side makes when it adds the other as a peer, and makes anew when its
state is restored by command. A side that is shown another epoch than before forgets the letters that wait for the peer,
and both count from 1 again. Numbers that do not fit within an epoch, or a differing digest of the last letter, show
that one side has forgotten letters in another way, as when its disk was set back. Then nothing is exchanged until one
of the two has removed and added the other.
"""

from __future__ import annotations

import hashlib
import logging
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unpooled.control import spoken
from unpooled.errors import InputError, ProtocolError, RefusedError, UnpooledError
from unpooled.serve.peering.talk import MOST_BYTES
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import Database
from unpooled.transport.doorway import Allowance
from unpooled.wire import Buffer, Frame, Header, encode, kind_of, read_body

log = logging.getLogger("unpooled.serve")

MOST_LETTERS, MOST_LETTERS_BYTES = 64, 2**24
"""How many letters are handed over in one exchange, and how many bytes they have, but for the last."""
_NOTED_AN_HOUR = 100
"""How much about a peer's letters is noted in the audit log: a peer must not fill it."""
_SCOPE = re.compile("letter ([1-9][0-9]{0,17})")
_EPOCH = re.compile("[0-9a-f]{32}")
_NEW_EPOCH = "lower(hex(randomblob(16)))"

Handle = Callable[[sqlite3.Connection, str, Any], None]
"""Does what a message from a peer asks for, in a transaction; an UnpooledError refuses it."""
BegunAnew = Callable[[sqlite3.Connection, str], None]
"""Does what follows when a peer's service has begun anew, as after a restore, in a transaction."""


@dataclass(frozen=True)
class Waiting:
    """What one side begins an exchange with, as its state is at one moment."""

    epoch: str
    known: str
    received: int
    digest: str
    letters: list[Frame]


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


def begin_anew(connection: sqlite3.Connection) -> None:
    """After a restore: forget all letters that wait, and let every peer see that this side counts from 1 again."""
    connection.execute("DELETE FROM outbox")
    connection.execute(f"UPDATE exchanged SET sent = 0, received = 0, last = '', epoch = {_NEW_EPOCH}")  # noqa: S608


class Post:
    """The letters from and to all peers, in a service's database; any thread may use it.

    `kinds` are the message types that a letter may carry. `taken` is called after each letter that was taken.
    """

    def __init__(
        self,
        database: Database,
        kinds: tuple[type, ...],
        handle: Handle,
        taken: Callable[[], None] = lambda: None,
        begun_anew: BegunAnew = lambda *_: None,
    ) -> None:
        self._database = database
        self._kinds = {kind_of(kind): kind for kind in kinds}
        self._handle = handle
        self._taken = taken
        self._begun_anew = begun_anew
        self._noted: dict[str, Allowance] = {}

    def waiting(self, peer: str) -> Waiting:
        """What to begin an exchange with: the letters that the peer has not acknowledged, in order.

        They are not more than one exchange hands over.
        """
        found, size = list[Frame](), 0
        if self._database.row("SELECT 1 FROM exchanged WHERE peer = ?", peer) is None:
            with self._database.transaction() as connection:
                connection.execute("INSERT OR IGNORE INTO exchanged (peer) VALUES (?)", (peer,))
        with self._database.reading() as connection:
            state = connection.execute("SELECT * FROM exchanged WHERE peer = ?", (peer,)).fetchone()
            query = "SELECT frame FROM outbox WHERE peer = ? ORDER BY number LIMIT ?"
            for row in connection.execute(query, (peer, MOST_LETTERS)):
                found.append(Frame((row["frame"],), len(row["frame"])))
                size += found[-1].size
                if size >= MOST_LETTERS_BYTES:
                    break
        return Waiting(state["epoch"], state["peer_epoch"], state["received"], state["last"], found)

    def received_until(self, peer: str) -> tuple[int, str]:
        """The number of the last letter from a peer, and its digest."""
        row = self._database.row("SELECT received, last FROM exchanged WHERE peer = ?", peer)
        return (row["received"], row["last"]) if row else (0, "")

    def meet(self, peer: str, epoch: str) -> None:
        """Note a peer's epoch; if it had another before, its service has begun anew, and so does the count."""
        if not _EPOCH.fullmatch(epoch):
            raise ProtocolError(f"{peer} named no valid epoch")
        if self._database.row("SELECT 1 FROM exchanged WHERE peer = ? AND peer_epoch = ?", peer, epoch):
            return
        with self._database.transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO exchanged (peer) VALUES (?)", (peer,))
            before = connection.execute("SELECT peer_epoch FROM exchanged WHERE peer = ?", (peer,)).fetchone()[0]
            if before and before != epoch:
                connection.execute("DELETE FROM outbox WHERE peer = ?", (peer,))
                connection.execute("UPDATE exchanged SET sent = 0, received = 0, last = '' WHERE peer = ?", (peer,))
                self._begun_anew(connection, peer)
                self._note(connection, peer, "began to count its letters anew", "")
            connection.execute("UPDATE exchanged SET peer_epoch = ? WHERE peer = ?", (epoch, peer))
        self._taken()

    def acknowledged(self, peer: str, epoch: str, number: int, digest: str) -> bool:
        """Remove the letters that a peer has, up to one with this digest; ProtocolError if that was not sent.

        Returns whether the peer speaks of this side's `epoch` as it is now; otherwise what it has is of no account.
        """
        row = self._database.row("SELECT sent, epoch FROM exchanged WHERE peer = ?", peer)
        sent, current = (row["sent"], row["epoch"]) if row else (0, "")
        if epoch not in (current, ""):
            return False
        if not 0 <= number <= sent:
            raise ProtocolError(f"{peer} has received letter {number}, which was not sent: {_OLDER}")
        last = self._database.row("SELECT frame FROM outbox WHERE peer = ? AND number = ?", peer, number)
        if last is None:  # removed before
            return True
        if _digest(last["frame"]) != digest:
            raise ProtocolError(f"{peer} has received a letter {number} other than the one for it: {_OLDER}")
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM outbox WHERE peer = ?1 AND number <= ?2 "
                "AND EXISTS (SELECT 1 FROM exchanged WHERE peer = ?1 AND epoch = ?3)",
                (peer, number, current),
            )
        return True

    def take(self, peer: str, epoch: str, letter: Header) -> None:
        """Handle a letter of a peer's epoch and note its number, both or neither; one that was handled is skipped.

        A letter that is refused counts as taken, and the refusal is in the audit log.
        """
        number, digest = _number(peer, letter), _digest(letter.data)
        with self._database.transaction() as connection:
            query = "SELECT received, last FROM exchanged WHERE peer = ? AND peer_epoch = ?"
            row = connection.execute(query, (peer, epoch)).fetchone()
            if row is None:
                raise ProtocolError(f"{peer} has begun to count its letters anew in the meantime")
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
                about = f"letter {number}, {letter.kind}: {spoken(str(error))}"
                log.info("a letter of %s was refused: %s", peer, about)
                self._note(connection, peer, "sent a letter that was refused", about)
            connection.execute("RELEASE letter")
            connection.execute("UPDATE exchanged SET received = ?, last = ? WHERE peer = ?", (number, digest, peer))
        self._taken()

    def _opened(self, letter: Header) -> object:
        if letter.kind not in self._kinds:
            raise RefusedError(f"a letter cannot be a {letter.kind}")
        return read_body(letter, self._kinds[letter.kind])

    def _note(self, connection: sqlite3.Connection, peer: str, what: str, about: str) -> None:
        if self._noted.setdefault(peer, Allowance(_NOTED_AN_HOUR, 3600.0)).take():
            note(connection, f"peer {peer}", what, about)


_OLDER = (
    "the state of one of the two services is older than it was; "
    "its administrator removes the other from the peers and adds it again"
)


def _digest(frame: Buffer) -> str:
    return hashlib.sha256(frame).hexdigest()


def _number(peer: str, letter: Header) -> int:
    match = _SCOPE.fullmatch(letter.scope)
    if match is None:
        raise ProtocolError(f"{peer} sent a {letter.kind} where a letter was expected")
    return int(match[1])
