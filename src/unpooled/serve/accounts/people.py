"""Accounts of people: a name, a role, and a password that is kept as an argon2 hash.

Accounts are disabled, never removed: the audit log speaks of them, and a name must not pass to somebody else. Whatever
changes what a person may do, or how a person signs in, ends all sessions of that person.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, get_args

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from unpooled.errors import InputError, RefusedError
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import Database, now

Role = Literal["viewer", "analyst", "approver", "administrator"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""
MEANINGS: dict[Role, str] = {
    "viewer": "sees jobs, results and reports",
    "analyst": "drafts jobs, pauses them, and cancels own ones",
    "approver": "approves and declines jobs",
    "administrator": "manages people, peers, tables and certificates",
}
SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1_000
LONGEST_NAME = 64
_RESERVED = ("service", "peer ")
"""How the audit log names those who are not people."""
_HASHING = threading.BoundedSemaphore(2)
"""A hash takes 64 MiB: many at once would let strangers fill the memory."""


@dataclass(frozen=True)
class Person:
    """An account; `subject` is what an OpenID Connect provider calls the person, once it has signed in by that."""

    name: str
    role: Role
    subject: str | None
    created: str
    disabled: bool
    password: str | None = field(repr=False)
    """The hash, if this person has a password."""


def may(role: Role, needed: Role) -> bool:
    """Whether a role includes another.

    >>> may("approver", "analyst"), may("approver", "administrator")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


def role_named(text: str) -> Role:
    """A role by its name."""
    for role in ROLES:
        if role == text:
            return role
    raise InputError(f"there is no such role: choose one of {', '.join(ROLES)}")


def everybody(database: Database) -> list[Person]:
    """All accounts, by name."""
    return [_person(row) for row in database.rows("SELECT * FROM people ORDER BY name")]


def find(database: Database, name: str) -> Person | None:
    """The account of this name, whatever the case of its letters."""
    row = database.row("SELECT * FROM people WHERE name = ?", name)
    return _person(row) if row else None


def has_administrator(database: Database) -> bool:
    """Whether somebody can administrate the service; otherwise it has to be set up first."""
    return bool(database.row("SELECT 1 FROM people WHERE role = 'administrator' AND NOT disabled"))


def add(
    database: Database,
    hasher: PasswordHasher,
    by: str,
    name: str,
    role: Role,
    password: str | None,
) -> None:
    """Add an account; one without a password can only sign in by OpenID Connect."""
    hashed = None if password is None else _hashed(hasher, name, password)
    with database.transaction() as connection:
        _insert(connection, by, name, role, hashed)


def add_first_administrator(database: Database, hasher: PasswordHasher, name: str, password: str) -> None:
    """Add the administrator with whom a service begins; refused once there is one."""
    hashed = _hashed(hasher, name, password)
    with database.transaction() as connection:
        if _administrators(connection):
            raise RefusedError("this service has an administrator already: sign in instead")
        _insert(connection, "service", name, "administrator", hashed)


def check_password(database: Database, hasher: PasswordHasher, name: str, password: str) -> Person | None:
    """The person who signs in with this password; it takes as long for names that do not exist."""
    person = find(database, name)
    known = person.password if person else None
    right = _matches(hasher, known or _nobodys(hasher), password)
    if not person or not known or not right or person.disabled:
        with database.transaction() as connection:
            # What was typed for an unknown name may be a password; that nothing is noted would tell by the time.
            note(connection, "service", "refused a sign-in", person.name if person else "a name without an account")
        return None
    if hasher.check_needs_rehash(known):
        with _HASHING:
            fresh = hasher.hash(password)
        with database.transaction() as connection:
            query = "UPDATE people SET password = ? WHERE name = ? AND password = ?"
            connection.execute(query, (fresh, person.name, known))
        return replace(person, password=fresh)
    return person


def vouched_for(database: Database, subject: str, name: str) -> Person | None:
    """The person for whom an OpenID Connect provider vouches.

    The first time the name finds the account. From then on the subject does, so that nobody else gets into it with
    whom the provider shares the name later.
    """
    with database.transaction() as connection:
        row = connection.execute("SELECT * FROM people WHERE subject = ?", (subject,)).fetchone()
        if row is None:
            query = "UPDATE people SET subject = ? WHERE name = ? AND subject IS NULL AND NOT disabled RETURNING *"
            row = connection.execute(query, (subject, name)).fetchone()
            if row is not None:
                note(connection, "service", "linked an account to OpenID Connect", row["name"])
        if row is None or row["disabled"]:
            if known := row or connection.execute("SELECT * FROM people WHERE name = ?", (name,)).fetchone():
                note(connection, "service", "refused a sign-in", known["name"])
            return None
        return _person(row)


