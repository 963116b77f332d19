"""What a party has disclosed about its table in all runs so far, and whether this run would be within its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unpooled.budget.accounts import WithPeer, account_of
from unpooled.budget.book import Book, Entry
from unpooled.budget.checks import check_alignments, check_count, check_fits
from unpooled.budget.limits import AMOUNTS, WORDS, Amount
from unpooled.budget.places import Places, name_of
from unpooled.data.table import Table
from unpooled.drawing.words import many
from unpooled.errors import RefusedError
from unpooled.jobs.align import job as align
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.work import CheckedJob
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of


@dataclass(frozen=True)
class Used:
    """How much of a limit is used; without a limit, how much there has been."""

    used: float
    most: float | None

    def __str__(self) -> str:
        return f"{self.used:,.4g}" if self.most is None else f"{self.used:,.4g} of {self.most:,.4g}"


@dataclass(frozen=True)
class Standing:
    """How a table's book stands before a run: runs so far, what has passed with each peer, and what was answered."""

    book: str
    runs: int
    alignments: dict[str, Used]
    fits: dict[str, Used]
    amounts: dict[Amount, Used]
    fits_to_come: int


def book_of(job: CheckedJob[Any], places: Places) -> Book | None:
    """The book of the table that a private file names; None if it names none."""
    return None if job.private.table is None else Book(name_of(job.private.table), places)


def check_over_runs(job: CheckedJob[Any], table: Table | None, places: Places, resumed: str = "") -> Standing | None:
    """Refuse a run that would not be within the party's limits, or a table whose book is not what it was.

    What a run that is `resumed` has counted already does not count against it.
    """
    book, limits, plan = book_of(job, places), job.private.policy, job.plan
    if book is None:
        return None
    entries = [entry for entry in book.read() if not resumed or entry.get("run") != resumed]
    account, fits = account_of(entries), _fits_to_come(job)
    amounts = {what: Used(account.amount(what), limits.total(what)) for what in AMOUNTS}
    for what, used in amounts.items():
        if used.most is not None and used.used >= used.most > 0 and kind_named(plan.kind).products:
            raise RefusedError(f"{job.party} has answered {used} {WORDS[what]} (policy.maximum_total_{what})")
    with_whom = _compared_with(job)
    check_alignments(entries, limits, job.party, with_whom)
    if with_whom and table is not None:
        check_count(limits, job.party, job.party, table.frame.height, _brought_before(entries, job))
    others = [owner for owner in plan.owners if owner != job.party] if job.party in plan.owners else []
    if fits:
        check_fits(entries, limits, job.party, others, fits)
    peers = {peer: account.peers.get(peer, WithPeer()) for peer in {*with_whom, *others}}
    return Standing(
        book=book.name,
        runs=len(account.runs),
        alignments={p: Used(peers[p].alignments, limits.maximum_alignments) for p in with_whom},
        fits={peer: Used(peers[peer].fits, limits.maximum_linear_fits) for peer in others},
        amounts=amounts,
        fits_to_come=fits,
    )


def said(party: str, standing: Standing) -> Iterator[str]:
    """Where a book stands, in a few lines."""
    yield f"{party}: {many(standing.runs, 'run')} so far in the book of {standing.book}."
    for peer, used in standing.alignments.items():
        shown = f", gradients of {standing.fits[peer]} linear fits shown" if peer in standing.fits else ""
        yield f"  {peer} has compared ids {_times(used)}{shown}"
    totals = [f"{used} {WORDS[what]}" for what, used in standing.amounts.items() if used.used or used.most is not None]
    if totals:
        yield f"  answered: {', '.join(totals)}"


def _times(used: Used) -> str:
    return f"{used} times"


def _fits_to_come(job: CheckedJob[Any]) -> int:
    """Of how many fits this run shows others gradients, at least."""
    model = getattr(job.parameters, "model", None)
    if not isinstance(model, LearnerParameters) or job.party not in job.plan.owners:
        return 0
    return learner_of(model).gradient_fits(model, sum(kind_named(job.plan.kind).groups(job.parameters)))


def _compared_with(job: CheckedJob[Any]) -> list[str]:
    """The parties that compare ids with this one's table in a run."""
    if not isinstance(job.parameters, align.Parameters):
        return []
    plan, places = job.plan, align.places_of(job.plan, job.parameters)
    if job.party == places.seeker:
        return [plan.active]
    if job.party == plan.active:
        return [*places.passive, *([places.seeker] if places.seeker else [])]
    ring = places.coordinator is not None and job.parameters.psi == "ecdh"
    return [owner for owner in places.owners if owner != job.party] if ring else [plan.active]


def _brought_before(entries: Sequence[Entry], job: CheckedJob[Any]) -> list[int]:
    """How many ids this table brought to comparisons with the active party, or as that one with the passive ones."""
    seeks = job.plan.parties[job.party].role == "seeker"
    return [
        entry["ids"][job.party]
        for entry in entries
        if "opens" in entry and {job.party, job.plan.active} <= entry["ids"].keys()
        if (entry["opens"] == "label") == seeks and entry["ids"].keys() <= job.plan.parties.keys()
    ]
