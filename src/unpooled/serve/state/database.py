"""A service's state: one SQLite file, one connection for each thread, one transaction for each act.

The schema has a version (`PRAGMA user_version`). `UPGRADES[n]` leads from version n to n + 1; entries are never changed
once released, only added.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unpooled import atomic
from unpooled.errors import InputError

_BUSY_SECONDS = 30.0

UPGRADES = (
    """
    CREATE TABLE people (
        name TEXT PRIMARY KEY COLLATE NOCASE, role TEXT NOT NULL, password TEXT, subject TEXT UNIQUE,
        created TEXT NOT NULL, disabled INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE sessions (
        token TEXT PRIMARY KEY, person TEXT NOT NULL REFERENCES people(name), created TEXT NOT NULL, seen TEXT NOT NULL
    ) STRICT;
    CREATE TABLE tokens (
        id INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
        person TEXT NOT NULL REFERENCES people(name), role TEXT NOT NULL, created TEXT NOT NULL,
        expires TEXT NOT NULL, used TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE peers (
        name TEXT PRIMARY KEY, address TEXT, added TEXT NOT NULL, contact TEXT, certificate_ends TEXT,
        problem TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE tables (
        name TEXT PRIMARY KEY, settings TEXT NOT NULL, changed TEXT NOT NULL, changed_by TEXT NOT NULL
    ) STRICT;
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY, drafter TEXT NOT NULL, drafted_by TEXT NOT NULL, purpose TEXT NOT NULL, plan TEXT NOT NULL,
        digest TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL, every TEXT NOT NULL, until TEXT NOT NULL,
        offered TEXT NOT NULL DEFAULT '',
        ended TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', purged INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE decisions (
        job TEXT NOT NULL REFERENCES jobs(id), party TEXT NOT NULL, choice TEXT NOT NULL, by TEXT NOT NULL,
        reason TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (job, party)
    ) STRICT;
    CREATE TABLE approvals (
        job TEXT NOT NULL REFERENCES jobs(id), person TEXT NOT NULL, at TEXT NOT NULL, settings TEXT NOT NULL,
        settings_digest TEXT NOT NULL, PRIMARY KEY (job, person)
    ) STRICT;
    CREATE TABLE runs (
        job TEXT NOT NULL REFERENCES jobs(id), occurrence INTEGER NOT NULL, party TEXT NOT NULL,
        attempt INTEGER NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL DEFAULT '',
        resumable INTEGER NOT NULL DEFAULT 1, started TEXT NOT NULL, ended TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (job, occurrence, party)
    ) STRICT;
    CREATE TABLE pauses (
        job TEXT NOT NULL REFERENCES jobs(id), occurrence INTEGER NOT NULL, attempt INTEGER NOT NULL,
        party TEXT NOT NULL, by TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (job, occurrence, attempt)
    ) STRICT;
    CREATE TABLE early (
        number INTEGER PRIMARY KEY, job TEXT NOT NULL, peer TEXT NOT NULL, frame BLOB NOT NULL
    ) STRICT;
    CREATE TABLE outbox (
        peer TEXT NOT NULL REFERENCES peers(name), number INTEGER NOT NULL, frame BLOB NOT NULL,
        PRIMARY KEY (peer, number)
    ) STRICT;
    CREATE TABLE exchanged (
        peer TEXT PRIMARY KEY REFERENCES peers(name), sent INTEGER NOT NULL DEFAULT 0,
        received INTEGER NOT NULL DEFAULT 0, last TEXT NOT NULL DEFAULT '',
        epoch TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))), peer_epoch TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE audit_log (
        number INTEGER PRIMARY KEY, line TEXT NOT NULL
    ) STRICT;
    CREATE TRIGGER audit_log_unchanged BEFORE UPDATE ON audit_log
        BEGIN SELECT RAISE(ABORT, 'the audit log is never changed'); END;
    CREATE TRIGGER audit_log_kept BEFORE DELETE ON audit_log
        BEGIN SELECT RAISE(ABORT, 'nothing is removed from the audit log'); END;
    """,
)


class _Connection(sqlite3.Connection):
    """Is closed when the thread ends that it belongs to: nobody else knows when threads of a pool do."""

    def __del__(self) -> None:
        self.close()


class Database:
    """A service's state; any thread may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything in the block happens or nothing; blocks of several threads or processes come one after another."""
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
        except sqlite3.OperationalError as error:  # a full disk, say
            connection.rollback()
            raise InputError(f"{self.path}: cannot be written: {error}") from error

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """All queries in the block see the same state."""
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.rollback()

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """The rows of a query."""
        return self._connection().execute(query, values).fetchall()

    def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """The first row of a query."""
        found: sqlite3.Row | None = self._connection().execute(query, values).fetchone()
        return found

    def close(self) -> None:
        """Close this thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection:
            connection.close()
            del self._local.connection

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _connected(self.path)
        return connection


def open_database(path: Path) -> Database:
    """The state in a file, which is made if there is none, and upgraded if it is of an earlier version."""
    with closing(_connected(path)) as connection:
        path.chmod(atomic.OWNER_ONLY)
        connection.execute("PRAGMA journal_mode = WAL")
        version = _version(connection)
        if version > len(UPGRADES):
            raise InputError(
                f"{path}: its schema has version {version}, this software knows {len(UPGRADES)}: upgrade unpooled"
            )
        for number in range(version, len(UPGRADES)):
            _upgrade(connection, number)
    return Database(path)


def back_up(path: Path, to: Path) -> None:
    """Copy the state into one file, also while the service runs."""
    with (
        atomic.replacing(to) as temporary,
        closing(_connected(path)) as source,
        closing(sqlite3.connect(temporary)) as copy,
    ):
        source.backup(copy)


def now() -> str:
    """The time as it is kept."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _connected(path: Path) -> sqlite3.Connection:
    with atomic.naming(path, "opened"):
        try:
            connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, factory=_Connection, check_same_thread=False
            )
        except sqlite3.OperationalError as error:
            raise InputError(f"{path}: cannot be opened: {error}") from None
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _upgrade(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _version(connection) == number:  # otherwise another process was faster
            for statement in _statements(UPGRADES[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
