"""One run's part in a table's book: what it discloses is checked and written down before it leaves the party."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter, ValidationError

from unpooled import atomic
from unpooled.budget import row_sets
from unpooled.budget.accounts import OneRun, account_of, fits_in, found_before
from unpooled.budget.book import Book, Mark, Writer
from unpooled.budget.checks import check_alignments, check_change, check_fits
from unpooled.budget.limits import AMOUNTS, WORDS, Amount, OverRuns, Result
from unpooled.budget.standing import Standing, standing_of
from unpooled.errors import RefusedError, ResumeError, UnpooledError

RUN_BUDGET = "budget.json"
"""In a run's folder: the book, the run's name in it, and how far the book was."""

_RUN_BYTES = 8
_ROUNDING = 1e-9


class Spending:
    """Counts what one run discloses, in the book of the party's table, and refuses what its limits do not allow."""

    def __init__(self, book: Book, limits: OverRuns, party: str, run: str, earlier: OneRun) -> None:
        self.book, self.run, self._limits, self._party = book, run, limits, party
        self._spent: dict[str, float] = {what: earlier.amount(what) for what in AMOUNTS}
        self._reserved = dict(self._spent)
        self._rows: dict[str, str] = {}

    def opened(self, purpose: str, ids: Mapping[str, int]) -> None:
        """Before ids are compared: how many each party brings, this one included."""
        peers = {peer: count for peer, count in ids.items() if peer != self._party}
        with self.book.writing() as writer:
            check_alignments(writer.entries, self._limits, self._party, peers)
            check_change(writer.entries, self._limits, self._party, purpose, ids[self._party], peers)
            entry: dict[str, Any] = {"own": ids[self._party], "ids": peers, "with": sorted(peers)}
            writer.add(run=self.run, opens=purpose, **entry)

    def found(self, peers: Sequence[str], ids: pl.DataFrame, digest: str) -> None:
        """Once common rows are known: refuse to go on if they differ from earlier ones by a few people.

        `digest` is the one by which the run knows these rows.
        """
        key, fewest = self.book.key(), self._limits.minimum_change
        digests = row_sets.digests_of(key, ids)
        name = self._rows[digest] = row_sets.keep(self.book.folder, key, digests)
        with self.book.writing() as writer:
            earlier = found_before(writer.entries, peers)
            new = fewest > 1 and (name not in earlier or earlier[name])
            close = new and any(0 < self._difference(digests, other) < fewest for other in earlier)
            entry: dict[str, Any] = {"common": len(digests), "rows": name, "with": sorted(peers)}
            writer.add(run=self.run, **entry, **({"refused": True} if close else {}))
        if close:
            raise RefusedError(
                f"{self._party} has common rows with {' and '.join(sorted(peers))} that differ from those of an "
                f"earlier run by fewer than {fewest} people (policy.minimum_change)"
            )

    def _difference(self, digests: row_sets.Digests, other: str) -> int:
        known = row_sets.kept(self.book.folder, self.book.key(), other)
        if known is None:
            file = f"{row_sets.ROWS}/{other}"
            raise self.book.refused(f"{file}, with the rows of an earlier run, is missing or was changed")
        return row_sets.difference(digests, known)

    def show_gradients(self, peers: Sequence[str], digest: str, cut: str) -> None:
        """Before a fit shows others gradients of rows, cut in this way; the same fit of a run counts once."""
        rows = self._rows.get(digest, digest)
        with self.book.writing() as writer:
            if (rows, cut) in fits_in(writer.entries, self.run):
                return
            check_fits(writer.entries, self._limits, self._party, peers)
            writer.add(run=self.run, fit=cut, rows=rows, **{"with": sorted(peers)})

    def show_activations(self, epsilon: float, *, again: bool) -> None:
        """Before activations of all rows leave: those of several runs add up, those that a run sends `again` do not."""
        before = self._spent["epsilon"] if again else 0.0
        if epsilon > before:
            self.count("epsilon", epsilon - before, epsilon)

    def count(self, what: Amount, amount: float, most: float | None) -> None:
        """Before an answer: count it. What is on the disk covers answers ahead, up to `most`, which is all of a run."""
        total = self._spent[what] + amount
        if total > self._reserved[what]:
            limit = self._limits.total(what)
            with self.book.writing() as writer:
                others = account_of(writer.entries).amount(what, without=self.run)
                left = None if limit is None else limit - others
                if left is not None and total > left + _ROUNDING:
                    verb = "sends" if what == "epsilon" else "answers"
                    raise RefusedError(
                        f"{self._party} {verb} at most {limit:g} {WORDS[what]} over all its runs "
                        f"(policy.maximum_total_{what})"
                    )
                ahead = max(total, min([2 * total, *(bound for bound in (most, left) if bound is not None)]))
                writer.add(run=self.run, reserves={what: ahead})
            self._reserved[what] = ahead
        self._spent[what] = total

    def end(self, folder: Path, state: str, results: Mapping[Result, int] | None = None) -> None:
        """At the end: what was really answered, which may be less than what was reserved, and what the result says.

        The run's folder gets a summary, with how the book stands now.
        """
        spent = dict(self._spent)
        spent.update((what, amount) for what, amount in (results or {}).items())
        with self.book.writing() as writer:
            writer.add(run=self.run, ends=state, spent={what: amount for what, amount in spent.items() if amount})
        own = [entry for entry in writer.entries if entry.get("run") == self.run]
        peers = {peer for entry in own for peer in entry.get("with", ())}
        name, mark, limits = self.book.name, writer.mark, self._limits
        this_run = standing_of(name, account_of(own), limits, peers)
        all_runs = standing_of(name, account_of(writer.entries), limits, peers)
        _keep(folder, Summary(name, self.run, mark.lines, mark.chain, this_run, all_runs))