def change_own_password(database: Database, hasher: PasswordHasher, name: str, old: str, new: str) -> None:
    """Change a password by whoever knows the old one."""
    person = find(database, name)
    if not person or not person.password or not _matches(hasher, person.password, old):
        raise RefusedError("the current password is not right")
    _set_password(database, name, name, _hashed(hasher, name, new), "changed the own password")


def reset_password(database: Database, hasher: PasswordHasher, by: str, name: str, new: str) -> None:
    """Give somebody a new password, as an administrator does."""
    _set_password(database, by, name, _hashed(hasher, name, new), "reset a password")


def change_role(database: Database, by: str, name: str, role: Role) -> None:
    """Give somebody another role."""
    with database.transaction() as connection:
        person = existing(connection, name)
        if person.role == role:
            return
        connection.execute("UPDATE people SET role = ? WHERE name = ?", (role, name))
        _changed(connection, person, by, "changed a role", f"{person.name}: {person.role} → {role}")


def disable(database: Database, by: str, name: str) -> None:
    """Refuse somebody from now on, and revoke all tokens of this person."""
    with database.transaction() as connection:
        person = existing(connection, name)
        connection.execute("UPDATE people SET disabled = 1 WHERE name = ?", (name,))
        connection.execute("DELETE FROM tokens WHERE person = ?", (person.name,))
        _changed(connection, person, by, "disabled an account", person.name)


def enable(database: Database, by: str, name: str) -> None:
    """Admit somebody again; tokens stay revoked."""
    with database.transaction() as connection:
        person = existing(connection, name)
        connection.execute("UPDATE people SET disabled = 0 WHERE name = ?", (name,))
        _changed(connection, person, by, "enabled an account", person.name)


def _insert(connection: sqlite3.Connection, by: str, name: str, role: Role, hashed: str | None) -> None:
    _check_name(name)
    if connection.execute("SELECT 1 FROM people WHERE name = ?", (name,)).fetchone():
        raise InputError(f"there is an account named {name} already")
    connection.execute(
        "INSERT INTO people (name, role, password, created) VALUES (?, ?, ?, ?)", (name, role, hashed, now())
    )
    note(connection, by, "added a person", f"{name}: {role}")


def _set_password(database: Database, by: str, name: str, hashed: str, what: str) -> None:
    with database.transaction() as connection:
        person = existing(connection, name)
        connection.execute("UPDATE people SET password = ? WHERE name = ?", (hashed, name))
        _changed(connection, person, by, what, "" if by == person.name else person.name)


def _changed(connection: sqlite3.Connection, person: Person, by: str, what: str, about: str) -> None:
    """End a person's sessions and note the change, unless nobody could administrate the service any more."""
    if not _administrators(connection):
        raise RefusedError(f"{person.name} is the only administrator: make somebody else one first")
    connection.execute("DELETE FROM sessions WHERE person = ?", (person.name,))
    note(connection, by, what, about)


def _administrators(connection: sqlite3.Connection) -> int:
    query = "SELECT count(*) FROM people WHERE role = 'administrator' AND NOT disabled"
    return int(connection.execute(query).fetchone()[0])


def existing(connection: sqlite3.Connection, name: str) -> Person:
    """The account of this name, within a transaction."""
    row = connection.execute("SELECT * FROM people WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise InputError("there is no account of that name")
    return _person(row)


def _person(row: sqlite3.Row) -> Person:
    return Person(row["name"], row["role"], row["subject"], row["created"], bool(row["disabled"]), row["password"])


def _check_name(name: str) -> None:
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise InputError(f"a name has 1 to {LONGEST_NAME} printable characters and no space at its ends")
    if name.casefold().startswith(_RESERVED):
        raise InputError("a name must not begin with ‘service’ or ‘peer’: the audit log uses these words")


def _hashed(hasher: PasswordHasher, name: str, password: str) -> str:
    if len(password) < SHORTEST_PASSWORD:
        raise InputError(f"a password has at least {SHORTEST_PASSWORD} characters")
    if len(password) > LONGEST_PASSWORD:
        raise InputError(f"a password has at most {LONGEST_PASSWORD} characters")
    if password.casefold() == name.casefold():
        raise InputError("a password must differ from the name")
    with _HASHING:
        return hasher.hash(password)


def _matches(hasher: PasswordHasher, known: str, password: str) -> bool:
    with _HASHING:
        try:
            return hasher.verify(known, password[: LONGEST_PASSWORD + 1])
        except (VerificationError, InvalidHashError):
            return False


@cache
def _nobodys(hasher: PasswordHasher) -> str:
    """A hash to compare with where there is no account, so that the time does not tell."""
    return hasher.hash("nobody has this password")
