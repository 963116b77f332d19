"""The kind of job `predict`."""

from __future__ import annotations

from unpooled.data.sources import TableSettings
from unpooled.errors import PlanError
from unpooled.jobs.align.job import AIDED, ALIGNED
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.kind import Example, Kind, any_rows, as_planned, no_answers, nothing_said
from unpooled.jobs.learning.explaining import CONTRIBUTIONS, LENT, SHOWN, explaining_of
from unpooled.jobs.learning.model_files import check_saved, load, reading
from unpooled.jobs.learning.scores import PREDICTIONS, RowFile
from unpooled.jobs.predict.job import Parameters, check_table, outline, role
from unpooled.jobs.predict.section import headline, section
from unpooled.jobs.train.kind import TARGET
from unpooled.jobs.work import CheckedJob
from unpooled.vertical.learners import learner_named

_MODEL = "runs/train/{party}"


def _table(job: CheckedJob[Parameters]) -> TableSettings | None:
    return reading(job.party, job.private)


def _check_files(job: CheckedJob[Parameters]) -> None:
    if job.private.model is not None:
        check_saved(job.plan, job.party, job.private)
        if job.parameters.explain:
            kept, _ = load(job.private, job.party, active=job.party == job.plan.active)
            if lacking := explaining_of(learner_named(kept.learner)).lacks(kept):
                raise PlanError(f"{job.party}: explain: {job.private.model}: the model lacks {lacking}")


PREDICT = Kind(
    name="predict",
    summary="Use a model on new rows: each owner brings its part of it, and the active party has the predictions.",
    page="jobs.md#train-and-predict",
    parameters=Parameters,
    takes=("active", "passive", "coordinator"),
    needs=("active", "passive"),
    products=False,
    other_rows=False,
    by_column=True,
    outline=outline,
    role=role,
    tables={
        "predictions": RowFile(PREDICTIONS),
        "contributions": RowFile(CONTRIBUTIONS),
        "aligned": RowFile(ALIGNED),
    },
    private_needs={"active": ("model",), "passive": ("model",)},
    consents={"active": (AIDED, SHOWN), "passive": (AIDED, LENT)},
    table=_table,
    check_files=_check_files,
    check_table=check_table,
    check_common=any_rows,
    answers=no_answers,
    said_before=nothing_said,
    audit=None,
    groups=lambda _: [],
    rehearsed=as_planned,
    example=Example(
        tables=CUSTOMERS,
        parameters={},
        paillier_parameters={},
        private={"active": {"model": _MODEL, "target": TARGET}, "passive": {"model": _MODEL}},
        seeded=True,
        judge=None,
    ),
    headline=headline,
    section=section,
)