@dataclass(frozen=True)
class About:
    """What a book says of a run: this party, the kind of job, the plan's digest, the others and their roles."""

    party: str
    kind: str
    plan: str
    peers: Mapping[str, str]


@dataclass(frozen=True)
class Summary:
    """What a run's folder keeps: the book, the run's name in it, how far it was, and at the end how it stands."""

    book: str
    run: str
    lines: int
    chain: str
    this_run: Standing | None = None
    all_runs: Standing | None = None


@contextmanager
def spending_in(folder: Path, book: Book, limits: OverRuns, about: About, *, resume: bool) -> Iterator[Spending]:
    """Begin a run's entries or go on with them, and end them if the run fails."""
    spending = begin_spending(folder, book, limits, about, resume=resume)
    try:
        yield spending
    except BaseException:
        with suppress(UnpooledError, OSError):  # what was reserved stands then; the error of the run must not be lost
            spending.end(folder, "failed")
        raise


def begin_spending(folder: Path, book: Book, limits: OverRuns, about: About, *, resume: bool) -> Spending:
    """Begin a run's entries, or go on with those of the run in this folder."""
    begin = _resumed if resume and (folder / RUN_BUDGET).exists() else _begun
    return begin(folder, book, limits, about)


def _begun(folder: Path, book: Book, limits: OverRuns, about: About) -> Spending:
    """The run's name is in its folder before it is in the book, so that it has one name however early it is killed."""
    run = secrets.token_hex(_RUN_BYTES)
    with book.writing() as writer:
        _keep(folder, Summary(book.name, run, writer.mark.lines, writer.mark.chain))
        _begin_in(writer, run, about)
    _keep(folder, Summary(book.name, run, writer.mark.lines, writer.mark.chain))
    return Spending(book, limits, about.party, run, OneRun())


def _begin_in(writer: Writer, run: str, about: About) -> None:
    named = {"begins": about.kind, "party": about.party, "plan": about.plan, "peers": dict(about.peers)}
    writer.add(run=run, **named)


def _resumed(folder: Path, book: Book, limits: OverRuns, about: About) -> Spending:
    kept = summary_in(folder)
    if kept.book != book.name:
        raise ResumeError(f"{folder}: the run was counted in the book of {kept.book}, and its table's is {book.name}")
    book.check_extends(Mark(kept.lines, kept.chain))
    with book.writing() as writer:
        earlier = account_of(writer.entries).runs.get(kept.run)
        if earlier is None:
            _begin_in(writer, kept.run, about)
        else:
            writer.add(run=kept.run, resumes=True)
    return Spending(book, limits, about.party, kept.run, earlier or OneRun())


def run_in_book(folder: Path) -> str:
    """The name of the run in this folder in its table's book; nothing if it has never got there."""
    return summary_in(folder).run if (folder / RUN_BUDGET).exists() else ""


def _keep(folder: Path, summary: Summary) -> None:
    with atomic.naming(folder / RUN_BUDGET):
        atomic.write_text(folder / RUN_BUDGET, json.dumps(asdict(summary), ensure_ascii=False, indent=2) + "\n")


def summary_in(folder: Path) -> Summary:
    """What a run's folder keeps of its table's book."""
    try:
        return TypeAdapter(Summary).validate_json((folder / RUN_BUDGET).read_bytes())
    except (OSError, ValidationError):
        raise ResumeError(f"{folder / RUN_BUDGET}: cannot be read, so the run cannot be resumed") from None
