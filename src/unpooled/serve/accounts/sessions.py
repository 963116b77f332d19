"""Sessions of people in browsers: a random token in a cookie, of which only the digest is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from unpooled.errors import RefusedError
from unpooled.serve.accounts.people import Person, Role, existing, may
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import Database, now

IDLE = timedelta(hours=1)
LONGEST = timedelta(hours=12)
SEEN_EVERY = timedelta(minutes=1)
"""How old a note of a last use may get before it is renewed: a page view should not write to the disk."""


@dataclass(frozen=True)
class Session:
    """A person who is signed in; `csrf` belongs into every form."""

    person: str
    role: Role
    digest: str
    csrf: str

    def may(self, needed: Role) -> bool:
        return may(self.role, needed)


def begin(database: Database, person: Person, how: str = "signed in") -> str:
    """Begin a session of a person who has just proved who it is; the token for the cookie."""
    token = secrets.token_urlsafe(32)
    with database.transaction() as connection:
        if existing(connection, person.name) != person:
            raise RefusedError("this account was changed while you signed in: try again")
        _remove_expired(connection)
        connection.execute(
            "INSERT INTO sessions (token, person, created, seen) VALUES (?, ?, ?, ?)",
            (digest_of(token), person.name, now(), now()),
        )
        note(connection, person.name, how)
    return token


def find(database: Database, token: str) -> Session | None:
    """The session of a token, unless it has ended."""
    digest = digest_of(token)
    row = database.row(
        "SELECT person, role, seen FROM sessions JOIN people ON people.name = sessions.person "
        "WHERE token = ? AND NOT disabled AND sessions.created > ? AND seen > ?",
        *(digest, ago(LONGEST), ago(IDLE)),
    )
    if row is None:
        return None
    if row["seen"] < ago(SEEN_EVERY):
        with database.transaction() as connection:
            connection.execute("UPDATE sessions SET seen = ? WHERE token = ?", (now(), digest))
    return Session(row["person"], row["role"], digest, csrf_of(token))


def end(database: Database, session: Session) -> None:
    """Sign out."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM sessions WHERE token = ?", (session.digest,))
        note(connection, session.person, "signed out")


def end_others(database: Database, session: Session) -> None:
    """Sign out everywhere else."""
    with database.transaction() as connection:
        query = "DELETE FROM sessions WHERE person = ? AND token != ?"
        connection.execute(query, (session.person, session.digest))
        note(connection, session.person, "signed out everywhere else")


def count(database: Database, person: str) -> int:
    """In how many browsers a person is signed in."""
    query = "SELECT count(*) FROM sessions WHERE person = ? AND created > ? AND seen > ?"
    row = database.row(query, person, ago(LONGEST), ago(IDLE))
    return int(row[0]) if row else 0


def digest_of(token: str) -> str:
    """What is kept of a token: it is random and long, so no slow hash is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_of(token: str) -> str:
    """What forms of a session carry, to show that they are from a page of this session."""
    return hmac.digest(token.encode(), b"form", "sha256").hex()


def ago(span: timedelta) -> str:
    """A time in the past, as times are kept."""
    return (datetime.now(UTC) - span).isoformat(timespec="seconds")


def _remove_expired(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM sessions WHERE created <= ? OR seen <= ?", (ago(LONGEST), ago(IDLE)))
