"""The book of a table: chained lines that are only ever added, and an anchor elsewhere that says how far it was.

A line is on the disk before what it counts leaves the party, and the anchor follows the line. So a party that is killed
in between has a book that is ahead of its anchor and extends it, which is in order; a book that is missing, shorter
than its anchor or another one is not, and is refused until the owner says why (`accept`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from unpooled import atomic, chain
from unpooled.budget import row_sets
from unpooled.budget.places import Places, file_name
from unpooled.errors import BookError, InputError

BOOK_FORMAT = 1
_KEY_BYTES = 32
BOOK = "book.jsonl"
_KEY, _LOCK, _ASIDE = "key", "lock", "book-set-aside-{}.jsonl"

Entry = dict[str, Any]


@dataclass(frozen=True)
class Mark:
    """How far a book was: its number of lines, and the digest of the last one."""

    lines: int
    chain: str


@dataclass(frozen=True)
class _Written:
    """The lines of a book file that continue the chain, their digests, and what is wrong with the rest."""

    lines: Sequence[str]
    entries: Sequence[Entry]
    digests: Sequence[str]
    fault: str
    unfinished: bool

    @property
    def mark(self) -> Mark:
        return Mark(len(self.digests), self.digests[-1] if self.digests else chain.START)


_NOTHING = _Written((), (), (), "", unfinished=False)


class Book:
    """One table's book; it may not exist yet."""

    def __init__(self, name: str, places: Places) -> None:
        self.name = name
        self.folder = places.books / file_name(name)
        self.path = self.folder / BOOK
        self._anchor = places.anchors / f"{file_name(name)}.json"

    def read(self) -> list[Entry]:
        """All entries; none if the table has no book yet. BookError if the book is not what it was."""
        return list(self._checked(self._read_anchor()).entries)

    def problem(self) -> str:
        """What is wrong with the book; nothing if it is in order."""
        try:
            self.read()
        except BookError as error:
            return str(error)
        return ""

    def key(self) -> bytes:
        """The secret of the digests in this book; whoever has it can test ids on them."""
        return (self.folder / _KEY).read_bytes()

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Read the book and add to it, while no other process does."""
        with self._locked():
            written = self._checked(self._read_anchor())
            if written.unfinished:  # by a power cut; what it would have counted never left
                os.truncate(self.path, len("".join(f"{line}\n" for line in written.lines).encode()))
            yield Writer(self, list(written.entries), written.mark)

    def accept(self, why: str) -> str:
        """Go on with a book that is not what it was: what of it is intact stays, and the reason is written into it.

        Returns what was wrong. If lines of the file are not intact, it is kept beside the book as it was found.
        """
        with self._locked():
            written = self._read_file()
            kept = _NOTHING if _opening_fault(self.name, written.entries) else written
            lost = self._lost_rows(kept.entries)
            if not (found := self.problem() or ", ".join(f"{row_sets.ROWS}/{name}" for name in lost)):
                raise InputError(f"{self.name}: its book is in order, so there is nothing to accept")
            if self.path.exists() and (written.fault or written.unfinished or kept is _NOTHING):
                number = len(list(self.folder.glob(_ASIDE.format("*")))) + 1
                self.path.rename(self.folder / _ASIDE.format(number))
                atomic.write_text(self.path, "".join(f"{line}\n" for line in kept.lines))
            more = {"key": self.make_key()} if kept.entries and self._key_fault(kept.entries) else {"lost": lost}
            Writer(self, list(kept.entries), kept.mark).add(accepted=why, found=found, **more)
        return found

    def _lost_rows(self, entries: Sequence[Entry]) -> list[str]:
        """The sets of common rows that are missing or were changed."""
        if not entries or self._key_fault(entries):
            return []
        accepted = {name for entry in entries for name in entry.get("lost", ())}
        names = {entry["rows"] for entry in entries if "common" in entry} - accepted
        key = self.key()
        return sorted(name for name in names if row_sets.kept(self.folder, key, name) is None)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with atomic.naming(self.folder):
            atomic.close_folder(self.folder)
            with atomic.locked(self.folder / _LOCK, wait=True):
                atomic.remove_unfinished(self.folder)
                yield

    def _read_anchor(self) -> Mark | None:
        try:
            kept = json.loads(self._anchor.read_text(encoding="utf-8"))
            return Mark(int(kept["lines"]), str(kept["chain"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            raise self.refused(f"its anchor {self._anchor} cannot be read") from None

    def _checked(self, anchor: Mark | None) -> _Written:
        """The book, if it is intact and extends the anchor; the anchor is read before it, so it cannot be behind."""
        written = self._read_file()
        if written.fault:
            raise self.refused(written.fault)
        if not written.entries:
            if anchor is not None:
                raise self.refused(f"the book is missing or empty, and it had {anchor.lines} lines")
            return written
        if fault := _opening_fault(self.name, written.entries) or self._key_fault(written.entries):
            raise self.refused(fault)
        if anchor is None:
            if len(written.entries) > _FIRST_LINES:
                raise self.refused(f"its anchor {self._anchor} is missing")
        elif len(written.entries) < anchor.lines:
            raise self.refused(
                f"the book has {len(written.entries)} lines and had {anchor.lines}: its end was removed, or an older "
                "copy was put in its place"
            )
        elif written.digests[anchor.lines - 1] != anchor.chain:
            raise self.refused(f"line {anchor.lines} is not the one that was written: the book was replaced")
        return written

    def check_extends(self, mark: Mark) -> None:
        """Refuse a book that does not continue the one that a run has seen."""
        digests = self._checked(self._read_anchor()).digests
        if len(digests) < mark.lines or (mark.lines and digests[mark.lines - 1] != mark.chain):
            raise self.refused(f"it is not the book that this run has written to, which had {mark.lines} lines")

    def _key_fault(self, entries: Sequence[Entry]) -> str:
        try:
            key = self.key()
        except OSError:
            return f"{self.folder / _KEY}, which its digests need, is missing"
        known = next(entry["key"] for entry in reversed(entries) if "key" in entry)
        return "" if known == _fingerprint(key) else f"{self.folder / _KEY} is not the key of this book"

    def refused(self, fault: str) -> BookError:
        """The error for a book that is not what it was."""
        return BookError(
            f"the book of {self.name} ({self.path}): {fault}. No run takes place with this table until its owner says "
            f'why: unpooled budget "{self.name}" --accept "REASON"'
        )

    def _read_file(self) -> _Written:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].decode(errors="replace").split("\n")[:-1]
        entries, digests, fault = list[Entry](), list[str](), ""
        try:
            for entry, digest in chain.checked(self.path, lines, BookError):
                entries.append(entry)
                digests.append(digest)
        except BookError as error:
            fault = str(error).removeprefix(f"{self.path} ")
        return _Written(lines[: len(entries)], entries, digests, fault, unfinished=whole < len(content))

    def append(self, content: bytes, mark: Mark) -> None:
        """Write lines to the disk, then the anchor; for the writer that has locked the book."""
        with atomic.naming(self.path):
            with open(self.path, "ab", buffering=0, opener=atomic.owner_only) as file:
                if file.write(content) != len(content):
                    raise InputError(f"{self.path}: cannot be written: is the disk full?")
                os.fsync(file.fileno())
            atomic.flush_folder(self.folder)
            atomic.close_folder(self._anchor.parent)
            atomic.write_text(self._anchor, json.dumps({"table": self.name} | vars(mark), ensure_ascii=False) + "\n")

    def make_key(self) -> str:
        """Make the secret of the digests; returns what the book says of it."""
        key = secrets.token_bytes(_KEY_BYTES)
        atomic.write_bytes(self.folder / _KEY, key)
        return _fingerprint(key)


_FIRST_LINES = 2
"""A new book is written with its first entry at once: with more lines it has had an anchor."""


def _opening_fault(name: str, entries: Sequence[Entry]) -> str:
    opening = entries[0] if entries else {}
    if opening.get("book") != BOOK_FORMAT:
        return f"line 1 is not the first line of a book of format {BOOK_FORMAT}"
    return "" if opening.get("table") == name else "it is the book of another table"


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(b"unpooled book key " + key).hexdigest()[:16]


class Writer:
    """A book that is locked, with its entries so far; `mark` says how far it is."""

    def __init__(self, book: Book, entries: list[Entry], mark: Mark) -> None:
        self.entries, self.mark, self._book = entries, mark, book

    def add(self, **entry: Any) -> None:
        """Add an entry; it is on the disk when this returns."""
        new = [{"at": round(time.time(), 3), **entry}]
        if not self.entries:
            new.insert(0, {"book": BOOK_FORMAT, "table": self._book.name, "key": self._book.make_key()})
        content, last = b"", self.mark.chain
        for one in new:
            line, last = chain.chained(last, json.dumps(one, ensure_ascii=False)[:-1])
            content += line
        mark = Mark(self.mark.lines + len(new), last)
        self._book.append(content, mark)
        self.entries += new
        self.mark = mark


def books_in(places: Places) -> list[Book]:
    """All books here, also those of which only the anchor is left, in the order of their names."""
    firsts = [path.read_bytes().partition(b"\n")[0] for path in places.books.glob(f"*/{BOOK}")]
    firsts += [path.read_bytes() for path in places.anchors.glob("*.json")]
    return [Book(name, places) for name in sorted(set(map(_table_in, firsts)) - {""})]


def _table_in(text: bytes) -> str:
    """The name in the first line of a book or in an anchor; nothing if it is neither."""
    try:
        return str(json.loads(text)["table"])
    except (ValueError, KeyError, TypeError):
        return ""
