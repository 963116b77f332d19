"""Tokens for programs that use the JSON interface: shown once, kept as digests, with a role and an end."""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass
from datetime import timedelta

from unpooled.errors import InputError, RefusedError
from unpooled.serve.accounts.people import ROLES, Role, may
from unpooled.serve.accounts.sessions import SEEN_EVERY, ago, digest_of
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import Database, now

PREFIX = "unpooled_"
"""By this, tools that look for leaked secrets recognise a token."""
LONGEST_DAYS = 366
LONGEST_LABEL = 64
MOST = 50


@dataclass(frozen=True)
class Token:
    """A token as its owner sees it afterwards; `used` is when it was last used, or empty."""

    id: int
    label: str
    person: str
    role: Role
    created: str
    expires: str
    used: str


@dataclass(frozen=True)
class Bearer:
    """Who a program with a token acts for, and as what."""

    person: str
    label: str
    role: Role

    def may(self, needed: Role) -> bool:
        return may(self.role, needed)


def make(database: Database, person: str, label: str, role: Role, days: int) -> str:
    """Make a token for a program of this person; it is not kept and cannot be shown again."""
    label = label.strip()
    if not 0 < len(label) <= LONGEST_LABEL or not label.isprintable():
        raise InputError(f"a label has 1 to {LONGEST_LABEL} printable characters: say what the token is for")
    if not 0 < days <= LONGEST_DAYS:
        raise InputError(f"a token lasts 1 to {LONGEST_DAYS} days")
    token = PREFIX + secrets.token_urlsafe(32)
    with database.transaction() as connection:
        row = connection.execute("SELECT * FROM people WHERE name = ?", (person,)).fetchone()
        if row is None or row["disabled"]:
            raise RefusedError("this account is disabled")
        if not may(row["role"], role):
            raise RefusedError(f"a token cannot have the role {role}: you are {row['role']}")
        if connection.execute("SELECT count(*) FROM tokens WHERE person = ?", (person,)).fetchone()[0] >= MOST:
            raise RefusedError(f"there are {MOST} tokens already: revoke those that nobody uses")
        connection.execute(
            "INSERT INTO tokens (token, label, person, role, created, expires) VALUES (?, ?, ?, ?, ?, ?)",
            (digest_of(token), label, row["name"], role, now(), ago(-timedelta(days=days))),
        )
        note(connection, row["name"], "made a token", f"{label}: {role}")
    return token


def find(database: Database, token: str) -> Bearer | None:
    """Who acts with this token, if it is valid now; never more than the person may do."""
    digest = digest_of(token)
    row = database.row(
        "SELECT person, label, used, tokens.role, people.role AS own FROM tokens "
        "JOIN people ON people.name = tokens.person WHERE token = ? AND NOT disabled AND expires > ?",
        *(digest, now()),
    )
    if row is None:
        return None
    if row["used"] < ago(SEEN_EVERY):
        with database.transaction() as connection:
            connection.execute("UPDATE tokens SET used = ? WHERE token = ?", (now(), digest))
    return Bearer(row["person"], row["label"], min(row["role"], row["own"], key=ROLES.index))


def tokens_of(database: Database, person: str) -> list[Token]:
    """The tokens of a person, also those that have expired."""
    rows = database.rows("SELECT * FROM tokens WHERE person = ? ORDER BY id", person)
    return [_token(row) for row in rows]


def revoke(database: Database, person: str, number: int) -> None:
    """Revoke a token of this person."""
    with database.transaction() as connection:
        query = "DELETE FROM tokens WHERE id = ? AND person = ? RETURNING label"
        row = connection.execute(query, (number, person)).fetchone()
        if row is None:
            raise InputError("you have no such token")
        note(connection, person, "revoked a token", row["label"])


def _token(row: sqlite3.Row) -> Token:
    keys = ("id", "label", "person", "role", "created", "expires", "used")
    return Token(*(row[key] for key in keys))
