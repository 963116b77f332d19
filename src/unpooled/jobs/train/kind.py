"""The kind of job `train`."""

from __future__ import annotations

from collections.abc import Sequence

from unpooled.arrays import Bools
from unpooled.data.table import Table
from unpooled.jobs.align.job import AIDED, ALIGNED
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.kind import Audit, Example, Kind, own_table
from unpooled.jobs.learning.common import check_prepared, said_of_learner
from unpooled.jobs.learning.labels import check_columns, check_target, labels_of
from unpooled.jobs.learning.query_bounds import Answers, answers_of
from unpooled.jobs.learning.scores import PREDICTIONS, RowFile
from unpooled.jobs.learning.tuned import audited_parameters, rehearsed_once, said_of_tuning
from unpooled.jobs.plan import Plan
from unpooled.jobs.row_weights import LENDING
from unpooled.jobs.train.job import Parameters, check_folds, check_models, groups_of, outline, role
from unpooled.jobs.train.section import headline, section
from unpooled.jobs.work import CheckedJob, Result
from unpooled.secure.evidence import Arrays
from unpooled.vertical.learner import LearnerParameters

TARGET = "card_payments"
"""How often somebody pays by card, which shows in the telephone company's columns rather than in the bank's own."""


def _check_table(job: CheckedJob[Parameters], table: Table) -> None:
    check_columns(job.private, table, job.parameters.model.classes)
    if job.party == job.plan.active:
        check_target(table, job.private, job.parameters.model.classes)


def _check_common(job: CheckedJob[Parameters], table: Table, _known: Bools | None, _others: int) -> None:
    check_folds(job, table, labels_of(table, job.private, job.parameters.model.classes))


def _check_files(job: CheckedJob[Parameters]) -> None:
    check_models(job.plan, job.parameters, weighted=job.private.weight is not None)
    check_prepared(job.plan, job.parameters.model, job.party, job.private)


def _answers(job: CheckedJob[Parameters]) -> Answers | None:
    return answers_of(job, job.parameters.stages)


def _said_before(plan: Plan, parameters: Parameters) -> list[str]:
    said = said_of_learner(plan, parameters.model)
    return said + said_of_tuning(plan, parameters.candidates, parameters.models_each, 1)


def _audited(parameters: Parameters, fit: int, result: Result) -> LearnerParameters:
    return audited_parameters(parameters.model, parameters.candidates, fit, result)


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
    said_before=_said_before,
    audit=Audit(model=_audited, problem=_any_targets),
    groups=groups_of,
    rehearsed=lambda parameters, *_: rehearsed_once(parameters, parameters.candidates),
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
