"""Whether the records of a service are what they were when they were written."""

from __future__ import annotations

from dataclasses import dataclass

from unpooled.budget.book import books_in
from unpooled.drawing.words import many
from unpooled.errors import LedgerError
from unpooled.ledger import read_ledger
from unpooled.serve.folder import StateFolder
from unpooled.serve.settings import load_settings
from unpooled.serve.state import audit_log
from unpooled.serve.state.database import open_database


@dataclass(frozen=True)
class Verified:
    """A record that was checked: what it holds, or what is wrong with it."""

    what: str
    found: str
    problem: str = ""


def verified(folder: StateFolder) -> list[Verified]:
    """Check the chains of the audit log, of the ledger and of all books."""
    load_settings(folder)
    books = books_in(folder.books)
    return [
        _audit_log(folder),
        _ledger(folder),
        *(Verified(f"book of {book.name}", "intact", book.problem()) for book in books),
    ]


def _audit_log(folder: StateFolder) -> Verified:
    database = open_database(folder.database)
    try:
        return Verified("audit log", f"{many(audit_log.verify(database), 'act')}, intact")
    except LedgerError as error:
        return Verified("audit log", "", str(error))
    finally:
        database.close()


def _ledger(folder: StateFolder) -> Verified:
    if not folder.ledger.exists():
        return Verified("ledger", "none yet: no letters were exchanged")
    try:
        return Verified("ledger", f"{many(len(read_ledger(folder.ledger).entries), 'frame')}, intact")
    except LedgerError as error:
        return Verified("ledger", "", str(error))
