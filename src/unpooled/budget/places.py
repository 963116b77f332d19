"""Where books and their anchors are kept, and which book a table has."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from unpooled.data.sources import TableSettings

_BOOKS, _ANCHORS = "UNPOOLED_BOOKS", "UNPOOLED_ANCHORS"
_LONGEST = 40


@dataclass(frozen=True)
class Places:
    """The folders of a party's books and of their anchors."""

    books: Path
    anchors: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make another process use these places."""
        return {_BOOKS: str(self.books.resolve()), _ANCHORS: str(self.anchors.resolve())}


def usual_places() -> Places:
    """The folders that the environment names, or else two of the user's."""
    return Places(
        books=_folder(_BOOKS, "XDG_STATE_HOME", ".local/state", "books"),
        anchors=_folder(_ANCHORS, "XDG_CONFIG_HOME", ".config", "anchors"),
    )


def _folder(variable: str, base: str, usual: str, name: str) -> Path:
    if given := os.environ.get(variable):
        return Path(given)
    return Path(os.environ.get(base) or Path.home() / usual) / "unpooled" / name


def name_of(table: TableSettings) -> str:
    """The name of a table's book: the one in the private file, or else where the table is.

    Data frames without a name for their book share one: it rather counts too much than too little.
    """
    if table.book is not None:
        return table.book
    if table.path is not None:
        return str(table.path.resolve())
    return "data frames" if table.is_frame else f"{table.postgres} {table.table or table.query}"


def file_name(book: str) -> str:
    """A name for files of a book that people recognise; no two books have the same.

    >>> file_name("/data/customers.csv")
    'data-customers.csv-f567e2c9'
    """
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", book).strip("-.")[-_LONGEST:].strip("-.")
    return f"{readable}-{hashlib.sha256(book.encode()).hexdigest()[:8]}".lstrip("-")
