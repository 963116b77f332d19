"""The kind of job `lookalike`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unpooled.arrays import Bools
from unpooled.data.table import Table
from unpooled.jobs.align.job import AIDED, ALIGNED
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.kind import Agreement, Audit, Example, Kind, Rehearsed, own_table
from unpooled.jobs.learning.common import check_prepared, said_of_learner
from unpooled.jobs.learning.explaining import CONTRIBUTIONS, LENT, SHOWN, SOUGHT
from unpooled.jobs.learning.query_bounds import Answers, answers_of
from unpooled.jobs.learning.scores import RowFile
from unpooled.jobs.learning.tuned import audited_parameters, rehearsed_once, said_of_tuning
from unpooled.jobs.lookalike.evaluation import judge
from unpooled.jobs.lookalike.figures import check_truth
from unpooled.jobs.lookalike.in_common import check_described, describing
from unpooled.jobs.lookalike.job import check_known, check_table, outline, role
from unpooled.jobs.lookalike.list_files import RANKING, RELIABLE, as_sent
from unpooled.jobs.lookalike.parameters import Parameters, fewer_bags, groups_of
from unpooled.jobs.lookalike.section import headline, section
from unpooled.jobs.plan import Plan
from unpooled.jobs.row_weights import LENDING, own_weights
from unpooled.jobs.work import CheckedJob, Result
from unpooled.pu.bags import is_bag
from unpooled.secure.evidence import Arrays
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.targets import ROW_WEIGHTS

FOUND = Agreement("found", "{seeker} learns the ids of the look-alikes, who are customers of {party}")
ADVICE = Agreement("advice", "{seeker} learns how many positives {party} expects on lists of any length", "advice")
_DESCRIBE = Agreement(
    "describe",
    "{seeker} learns what look-alikes have in common in the columns that {party} names",
    "describe",
    ["age", "income", "mortgage", "risk"],
)
_TOLD = {"advice": True, "describe": True}
_LITTLE = {"method": {"iterations": 2, "bags": 3}, "model": {"trees": 5, "hide_bags": False}, "estimate": False}
"""The whole protocol, with so few models that it ends soon under encryption."""


def _check_files(job: CheckedJob[Parameters]) -> None:
    check_prepared(job.plan, job.parameters.model, job.party, job.private)


def _check_table(job: CheckedJob[Parameters], table: Table) -> None:
    check_table(job, table)
    if job.private.target is not None:
        check_truth(table, job.private.target)
    if job.party in describing(job.plan, job.parameters.describe):
        check_described(job.private.consent.describe, table.kinds, job.party, table.origin)


def _check_common(job: CheckedJob[Parameters], table: Table, known: Bools | None, _others: int) -> None:
    if known is not None:
        check_known(job, table, known, own_weights(job, table))


def _answers(job: CheckedJob[Parameters]) -> Answers | None:
    return answers_of(job, job.parameters.stages)


def _said_before(plan: Plan, parameters: Parameters) -> list[str]:
    said, rest = said_of_learner(plan, parameters.model), sum(parameters.stages[-1].groups)
    return said + said_of_tuning(plan, parameters.candidates, parameters.models_each, rest)


def _rehearsed(parameters: Parameters, encrypted: bool, *_: object) -> Rehearsed:
    once = rehearsed_once(parameters, parameters.candidates)
    return replace(once, parameters={**once.parameters, **fewer_bags(parameters, encrypted)})


def _audited(parameters: Parameters, fit: int, result: Result) -> LearnerParameters:
    return audited_parameters(parameters.model, parameters.candidates, fit, result)


def _problem(parameters: Parameters, targets: Arrays, earlier: Sequence[Arrays]) -> str:
    """What rows count is not for all to know, but it must be the same in all models, and as the plan says."""
    if not all(map(is_bag, targets["values"], targets["weights"])):
        return "labels and weights are not those of bags that were drawn"
    counts = targets.get(ROW_WEIGHTS)
    if counts is None:
        return "rows have no weights, and the plan says whose count" if parameters.weights is not None else ""
    if parameters.weights is None:
        return "rows have weights, and the plan does not say whose"
    if earlier and not np.array_equal(counts, earlier[0][ROW_WEIGHTS]):
        return "rows have other weights than in another model"
    return ""


LOOKALIKE = Kind(
    name="lookalike",
    summary="Find look-alikes: who else is very likely like the people that the seeker knows; no table leaves its "
    "owner.",
    page="jobs.md#look-alikes",
    parameters=Parameters,
    takes=("seeker", "active", "passive", "coordinator"),
    needs=("seeker", "active", "passive"),
    products=True,
    other_rows=False,
    by_column=True,
    outline=outline,
    role=role,
    tables={
        "look-alikes": RowFile(RELIABLE, as_sent),
        "ranking": RowFile(RANKING),
        "contributions": RowFile(CONTRIBUTIONS),
        "aligned": RowFile(ALIGNED),
    },
    private_needs={},
    consents={
        "seeker": (AIDED, Agreement("positives", "{active} learns which of its rows are people of {party}"), SOUGHT),
        "active": (AIDED, FOUND, ADVICE, SHOWN, _DESCRIBE),
        "passive": (
            AIDED,
            FOUND,
            LENDING,
            LENT,
            replace(_DESCRIBE, example=["plan", "data_gb", "roaming", "satisfaction"]),
        ),
    },
    table=own_table,
    check_files=_check_files,
    check_table=_check_table,
    check_common=_check_common,
    answers=_answers,
    said_before=_said_before,
    audit=Audit(model=_audited, problem=_problem),
    groups=groups_of,
    rehearsed=_rehearsed,
    example=Example(
        tables=CUSTOMERS, parameters=_TOLD, paillier_parameters=_LITTLE, private={}, seeded=True, judge=judge
    ),
    headline=headline,
    section=section,
)
