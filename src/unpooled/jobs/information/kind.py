"""The kind of job `information`."""

from __future__ import annotations

from collections.abc import Mapping

from unpooled.arrays import Bools
from unpooled.data.table import Table
from unpooled.information.protocol import most_answer_bits
from unpooled.jobs.align.job import AIDED, ALIGNED
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.information.job import (
    EVIDENCE,
    VALUES,
    Parameters,
    check_features,
    check_labels,
    check_settings,
    outline,
    role,
)
from unpooled.jobs.information.section import headline, section
from unpooled.jobs.kind import Agreement, Example, Kind, Rehearsed, own_table
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.learning.query_bounds import Answers
from unpooled.jobs.learning.scores import RowFile
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob, cleaned, with_table

TARGET = "mortgage"
"""Who has a mortgage, which shows in a column of the telephone company too."""
SHOWN = Agreement(
    "woe",
    "{passive} may learn the weight of evidence of each bin of their columns, and so, with the sizes of these bins, "
    "about how many positives of {party} each has",
    "show",
    value="woe",
)


def _check_table(job: CheckedJob[Parameters], table: Table) -> None:
    if job.party == job.plan.active:
        check_labels(job.private, table)
    else:
        check_features(job.private, table)


def _check_common(job: CheckedJob[Parameters], table: Table, _known: Bools | None, _others: int) -> None:
    check_labels(job.private, table)


def _answers(job: CheckedJob[Parameters]) -> Answers | None:
    """What a passive party shows: a short number for each column."""
    if job.plan.parties[job.party].role != "passive":
        return None
    table = cleaned(with_table(job, job.private.table))[0]
    if table is None:
        return None
    rows, columns = table.frame.height, len(features_of(table, job.private).kinds)
    return Answers(job.plan.active, rows, most_answer_bits(columns), rows * columns * job.parameters.bins.bit_length())


def _said_before(plan: Plan, parameters: Parameters) -> list[str]:
    owners, shown = " and ".join(plan.with_role("passive")), parameters.show == "woe"
    said = [
        f"{plan.active} learns one information value for each column of {owners}, by a number instead of a name"
        + ("." if shown else "; nobody learns anything of single bins."),
    ]
    if shown:
        said.append(
            f"{owners}: learns the weight of evidence of each of its bins in {parameters.woe_decimals} decimals, and "
            f"so about how many positives of {plan.active} each bin has."
        )
    if plan.engine != "plain":
        (coordinator,) = plan.with_role("coordinator")
        said.append(
            f"{coordinator} deals the random numbers with which counts are looked up: if it colluded with a party, the "
            "two could work out how many positives each bin has, whichever the engine."
        )
    return said


def _rehearsed(
    parameters: Parameters, _encrypted: bool, _together: Mapping[str, tuple[Table, Private]], _columns: int
) -> Rehearsed:
    """With the few rows of a rehearsal, so many weights of evidence would be refused."""
    return Rehearsed({"show": "iv"} if parameters.show == "woe" else {})


INFORMATION = Kind(
    name="information",
    summary="How much each column of all owners says about the active party's labels: information values and weights "
    "of evidence.",
    page="information.md",
    parameters=Parameters,
    takes=("active", "passive", "coordinator"),
    needs=("active", "passive"),
    products=True,
    other_rows=False,
    by_column=True,
    outline=outline,
    role=role,
    tables={"information": RowFile(VALUES), "woe": RowFile(EVIDENCE), "aligned": RowFile(ALIGNED)},
    private_needs={"active": ("target",)},
    consents={"active": (AIDED, SHOWN), "passive": (AIDED,)},
    table=own_table,
    check_files=check_settings,
    check_table=_check_table,
    check_common=_check_common,
    answers=_answers,
    said_before=_said_before,
    audit=None,
    groups=lambda _: [],
    rehearsed=_rehearsed,
    example=Example(
        tables=CUSTOMERS,
        parameters={},
        paillier_parameters={},
        private={"active": {"target": TARGET}},
        seeded=True,
        judge=None,
    ),
    headline=headline,
    section=section,
)
