"""Provisional."""

from __future__ import annotations

import sqlite3

from unpooled.wire import encode


def put(connection: sqlite3.Connection, peer: str, message: object) -> None:
    connection.execute("UPDATE exchanged SET sent = sent + 1 WHERE peer = ?", (peer,))
    connection.execute(
        "INSERT INTO outbox (peer, number, frame) SELECT peer, sent, ? FROM exchanged WHERE peer = ?",
        (encode(message).joined(), peer),
    )
