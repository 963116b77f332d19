"""The command `unpooled budget`, run as a user would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from unpooled.budget.book import Book
from unpooled.budget.limits import OverRuns
from unpooled.budget.places import Places, usual_places
from unpooled.budget.spending import About, Spending, spending_in
from unpooled.cli.budget import budget_command
from unpooled.errors import InputError

app = typer.Typer()
app.command()(budget_command)


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def as_json(*words: object) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(call("--json", *words).output)
    return content


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("UNPOOLED_BOOKS", str(tmp_path / "books"))
    monkeypatch.setenv("UNPOOLED_ANCHORS", str(tmp_path / "anchors"))
    return usual_places()


@pytest.fixture
def book(tmp_path: Path, places: Places) -> Book:
    """The book of a table with one run, in which a telephone company was shown gradients."""
    book = Book(str(tmp_path / "bank.csv"), places)
    about = About("bank", "train", "digest", {"telephone-company-of-the-north": "passive"})
    with spending_in(tmp_path, book, OverRuns(), about, resume=False) as spending:
        disclose(spending)
        spending.end(tmp_path, "finished")
    return book


def disclose(spending: Spending) -> None:
    spending.opened("pair", {"bank": 1000, "telephone-company-of-the-north": 1_250_000})
    spending.show_gradients(["telephone-company-of-the-north"], "digest", "cut")
    spending.count("questions", 123, None)


def test_without_books(places: Places) -> None:
    result = call()
    assert (result.exit_code, result.output) == (0, f"no books in {places.books}\n")


def test_a_book_is_shown_with_bars_within_80_columns(book: Book) -> None:
    result = call()
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == f"book: {book.name}"
    assert "telephone-company" in result.output
    assert "…" not in result.output, "a long name goes on in the next line"
    assert "1,250,000" in result.output
    assert "███░░░░░░░ 1 of 3" in result.output
    assert "questions answered: 123" in result.output
    assert max(map(len, lines[1:])) <= 80


def test_a_book_is_found_by_its_table_its_name_or_a_private_file(book: Book, tmp_path: Path) -> None:
    private = tmp_path / "bank.toml"
    private.write_text('[table]\npath = "bank.csv"\nid = "id"\n[policy]\nmaximum_linear_fits = 7\n')
    for named, most in ((book.name, 3), (tmp_path / "x" / ".." / "bank.csv", 3), (private, 7)):
        (shown,) = as_json(named)["books"]
        assert shown["book"] == book.name
        assert shown["standing"]["fits"]["telephone-company-of-the-north"] == {"used": 1, "most": most}
        assert shown["standing"]["amounts"]["questions"] == {"used": 123.0, "most": None}
    with pytest.raises(InputError, match=r"other.csv: there is no book of this table"):
        call(tmp_path / "other.csv")
    (tmp_path / "coordinator.toml").write_text("")
    with pytest.raises(InputError, match="names no table"):
        call(tmp_path / "coordinator.toml")


def test_a_book_that_was_deleted_is_shown_and_accepted(book: Book) -> None:
    book.path.unlink()
    result = call()
    assert result.exit_code == 1
    assert "NOT IN ORDER" in result.output
    assert as_json()["books"][0]["standing"] is None
    assert call(book.name, "--accept", "moved to a new machine").exit_code == 0
    result = call(book.name)
    assert result.exit_code == 0
    assert "accepted: moved to a new machine" in result.output


def test_what_is_accepted_must_be_named_and_wrong(book: Book) -> None:
    with pytest.raises(InputError, match="--accept: name the table"):
        call("--accept", "why")
    with pytest.raises(InputError, match="nothing to accept"):
        call(book.name, "--accept", "why")
