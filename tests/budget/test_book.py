"""A book is only ever added to; deleting, cutting, changing or replacing it is noticed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from unpooled import atomic
from unpooled.budget.book import Book, Mark, books_in
from unpooled.budget.places import Places
from unpooled.errors import BookError, InputError


def runs(book: Book) -> list[str]:
    return [entry["run"] for entry in book.read() if "run" in entry]


def add(book: Book, run: str) -> None:
    with book.writing() as writer:
        writer.add(run=run, begins="align")


def test_entries_are_kept_in_order_and_only_the_owner_can_read_them(book: Book, places: Places) -> None:
    assert runs(Book("customers", places)) == ["run 0", "run 1", "run 2", "run 3"]
    for path in (book.folder, places.anchors):
        assert path.stat().st_mode & 0o777 == 0o700
        assert all(inner.stat().st_mode & 0o777 == 0o600 for inner in path.iterdir() if inner.is_file())


def test_a_table_without_a_book_has_no_entries_and_reading_makes_no_files(places: Places) -> None:
    assert Book("customers", places).read() == []
    assert not places.books.exists()


def cut_off(book: Book) -> None:
    lines = book.path.read_bytes().splitlines(keepends=True)
    book.path.write_bytes(b"".join(lines[:-1]))


def edit(book: Book) -> None:
    book.path.write_bytes(book.path.read_bytes().replace(b'"run 2"', b'"run x"'))


def empty(book: Book) -> None:
    book.path.write_bytes(b"")


def no_anchor(book: Book) -> None:
    for anchor in (book.folder.parents[1] / "anchors").iterdir():
        anchor.unlink()


def broken_anchor(book: Book) -> None:
    for anchor in (book.folder.parents[1] / "anchors").iterdir():
        anchor.write_text("{}")


def new_key(book: Book) -> None:
    (book.folder / "key").write_bytes(os.urandom(32))


TAMPERING: dict[str, tuple[Callable[[Book], object], str, int]] = {
    "deleted": (lambda book: book.path.unlink(), "the book is missing or empty, and it had 5 lines", 0),
    "its folder deleted": (lambda book: shutil.rmtree(book.folder), "is missing or empty", 0),
    "emptied": (empty, "is missing or empty", 0),
    "its end cut off": (cut_off, "the book has 4 lines and had 5", 3),
    "a line changed": (edit, "line 4: the chain is broken", 2),
    "its anchor deleted": (no_anchor, "its anchor .* is missing", 4),
    "its anchor changed": (broken_anchor, "its anchor .* cannot be read", 4),
    "its key deleted": (lambda book: (book.folder / "key").unlink(), "which its digests need, is missing", 4),
    "its key replaced": (new_key, "is not the key of this book", 4),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_noticed_until_the_owner_says_why(book: Book, how: str) -> None:
    tamper, message, left = TAMPERING[how]
    tamper(book)
    for _ in range(2):
        with pytest.raises(BookError, match=message):
            add(book, "next")
    assert 'unpooled budget "customers" --accept' in book.problem()
    book.accept("the disk was replaced")
    add(book, "next")
    assert runs(book) == [f"run {number}" for number in range(left)] + ["next"], "what was intact still counts"
    (accepted,) = [entry for entry in book.read() if "accepted" in entry]
    assert accepted["accepted"] == "the disk was replaced"
    assert accepted["found"]


def test_an_older_copy_is_noticed(book: Book) -> None:
    older = book.path.read_bytes()
    add(book, "run 4")
    book.path.write_bytes(older)
    with pytest.raises(BookError, match="an older copy was put in its place"):
        book.read()


def test_an_older_copy_that_was_continued_elsewhere_is_noticed(book: Book, tmp_path: Path) -> None:
    elsewhere = Places(tmp_path / "other" / "books", tmp_path / "other" / "anchors")
    shutil.copytree(tmp_path / "books", elsewhere.books)
    shutil.copytree(tmp_path / "anchors", elsewhere.anchors)
    add(book, "run 4")
    copy = Book("customers", elsewhere)
    add(copy, "another run 4")
    add(copy, "another run 5")
    shutil.copy(copy.path, book.path)
    with pytest.raises(BookError, match="line 6 is not the one that was written"):
        book.read()


def test_the_book_of_another_table_is_noticed(book: Book, places: Places) -> None:
    other = Book("patients", places)
    for number in range(9):
        add(other, f"other {number}")
    shutil.copy(other.path, book.path)
    with pytest.raises(BookError, match="it is the book of another table"):
        book.read()
    book.accept("a mistake in restoring")
    assert runs(book) == []
    assert list(book.folder.glob("book-set-aside-1.jsonl")), "the file that was found is kept"


def test_a_book_in_order_cannot_be_accepted(book: Book) -> None:
    with pytest.raises(InputError, match="in order"):
        book.accept("to be sure")


@pytest.mark.parametrize("lines", [0, 5])
def test_a_kill_between_book_and_anchor_is_no_alarm_and_loses_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    """The anchor follows the book: a book that is ahead of its anchor is in order."""
    book = Book("customers", places)
    for number in range(lines):
        add(book, f"run {number}")

    def killed(path: Path, _text: str) -> None:
        raise KeyboardInterrupt(str(path))

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "write_text", killed)
        with pytest.raises(KeyboardInterrupt, match="anchors"):
            add(book, "cut short")
    assert runs(book)[-1] == "cut short"
    add(book, "next")
    assert runs(book)[-2:] == ["cut short", "next"]


def test_a_line_that_a_power_cut_left_unfinished_is_removed(book: Book) -> None:
    """The anchor has not heard of it, and nothing left the party yet."""
    with book.path.open("ab") as file:
        file.write(b'{"at": 1.0, "run": "run 4", "be')
    assert len(runs(book)) == 4
    add(book, "next")
    assert runs(book)[-2:] == ["run 3", "next"]


def test_a_kill_before_the_first_line_leaves_a_key_that_serves_nobody(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book("customers", places)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Book, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            add(book, "cut short")
    add(book, "first")
    assert runs(book) == ["first"]


def _add_many(places: Places, who: str) -> None:
    for number in range(20):
        add(Book("customers", places), f"{who} {number}")


def test_two_processes_write_to_one_book(places: Places) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_many, args=(places, who)) for who in ("one", "other")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(runs(Book("customers", places))) == sorted(f"{w} {n}" for w in ("one", "other") for n in range(20))


def test_a_run_recognises_the_book_that_it_has_written_to(book: Book) -> None:
    with book.writing() as writer:
        mark = writer.mark
    add(book, "later")
    book.check_extends(mark)
    with pytest.raises(BookError, match="not the book that this run has written to"):
        book.check_extends(Mark(mark.lines, "0" * 64))


def test_books_are_listed_also_if_only_the_anchor_is_left(book: Book, places: Places) -> None:
    add(Book("patients", places), "run")
    shutil.rmtree(book.folder)
    assert [found.name for found in books_in(places)] == ["customers", "patients"]
    assert [bool(found.problem()) for found in books_in(places)] == [True, False]
