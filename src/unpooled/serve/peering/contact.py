"""When a peer was last in contact, when its certificate ends, and what went wrong: for people, in the table of peers.

Nothing is written while nothing changes, except for the time of the contact once a minute.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509

from unpooled.control import spoken
from unpooled.serve.state.database import Database, now

_NOTED_EVERY = timedelta(minutes=1)


def met(database: Database, peer: str, certificate_pem: bytes) -> None:
    """Note that an exchange with a peer has ended well."""
    ends = x509.load_pem_x509_certificate(certificate_pem).not_valid_after_utc.isoformat(timespec="seconds")
    before = (datetime.now(UTC) - _NOTED_EVERY).isoformat(timespec="seconds")
    known = database.row(
        "SELECT 1 FROM peers WHERE name = ? AND contact > ? AND certificate_ends = ? AND problem = ''",
        *(peer, before, ends),
    )
    if not known:
        with database.transaction() as connection:
            connection.execute(
                "UPDATE peers SET contact = ?, certificate_ends = ?, problem = '' WHERE name = ?", (now(), ends, peer)
            )


def missed(database: Database, peer: str, problem: str) -> None:
    """Note why there was no exchange with a peer, or not a whole one."""
    problem = spoken(problem)
    if database.row("SELECT 1 FROM peers WHERE name = ? AND problem != ?", peer, problem):
        with database.transaction() as connection:
            connection.execute("UPDATE peers SET problem = ? WHERE name = ?", (problem, peer))
