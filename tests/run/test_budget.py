"""Books of tables over several runs, with a process for each party, over mutual TLS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unpooled.budget.accounts import account_of
from unpooled.budget.book import Book
from unpooled.budget.places import Places
from unpooled.data import example
from unpooled.errors import JobFailed
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.files import Job
from unpooled.report.page import write_report
from unpooled.run.spawn import books_in, spawn, spawn_again


@pytest.fixture
def job(tmp_path: Path) -> Job:
    example.write(tmp_path / "tables", rows=1000)
    job = example_job("align")
    plan = job.plan.model_copy(update={"timeout": 600.0})
    return Job(plan, {name: private.at(tmp_path / "tables") for name, private in job.privates.items()})


def of_two(job: Job) -> Job:
    """The same between the telco and the bank alone, to save processes."""
    plan = job.plan.model_copy(update={"parties": {name: job.plan.parties[name] for name in ("telco", "bank")}})
    return Job(plan, {name: job.privates[name] for name in plan.parties})


def test_runs_are_counted_and_a_small_change_or_a_deleted_book_ends_the_next(tmp_path: Path, job: Job) -> None:
    books, tables = Places(tmp_path / "books", tmp_path / "anchors"), tmp_path / "tables"
    spawn(job.plan, job.privates, tmp_path / "first", books=books)
    accounts = {name: account_of(Book(str(tables / f"{name}.csv"), books).read()) for name in ("bank", "telco", "shop")}
    assert {name: sorted(account.peers) for name, account in accounts.items()} == {
        "bank": ["shop", "telco"],
        "telco": ["bank"],
        "shop": ["bank"],
    }
    kept = json.loads((tmp_path / "first" / "telco" / "budget.json").read_text())
    assert kept["all_runs"]["alignments"]["bank"] == {"used": 1, "most": 50}
    write_report(tmp_path / "first")
    for page, said in (("report.html", "telco"), ("telco/report.html", kept["chain"])):
        text = (tmp_path / "first" / page).read_text()
        assert "Over all runs" in text
        assert "alignments with bank" in text
        assert said in text
    assert "Over all runs" not in (tmp_path / "first" / "coordinator" / "report.html").read_text()

    job = of_two(job)
    telco = tables / "telco.csv"
    whole = telco.read_text()
    telco.write_text(whole[: whole.rstrip("\n").rfind("\n") + 1])
    with pytest.raises(JobFailed, match=r"telco: telco brings 899 ids, and brought 900 .*policy\.minimum_change"):
        spawn(job.plan, job.privates, tmp_path / "one less", books=books)

    telco.write_text(whole)
    book = Book(str(telco), books)
    book.path.unlink()
    with pytest.raises(JobFailed, match=r"telco: the book of .*telco\.csv .* is missing or empty, and it had 5 lines"):
        spawn(job.plan, job.privates, tmp_path / "deleted", books=books)
    book.accept("restored from a backup")
    spawn(job.plan, job.privates, tmp_path / "accepted", books=books)
    assert account_of(book.read()).accepted == ["restored from a backup"]


def test_a_run_whose_books_are_in_its_own_folder_is_resumed_with_them(tmp_path: Path, job: Job) -> None:
    job, folder = of_two(job), tmp_path / "run"
    books = books_in(folder)
    telco = tmp_path / "tables" / "telco.csv"
    whole = telco.read_text()
    telco.unlink()
    with pytest.raises(JobFailed, match="there is no such file"):
        spawn(job.plan, job.privates, folder, books=books)
    telco.write_text(whole)
    spawn_again(folder)
    bank = account_of(Book(str(tmp_path / "tables" / "bank.csv"), books).read())
    assert len(bank.runs) == 1, "a resumed run is the same run"
