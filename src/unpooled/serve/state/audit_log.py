"""The audit log: every act of a person or a peer, with name and time, in the order in which it happened.

An entry is written in the transaction of the act, so there is none without the other. Entries are chained by SHA-256,
and the database refuses to change or remove one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from unpooled.chain import START, chained, checked
from unpooled.errors import LedgerError
from unpooled.serve.state.database import Database, now


@dataclass(frozen=True)
class Act:
    """What somebody did: `who` is a person, `peer NAME`, or `service`; `about` is what it concerns."""

    number: int
    at: str
    who: str
    what: str
    about: str
    job: str


def note(connection: sqlite3.Connection, who: str, what: str, about: str = "", job: str = "") -> None:
    """Add an act, within the transaction in which it happens."""
    last = connection.execute("SELECT line FROM audit_log ORDER BY number DESC LIMIT 1").fetchone()
    content = {"at": now(), "who": who, "what": what, "about": about, "job": job}
    line, _ = chained(_digest(last["line"]) if last else START, json.dumps(content, ensure_ascii=False)[:-1])
    connection.execute("INSERT INTO audit_log (line) VALUES (?)", (line.decode().rstrip("\n"),))


def acts(database: Database, job: str = "", most: int = 1_000) -> list[Act]:
    """The latest acts, the last one first; those about one job, if it is named."""
    found = database.rows(
        "SELECT number, line FROM audit_log WHERE ?1 = '' OR json_extract(line, '$.job') = ?1 "
        "ORDER BY number DESC LIMIT ?2",
        *(job, most),
    )
    return [_act(row["number"], json.loads(row["line"])) for row in found]


def verify(database: Database) -> int:
    """How many entries there are; LedgerError if one was changed or removed behind the service's back."""
    lines = (row["line"] for row in database.rows("SELECT line FROM audit_log ORDER BY number"))
    return sum(1 for _ in checked(database.path, lines, LedgerError))


def exported(database: Database) -> Iterator[str]:
    """All entries as chained lines of JSON."""
    return (row["line"] + "\n" for row in database.rows("SELECT line FROM audit_log ORDER BY number"))


def _act(number: int, content: dict[str, str]) -> Act:
    return Act(number, *(content[key] for key in ("at", "who", "what", "about", "job")))


def _digest(line: str) -> str:
    return line[-66:-2]
