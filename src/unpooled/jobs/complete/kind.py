"""The kind of job `complete`."""

from __future__ import annotations

from dataclasses import replace

from unpooled.complete.association import most_answer_bits
from unpooled.complete.variables import coded, variables_of
from unpooled.complete.vf_gain.outline import in_words
from unpooled.jobs.align.job import AIDED, ALIGNED
from unpooled.jobs.complete.checks import check_common, check_files, check_table
from unpooled.jobs.complete.choosing import SCREENING
from unpooled.jobs.complete.evaluation import judge
from unpooled.jobs.complete.job import outline, role
from unpooled.jobs.complete.parameters import Parameters, groups_of, predicting_groups, screening_groups
from unpooled.jobs.complete.rehearsing import rehearsed
from unpooled.jobs.complete.section import headline, section
from unpooled.jobs.complete.table_files import (
    COMPLETED,
    CONFIDENCE,
    DRAWS,
    HANDLES,
    PROVENANCE,
    FrameFile,
    ScreeningFile,
)
from unpooled.jobs.examples.example_tables import PATIENTS
from unpooled.jobs.kind import Agreement, Example, Kind, own_table
from unpooled.jobs.learning.common import rules_of, said_of_learner
from unpooled.jobs.learning.query_bounds import Answers, answers_of
from unpooled.jobs.learning.scores import RowFile
from unpooled.jobs.plan import Plan
from unpooled.jobs.work import CheckedJob, cleaned, with_table
from unpooled.vertical.stages import stage

_LITTLE = {
    "measure": "max",
    "threshold": 0.6,
    "predict": {"folds": 2, "confidence": "paper"},
    "model": {"trees": 5, "depth": 2, "hide_bags": False},
}
"""The whole protocol, with so few models that it ends soon under encryption."""
_GENERATE = {
    "weight": "weight",
    "groups": [{"columns": ["ward", "hospital_days"], "completer": {"completer": "hot-deck"}}],
}


def _answers(job: CheckedJob[Parameters]) -> Answers | None:
    """Associations, a screening by gain and the prediction are counted apart, and a policy's limits hold for each."""
    parameters, job = job.parameters, with_table(job, job.private.table)
    steps = screening_groups(parameters), predicting_groups(parameters)
    parts = [part for groups in steps if groups and (part := answers_of(job, [stage(parameters.widest, groups)]))]
    if not parts:
        return None
    own, rows = job.private.policy.maximum_bits_per_row, parts[0].rows
    associated = _association_bits(job, rows)
    bits = sum(part.bits for part in parts) + (associated if own is None else min(associated, int(own * rows)))
    return replace(parts[0], bits=bits)


def _association_bits(job: CheckedJob[Parameters], rows: int) -> int:
    measure, table = job.parameters.association, cleaned(job)[0]
    if measure is None or table is None:
        return 0
    sizes = coded(variables_of(table, most_classes=job.parameters.most_classes), rows)[1]
    return most_answer_bits(rules_of(job.plan), rows, sizes, job.parameters.most_asked, counts=measure == "cramer")


def _said_before(plan: Plan, parameters: Parameters) -> list[str]:
    said = said_of_learner(plan, parameters.model)
    return said if parameters.activations is None else [*said, f"{in_words(parameters.activations)}."]


COMPLETE = Kind(
    name="complete",
    summary="Complete a table: the active party's columns for all people of the passive parties; no table leaves its "
    "owner.",
    page="completing.md",
    parameters=Parameters,
    takes=("active", "passive", "coordinator"),
    needs=("active", "passive"),
    products=True,
    other_rows=True,
    by_column=False,
    outline=outline,
    role=role,
    tables={
        COMPLETED: FrameFile(COMPLETED),
        PROVENANCE: FrameFile(PROVENANCE),
        CONFIDENCE: FrameFile(CONFIDENCE),
        DRAWS: FrameFile(DRAWS),
        "screening": ScreeningFile(SCREENING),
        "handles": RowFile(HANDLES),
        "aligned": RowFile(ALIGNED),
    },
    private_needs={},
    consents={
        "active": (AIDED, Agreement("rows", "it is shown to {passive} which of their rows {party} has too")),
        "passive": (
            AIDED,
            Agreement(
                "values",
                "{active} gets values about people of {party} whom it does not have, under random handles, learns how "
                "many there are, and sees in trees on which side of thresholds of {party}'s columns each of them is; "
                "other passive parties learn which people of {party} they have too",
            ),
            Agreement(
                "activations",
                "{active} gets a few numbers for each person of {party}, also for those whom it does not have, which "
                "{party}'s own network makes of all its columns, with noise. epsilon in the plan says how much they "
                "tell: by a person's numbers {active} may raise the odds of a guess about that person by a factor of "
                "e^epsilon at the most (e^1 is 2.7, e^8 is 2,981), and with a chance of delta by more",
                only_with="activations",
            ),
        ),
    },
    table=own_table,
    check_files=check_files,
    check_table=check_table,
    check_common=check_common,
    answers=_answers,
    said_before=_said_before,
    audit=None,
    groups=groups_of,
    rehearsed=rehearsed,
    example=Example(
        tables=PATIENTS,
        parameters={"associations": True, "model": {"trees": 20, "learning_rate": 0.2}},
        paillier_parameters=_LITTLE,
        private={"active": {"generate": _GENERATE}},
        seeded=True,
        judge=judge,
    ),
    headline=headline,
    section=section,
)
