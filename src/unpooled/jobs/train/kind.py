"""The kind of job `train`."""

from __future__ import annotations

from collections.abc import Sequence

from unpooled.arrays import Bools
from unpooled.data.table import Table
from unpooled.jobs.align.job import AIDED, ALIGNED
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.kind import Audit, Example, Kind, as_planned, own_table
from unpooled.jobs.labels import check_columns, check_target, labels_of
from unpooled.jobs.learning import check_learner, check_prepared, said_of_learner
from unpooled.jobs.query_bounds import Answers, answers_of
from unpooled.jobs.row_weights import LENDING
from unpooled.jobs.scores import PREDICTIONS, RowFile
from unpooled.jobs.train.job import Parameters, outline, role
from unpooled.jobs.train.section import headline, section
from unpooled.jobs.work import CheckedJob
from unpooled.secure.evidence import Arrays

TARGET = "card_payments"
"""How often somebody pays by card, which shows in the telephone company's columns rather than in the bank's own."""


def _check_table(job: CheckedJob[Parameters], table: Table) -> None:
    check_columns(job.private, table, job.parameters.model.classes)
    if job.party == job.plan.active:
        check_target(table, job.private, job.parameters.model.classes)


def _check_common(job: CheckedJob[Parameters], table: Table, _known: Bools | None, _others: int) -> None:
    labels_of(table, job.private, job.parameters.model.classes)


def _check_files(job: CheckedJob[Parameters]) -> None:
    check_learner(job.plan, job.parameters.model, weighted=job.private.weight is not None)
    check_prepared(job.plan, job.parameters.model, job.party, job.private)


def _answers(job: CheckedJob[Parameters]) -> Answers | None:
    return answers_of(job, job.parameters.model, [1])


def _any_targets(_parameters: Parameters, _targets: Arrays, _earlier: Sequence[Arrays]) -> str:
    return ""


TRAIN = Kind(
    name="train",
    summary="Learn a column of the active party from the columns of all owners; no table leaves its owner.",
    page="jobs.md#train-and-predict",
    parameters=Parameters,
    takes=("active", "passive", "coordinator"),
    needs=("active", "passive"),
    products=True,
    other_rows=False,
    by_column=True,
    outline=outline,
    role=role,
    tables={"predictions": RowFile(PREDICTIONS), "aligned": RowFile(ALIGNED)},
    private_needs={"active": ("target",)},
    consents={"active": (AIDED,), "passive": (AIDED, LENDING)},
    table=own_table,
    check_files=_check_files,
    check_table=_check_table,
    check_common=_check_common,
    answers=_answers,
    said_before=lambda plan, parameters: said_of_learner(plan, parameters.model),
    audit=Audit(model=lambda parameters: parameters.model, problem=_any_targets),
    groups=lambda _: [1],
    rehearsed=as_planned,
    example=Example(
        tables=CUSTOMERS,
        parameters={"model": {"classes": 0}},
        paillier_parameters={"model": {"classes": 0}},
        private={"active": {"target": TARGET}},
        seeded=True,
        judge=None,
    ),
    headline=headline,
    section=section,
)
