"""The kind of job `train`."""

from __future__ import annotations

from collections.abc import Mapping

from unpooled.data.columns import Kind as ColumnKind
from unpooled.jobs.align.job import ALIGNED
from unpooled.jobs.kind import Audit, Example, Kind, own_table
from unpooled.jobs.labels import check_columns
from unpooled.jobs.learning import check_learner, check_prepared
from unpooled.jobs.query_bounds import Answers, answers_of
from unpooled.jobs.scores import PREDICTIONS, RowFile
from unpooled.jobs.train.job import Parameters, outline, role
from unpooled.jobs.train.section import headline, section
from unpooled.jobs.work import CheckedJob
from unpooled.secure.evidence import Arrays

TARGET = "card_payments"
"""How often somebody pays by card, which shows in the telephone company's columns rather than in the bank's own."""


def _check_columns(job: CheckedJob[Parameters], columns: Mapping[str, ColumnKind], origin: str) -> None:
    check_columns(job.private, columns, job.party, origin, job.parameters.model.classes)


def _check_files(job: CheckedJob[Parameters]) -> None:
    check_learner(job.plan, job.parameters.model, weighted=job.private.weight is not None)
    check_prepared(job.plan, job.parameters.model, job.party, job.private)


def _answers(job: CheckedJob[Parameters]) -> Answers | None:
    return answers_of(job, job.parameters.model, [1])


def _any_targets(_targets: Arrays) -> str:
    return ""


TRAIN = Kind(
    name="train",
    summary="Learn a column of the active party from the columns of all owners; no table leaves its owner.",
    page="jobs.md#train-and-predict",
    parameters=Parameters,
    takes=("active", "passive", "coordinator"),
    needs=("active", "passive"),
    products=True,
    outline=outline,
    role=role,
    tables={"predictions": RowFile(PREDICTIONS), "aligned": RowFile(ALIGNED)},
    private_needs={"active": ("target",)},
    consents={},
    table=own_table,
    check_files=_check_files,
    check_columns=_check_columns,
    answers=_answers,
    audit=Audit(model=lambda parameters: parameters.model, problem=_any_targets),
    example=Example(
        parameters={"model": {"classes": 0}},
        paillier_parameters={"model": {"classes": 0}},
        private={"active": {"target": TARGET}},
        seeded=True,
    ),
    headline=headline,
    section=section,
)
