"""The kind of job `align`."""

from __future__ import annotations

from unpooled.jobs.align.job import AIDED, ALIGNED, Parameters, outline, role
from unpooled.jobs.align.section import headline, section
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.kind import (
    Example,
    Kind,
    any_rows,
    any_table,
    as_planned,
    no_answers,
    no_files,
    nothing_said,
    own_table,
)
from unpooled.jobs.learning.scores import RowFile

ALIGN = Kind(
    name="align",
    summary="Find the people that all parties know, and which of them the seeker knows, without showing any others.",
    page="alignment.md",
    parameters=Parameters,
    takes=("seeker", "active", "passive", "coordinator"),
    needs=("active",),
    products=False,
    other_rows=False,
    by_column=True,
    outline=outline,
    role=role,
    tables={"aligned": RowFile(ALIGNED)},
    private_needs={},
    consents={"seeker": (AIDED,), "active": (AIDED,), "passive": (AIDED,)},
    table=own_table,
    check_files=no_files,
    check_table=any_table,
    check_common=any_rows,
    answers=no_answers,
    said_before=nothing_said,
    audit=None,
    groups=lambda _: [],
    rehearsed=as_planned,
    example=Example(tables=CUSTOMERS, parameters={}, paillier_parameters={}, private={}, seeded=False, judge=None),
    headline=headline,
    section=section,
)
