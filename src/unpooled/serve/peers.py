"""The other parties that a service talks to."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from unpooled.errors import InputError
from unpooled.jobs.plan import Address
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import Database, now
from unpooled.transport.trust import check_party_name

_ADDRESS = TypeAdapter(Address)


@dataclass(frozen=True)
class Peer:
    """Another party: where it is reached, if it is, when it last was, and what went wrong since."""

    name: str
    address: str | None
    added: str
    contact: str | None
    certificate_ends: str | None
    problem: str


def peers_in(database: Database) -> list[Peer]:
    rows = database.rows("SELECT * FROM peers ORDER BY name")
    return [Peer(**dict(row)) for row in rows]


def peer_names(connection: sqlite3.Connection) -> set[str]:
    return {row["name"] for row in connection.execute("SELECT name FROM peers")}


def add_peer(database: Database, by: str, own_name: str, name: str, address: str | None) -> None:
    """Add a party, or change where it is reached; a party without an address dials."""
    check_party_name(name)
    if name == own_name:
        raise InputError(f"{name} is this party itself")
    if address is not None:
        check_address(address)
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO peers (name, address, added) VALUES (?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET address = excluded.address",
            (name, address, now()),
        )
        connection.execute("INSERT INTO exchanged (peer) VALUES (?) ON CONFLICT DO NOTHING", (name,))
        note(connection, by, "set a peer", f"{name} at {address or 'no address: it dials'}")


def change_address(database: Database, by: str, name: str, address: str | None) -> None:
    """Change where a party is reached that is a peer already."""
    if address is not None:
        check_address(address)
    with database.transaction() as connection:
        if not connection.execute("UPDATE peers SET address = ? WHERE name = ?", (address, name)).rowcount:
            raise InputError(f"{name[:32]} is not a peer")
        note(connection, by, "set a peer", f"{name} at {address or 'no address: it dials'}")


def letters_waiting(database: Database) -> dict[str, int]:
    """How many letters each peer has not received yet."""
    return {row["peer"]: row["n"] for row in database.rows("SELECT peer, count(*) AS n FROM outbox GROUP BY peer")}


def remove_peer(database: Database, by: str, name: str) -> None:
    """Forget a party; refused while a job with it is open."""
    with database.transaction() as connection:
        if name not in peer_names(connection):
            raise InputError(f"{name} is not a peer")
        used = connection.execute(
            "SELECT count(*) FROM jobs, decisions WHERE ended = '' AND job = id AND party = ?", (name,)
        ).fetchone()[0]
        pending = connection.execute("SELECT count(*) FROM outbox WHERE peer = ?", (name,)).fetchone()[0]
        if used or pending:
            raise InputError(f"{name} has a part in jobs that have not ended; end these first")
        connection.execute("DELETE FROM exchanged WHERE peer = ?", (name,))
        connection.execute("DELETE FROM peers WHERE name = ?", (name,))
        note(connection, by, "removed a peer", name)


def check_address(address: str) -> None:
    try:
        _ADDRESS.validate_python(address)
    except ValidationError:
        raise InputError("an address is HOST:PORT, for example bank.example.org:7433") from None
