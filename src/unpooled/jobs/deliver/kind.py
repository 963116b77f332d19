"""The kind of job `deliver`."""

from __future__ import annotations

from unpooled.data.sources import TableSettings
from unpooled.errors import PlanError
from unpooled.jobs.deliver.earlier import check_earlier
from unpooled.jobs.deliver.job import Parameters, outline, role
from unpooled.jobs.deliver.section import section
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.kind import Example, Kind, any_rows, any_table, as_planned, no_answers, nothing_said
from unpooled.jobs.learning.scores import RowFile
from unpooled.jobs.lookalike.kind import ADVICE, FOUND
from unpooled.jobs.lookalike.list_files import RELIABLE, as_sent
from unpooled.jobs.lookalike.list_section import list_figures
from unpooled.jobs.work import CheckedJob


def _table(job: CheckedJob[Parameters]) -> TableSettings | None:
    """The seeker's own, for its id columns; owners' tables play no part."""
    return job.private.table if job.plan.parties[job.party].role == "seeker" else None


def _check_files(job: CheckedJob[Parameters]) -> None:
    role = job.plan.parties[job.party].role
    if role == "active":
        check_earlier(job.plan, job.private, job.party, job.parameters, advice=job.parameters.advice)
    if role == "passive" and job.private.exclude:
        raise PlanError(
            f"{job.party}: exclude: people of a passive party can be left out of a new search only, not of an earlier "
            "one; remove it, or do not take part"
        )


DELIVER = Kind(
    name="deliver",
    summary="Send the seeker a longer or shorter list from an earlier search for look-alikes, without a new search.",
    page="jobs.md#a-list-of-another-length",
    parameters=Parameters,
    takes=("seeker", "active", "passive"),
    needs=("seeker", "active", "passive"),
    products=False,
    other_rows=False,
    by_column=False,
    outline=outline,
    role=role,
    tables={"look-alikes": RowFile(RELIABLE, as_sent)},
    private_needs={"active": ("earlier",)},
    consents={"active": (FOUND, ADVICE), "passive": (FOUND,)},
    table=_table,
    check_files=_check_files,
    check_table=any_table,
    check_common=any_rows,
    answers=no_answers,
    said_before=nothing_said,
    audit=None,
    groups=lambda _: [],
    rehearsed=as_planned,
    example=Example(
        tables=CUSTOMERS,
        parameters={"top": 300, "advice": True},
        paillier_parameters={"top": 300},
        private={"active": {"earlier": "runs/lookalike/{party}"}},
        seeded=False,
        judge=None,
    ),
    headline=list_figures,
    section=section,
)
