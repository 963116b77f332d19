"""What a run discloses is checked against all earlier runs, and on the disk before it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from unpooled.budget.accounts import account_of
from unpooled.budget.book import Book
from unpooled.budget.limits import OverRuns
from unpooled.budget.places import Places
from unpooled.budget.row_sets import ROWS
from unpooled.budget.spending import About, Spending, begin_spending, run_in_book, spending_in, summary_in
from unpooled.errors import BookError, RefusedError, ResumeError

ABOUT = About("bank", "train", "digest of the plan", {"telco": "passive"})


@pytest.fixture
def book(places: Places) -> Book:
    return Book("customers", places)


def begin(book: Book, folder: Path, limits: OverRuns | None = None, *, resume: bool = False) -> Spending:
    """A run that never ends, as if it were killed."""
    folder.mkdir(exist_ok=True)
    return begin_spending(folder, book, limits or OverRuns(), ABOUT, resume=resume)


def people(first: int, last: int) -> pl.DataFrame:
    return pl.DataFrame({"id": [f"person {number}" for number in range(first, last)]})


def align(spending: Spending, ids: pl.DataFrame, counts: Mapping[str, int] | None = None) -> None:
    spending.opened("pair", counts or {"bank": 1000, "telco": 500})
    spending.found(["telco"], ids, "digest")


def test_one_more_id_is_refused_before_ids_are_compared(book: Book, tmp_path: Path) -> None:
    align(begin(book, tmp_path / "1"), people(0, 300))
    lines = len(book.read())
    for count in (501, 499, 509):
        with pytest.raises(RefusedError, match=r"telco brings .* brought 500 .*policy.minimum_change"):
            begin(book, tmp_path / "2").opened("pair", {"bank": 1000, "telco": count})
    assert [e for e in book.read()[lines:] if "opens" in e] == [], "nothing was compared"
    align(begin(book, tmp_path / "3"), people(0, 300))
    align(begin(book, tmp_path / "4"), people(0, 700), {"bank": 3000, "telco": 2500})


def test_all_earlier_alignments_count_not_the_last_alone(book: Book, tmp_path: Path) -> None:
    for number, count in enumerate((500, 5000)):
        align(begin(book, tmp_path / f"{number}"), people(0, count // 2), {"bank": 10_000, "telco": count})
    with pytest.raises(RefusedError, match="brought 500 "):
        begin(book, tmp_path / "probe").opened("pair", {"bank": 10_000, "telco": 501})


def test_a_list_padded_with_made_up_ids_is_refused_once_somebody_is_found(book: Book, tmp_path: Path) -> None:
    """The numbers of ids do not show it: one was exchanged for another, or thirty were made up."""
    align(begin(book, tmp_path / "1"), people(0, 300))
    for number, counts in enumerate(({"bank": 1000, "telco": 500}, {"bank": 1000, "telco": 530})):
        with pytest.raises(RefusedError, match=r"fewer than 10 people \(policy.minimum_change\)"):
            align(begin(book, tmp_path / f"probe {number}"), people(0, 301), counts)
    with pytest.raises(RefusedError, match="fewer than 10"):
        align(begin(book, tmp_path / "swapped"), people(1, 301))
    align(begin(book, tmp_path / "as at first"), people(0, 300))
    align(begin(book, tmp_path / "many more"), people(0, 900))


def test_what_was_refused_is_refused_again(book: Book, tmp_path: Path) -> None:
    align(begin(book, tmp_path / "1"), people(0, 300))
    for number in range(3):
        with pytest.raises(RefusedError):
            align(begin(book, tmp_path / f"again {number}"), people(0, 301))


def test_a_person_who_is_not_there_is_not_noticed_but_counted(book: Book, tmp_path: Path) -> None:
    """The rows in common stay the same: what is left is the number of alignments."""
    limits = OverRuns(maximum_alignments=5)
    for number in range(5):
        align(begin(book, tmp_path / f"{number}", limits), people(0, 300))
    with pytest.raises(RefusedError, match=r"compares ids with telco at most 5 times .*policy.maximum_alignments"):
        align(begin(book, tmp_path / "sixth", limits), people(0, 300))
    begin(book, tmp_path / "another", limits).opened("pair", {"bank": 1000, "shop": 400})


def test_the_owner_may_allow_every_change(book: Book, tmp_path: Path) -> None:
    limits = OverRuns(minimum_change=1)
    for number in range(3):
        counts = {"bank": 1000, "telco": 500 + number}
        align(begin(book, tmp_path / f"{number}", limits), people(0, 300 + number), counts)
    assert account_of(book.read()).peers["telco"].alignments == 3


def test_rows_of_an_earlier_run_that_are_gone_stop_the_next(book: Book, tmp_path: Path) -> None:
    align(begin(book, tmp_path / "1"), people(0, 300))
    (rows,) = (book.folder / ROWS).iterdir()
    assert b"person" not in rows.read_bytes(), "no id is kept"
    rows.write_bytes(rows.read_bytes()[8:])
    with pytest.raises(BookError, match="with the rows of an earlier run, is missing or was changed"):
        align(begin(book, tmp_path / "2"), people(0, 600))
    book.accept("an old backup")
    align(begin(book, tmp_path / "3"), people(0, 600))


def test_fits_are_counted_for_each_peer_and_once_in_a_run(book: Book, tmp_path: Path) -> None:
    for number in range(3):
        spending = begin(book, tmp_path / f"{number}")
        for _ in range(80):
            spending.show_gradients(["telco"], "digest", "cut")
    with pytest.raises(RefusedError, match=r"gradients of at most 3 fits .*policy.maximum_linear_fits.*reveal"):
        begin(book, tmp_path / "fourth").show_gradients(["telco"], "digest", "cut")
    begin(book, tmp_path / "other").show_gradients(["shop"], "digest", "cut")
    bags = begin(book, tmp_path / "bags")
    for bag in range(3):
        bags.show_gradients(["clinic"], "digest", f"bag {bag}")
    with pytest.raises(RefusedError):
        bags.show_gradients(["clinic"], "digest", "bag 3")
    assert account_of(book.read()).peers["clinic"].fits == 3


def test_totals_are_written_ahead_and_settled_at_the_end(book: Book, tmp_path: Path) -> None:
    spending = begin(book, tmp_path / "1")
    for _ in range(100):
        spending.count("bits_per_row", 1.0, 120.0)
    assert account_of(book.read()).amount("bits_per_row") == 120, "what a run that was killed may have answered"
    assert len(book.read()) < 15, "not a line for each answer"
    spending.end(tmp_path / "1", "finished", {"listed": 7, "thresholds": 40})
    assert account_of(book.read()).amount("bits_per_row") == 100
    assert account_of(book.read()).amount("listed") == 7
    assert account_of(book.read()).amount("thresholds") == 40
    kept = summary_in(tmp_path / "1")
    assert kept.all_runs is not None
    assert kept.all_runs.amounts["bits_per_row"].used == 100


def test_two_runs_at_once_do_not_spend_the_same_budget(book: Book, tmp_path: Path) -> None:
    limits = OverRuns(maximum_total_questions=100)
    one, other = (begin(book, tmp_path / name, limits) for name in ("one", "other"))
    answered, refused = 0, ""
    for spending in 100 * (one, other):
        try:
            spending.count("questions", 1, None)
            answered += 1
        except RefusedError as error:
            refused = str(error)
    assert 50 < answered <= 100
    assert refused == "bank answers at most 100 questions over all its runs (policy.maximum_total_questions)"
    one.end(tmp_path / "one", "finished")
    other.end(tmp_path / "other", "finished")
    assert account_of(book.read()).amount("questions") == answered


def test_the_whole_of_a_limit_can_be_used(book: Book, tmp_path: Path) -> None:
    spending = begin(book, tmp_path / "1", OverRuns(maximum_total_splits=100))
    for _ in range(100):
        spending.count("splits", 1, None)
    with pytest.raises(RefusedError):
        spending.count("splits", 1, None)


def test_a_resumed_run_counts_on_and_does_not_count_twice(book: Book, tmp_path: Path) -> None:
    limits, folder = OverRuns(maximum_total_splits=100), tmp_path / "1"
    folder.mkdir()

    def interrupted() -> None:
        with spending_in(folder, book, limits, ABOUT, resume=False) as spending:
            spending.show_gradients(["telco"], "digest", "cut")
            spending.count("splits", 40, None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert account_of(book.read()).amount("splits") == 40
    resumed = begin(book, folder, limits, resume=True)
    assert resumed.run == run_in_book(folder)
    resumed.show_gradients(["telco"], "digest", "cut")
    resumed.count("splits", 60, None)
    with pytest.raises(RefusedError):
        resumed.count("splits", 1, None)
    account = account_of(book.read())
    assert (len(account.runs), account.peers["telco"].fits, account.amount("splits")) == (1, 1, 100)


def test_a_run_that_was_killed_and_resumed_has_not_answered_less(book: Book, tmp_path: Path) -> None:
    begin(book, tmp_path / "1").count("splits", 40, None)
    resumed = begin(book, tmp_path / "1", resume=True)
    resumed.count("splits", 1, None)
    resumed.end(tmp_path / "1", "finished")
    assert account_of(book.read()).amount("splits") >= 41


def test_a_run_that_is_killed_before_its_first_line_is_one_run_all_the_same(
    book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Book, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            begin(book, tmp_path / "1")
    assert book.read() == []
    for _ in range(2):
        begin(book, tmp_path / "1", resume=True).count("splits", 1, None)
    assert list(account_of(book.read()).runs) == [run_in_book(tmp_path / "1")]


def test_a_resumed_run_notices_a_book_that_was_put_back_with_its_anchor(
    book: Book, places: Places, tmp_path: Path
) -> None:
    begin(book, tmp_path / "1")
    kept = {path: path.read_bytes() for path in (book.path, *places.anchors.iterdir())}
    begin(book, tmp_path / "2")
    for path, content in kept.items():
        path.write_bytes(content)
    book.read()
    with pytest.raises(BookError, match="not the book that this run has written to"):
        begin(book, tmp_path / "2", resume=True)


def test_a_run_is_not_resumed_with_the_book_of_another_table(book: Book, places: Places, tmp_path: Path) -> None:
    begin(book, tmp_path / "1")
    with pytest.raises(ResumeError, match="in the book of customers, and its table's is patients"):
        begin(Book("patients", places), tmp_path / "1", resume=True)


def test_activations_of_a_run_count_once_and_those_of_several_runs_add_up(book: Book, tmp_path: Path) -> None:
    begin(book, tmp_path / "1").show_activations(3.0, again=False)
    assert account_of(book.read()).amount("epsilon") == 3.0
    begin(book, tmp_path / "1", resume=True).show_activations(3.0, again=True)
    assert account_of(book.read()).amount("epsilon") == 3.0, "the same ones were sent again"
    begin(book, tmp_path / "2").show_activations(5.0, again=False)
    with pytest.raises(RefusedError, match=r"bank sends at most 8 epsilon .*policy.maximum_total_epsilon"):
        begin(book, tmp_path / "3").show_activations(0.5, again=False)
    assert account_of(book.read()).amount("epsilon") == 8.0


def test_new_activations_of_a_resumed_run_count_again(book: Book, tmp_path: Path) -> None:
    """What it had kept is gone; and one that was killed before it counted counts what it kept."""
    begin(book, tmp_path / "1").show_activations(3.0, again=False)
    begin(book, tmp_path / "1", resume=True).show_activations(3.0, again=False)
    assert account_of(book.read()).amount("epsilon") == 6.0
    begin(book, tmp_path / "2").show_activations(2.0, again=True)
    assert account_of(book.read()).amount("epsilon") == 8.0
