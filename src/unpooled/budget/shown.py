"""A book as people are shown it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from unpooled.budget.accounts import account_of
from unpooled.budget.book import Book
from unpooled.budget.limits import OverRuns
from unpooled.budget.standing import Standing, standing_of


@dataclass(frozen=True)
class Shown:
    """A book as it is shown: how it stands, or what is wrong with it."""

    book: str
    problem: str
    last: str
    standing: Standing | None
    accepted: list[str]


def looked_at(book: Book, limits: OverRuns) -> Shown:
    """How a book stands beside these limits."""
    if problem := book.problem():
        return Shown(book.name, problem, "", None, [])
    entries = book.read()
    account = account_of(entries)
    last = max((entry.get("at", 0.0) for entry in entries), default=0.0)
    standing = standing_of(book.name, account, limits, account.peers)
    said = f"{datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M UTC}" if last else ""
    return Shown(book.name, "", said, standing, account.accepted)
