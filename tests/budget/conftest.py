"""Books in a folder of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from unpooled.budget.book import Book
from unpooled.budget.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "books", tmp_path / "anchors")


@pytest.fixture
def book(places: Places) -> Book:
    """A book with five lines."""
    book = Book("customers", places)
    for number in range(4):
        with book.writing() as writer:
            writer.add(run=f"run {number}", begins="align")
    return book
