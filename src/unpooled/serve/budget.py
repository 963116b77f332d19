"""The books of a service's tables: what all runs together have disclosed about each."""

from __future__ import annotations

from dataclasses import dataclass

from unpooled.budget.book import Book, books_in
from unpooled.budget.limits import OverRuns
from unpooled.budget.places import name_of
from unpooled.budget.shown import Shown, looked_at
from unpooled.errors import InputError
from unpooled.serve.context import Context
from unpooled.serve.state.audit_log import note
from unpooled.serve.tables import tables_in


@dataclass(frozen=True)
class OfTables:
    """A book, and the tables that it counts for; their limits may differ, so it is shown once for each."""

    tables: tuple[str, ...]
    shown: Shown


def books_of(context: Context) -> list[OfTables]:
    """The book of every table, beside the table's limits; then books whose table is gone, beside the usual ones."""
    places = context.folder.books
    grouped: dict[tuple[str, OverRuns], list[str]] = {}
    for one in tables_in(context.database):
        limits = OverRuns.model_validate({key: getattr(one.entry.policy, key) for key in OverRuns.model_fields})
        grouped.setdefault((name_of(one.entry.table), limits), []).append(one.name)
    named = {name for name, _ in grouped}
    rest = [book for book in books_in(places) if book.name not in named]
    return [
        *(OfTables(tuple(names), looked_at(Book(name, places), limits)) for (name, limits), names in grouped.items()),
        *(OfTables((), looked_at(book, OverRuns())) for book in rest),
    ]


def accept(context: Context, by: str, name: str, reason: str) -> None:
    """Go on with a book that is missing, shorter than it was or changed."""
    if not reason.strip():
        raise InputError("a reason is needed: it is written into the book")
    if name not in {one.shown.book for one in books_of(context)}:
        raise InputError("there is no such book")
    found = Book(name, context.folder.books).accept(f"{by}: {reason.strip()}")
    with context.database.transaction() as connection:
        note(connection, by, "accepted a book that was not what it was", f"{name}: {found}: {reason.strip()}")
