"""What a party has disclosed about its table in all runs so far, and whether this run would be within its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unpooled.budget.accounts import account_of
from unpooled.budget.book import Book, Entry
from unpooled.budget.checks import check_alignments, check_count, check_fits
from unpooled.budget.limits import SAID, WORDS
from unpooled.budget.places import Places, name_of
from unpooled.budget.standing import Standing, Used, standing_of
from unpooled.data.table import Table
from unpooled.drawing.words import many
from unpooled.errors import RefusedError
from unpooled.jobs.align import job as align
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.work import CheckedJob
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of

_ROUNDING = 1e-9


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
    others = [owner for owner in plan.owners if owner != job.party] if job.party in plan.owners else []
    with_whom = _compared_with(job)
    standing = standing_of(book.name, account_of(entries), limits, {*with_whom, *others})
    _check_epsilon(job, standing.amounts["epsilon"])
    for what, used in standing.amounts.items():
        if what == "epsilon":  # which is spent by few jobs; the plan says how much of it
            continue
        if used.most is not None and used.used >= used.most > 0 and kind_named(plan.kind).products:
            raise RefusedError(
                f"{job.party} has answered {used} {WORDS[what]} over all its runs (policy.maximum_total_{what})"
            )
    check_alignments(entries, limits, job.party, with_whom)
    if with_whom and table is not None:
        check_count(limits, job.party, job.party, table.frame.height, _brought_before(entries, job))
    if fits := _fits_to_come(job):
        check_fits(entries, limits, job.party, others, fits)
    return standing


def said(party: str, standing: Standing) -> Iterator[str]:
    """How a book stands, in a few lines."""
    yield f"{party}: {many(standing.runs, 'run')} so far in the book of {standing.book}."
    for peer, used in standing.alignments.items():
        yield f"  with {peer}: {used} alignments, gradients of {standing.fits[peer]} linear fits shown"
    if totals := [f"{used} {SAID[what]}" for what, used in standing.said.items()]:
        yield f"  {', '.join(totals)}"


def _check_epsilon(job: CheckedJob[Any], used: Used) -> None:
    """Refuse a plan whose activations of this party's rows would tell too much, with those of earlier runs."""
    activations = getattr(job.parameters, "activations", None)
    if activations is None or used.most is None or job.plan.parties[job.party].role != "passive":
        return
    if used.used + activations.epsilon > used.most + _ROUNDING:
        raise RefusedError(
            f"{job.party} sends at most {used.most:g} epsilon of activations over all its runs "
            f"(policy.maximum_total_epsilon); earlier runs have sent {used.used:g}, and the plan has "
            f"{activations.epsilon:g}"
        )


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
    together = places.meets(job.parameters.psi)
    return [owner for owner in places.owners if owner != job.party] if together else [plan.active]


def _brought_before(entries: Sequence[Entry], job: CheckedJob[Any]) -> list[int]:
    """How many ids this table brought to comparisons with the active party, or as that one with the passive ones."""
    plan, seeks = job.plan, job.plan.parties[job.party].role == "seeker"
    return [
        entry["own"]
        for entry in entries
        if "opens" in entry and (entry["opens"] == "label") == seeks
        if (job.party == plan.active or plan.active in entry["ids"]) and entry["ids"].keys() <= plan.parties.keys()
    ]
