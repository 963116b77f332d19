"""The kind of job `check`."""

from __future__ import annotations

from unpooled.jobs.check.job import Parameters, outline, role
from unpooled.jobs.check.section import headline, section
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

CHECK = Kind(
    name="check",
    summary="Check that everything is in place: every table loads, and all parties reach each other.",
    page="jobs.md",
    parameters=Parameters,
    takes=("seeker", "active", "passive", "coordinator"),
    needs=("active",),
    products=False,
    other_rows=False,
    by_column=True,
    outline=outline,
    role=role,
    tables={},
    private_needs={},
    consents={},
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
