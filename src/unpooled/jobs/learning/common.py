"""What jobs with a learner have in common: who takes part, products, columns made ready, checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unpooled.align.rows import Places
from unpooled.checkpoint import open_checkpoint
from unpooled.data.columns import fault
from unpooled.data.prepare import Preparation, Prepared, transform
from unpooled.data.prepare import fit as fit_preparation
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.plan import Plan, digest_of, fields_of
from unpooled.jobs.private import Policy, Private
from unpooled.jobs.work import WORKING, Work, disk_for, evidence_for
from unpooled.secure.engine import MEGABYTE, Engine, HowFar, Rules, Serving, open_engine
from unpooled.secure.outline import Exchange, Setup, engine_outline
from unpooled.secure.product import serve
from unpooled.session import Session
from unpooled.version import __version__
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Learner, LearnerParameters
from unpooled.vertical.learners import learner_of
from unpooled.vertical.resume import Checkpoint, agreement_outline
from unpooled.vertical.stages import Stage, questions_of
from unpooled.vertical.team import Team

_CHECKPOINT = "checkpoint"
_ROWS_AT_ONCE = 2**16


def rules_of(plan: Plan, questions: int | None = None) -> Rules:
    """The plan's settings for products; a learner that asks often says how many columns it asks about the same rows."""
    return Rules(plan.engine, plan.key_bits, plan.insecure, plan.count_rows, questions)


def setup_of(plan: Plan) -> Setup:
    """Who takes part in a plan's products, and how they are protected."""
    coordinator = next(iter(plan.with_role("coordinator")), None)
    return Setup(plan.owners, plan.active, coordinator, rules_of(plan), plan.audit)


def said_of_learner(plan: Plan, parameters: LearnerParameters) -> list[str]:
    """What the learner's settings cost or give away, in sentences."""
    return list(learner_of(parameters).said_before(rules_of(plan), parameters, bool(plan.with_role("seeker"))))


def check_learner(plan: Plan, parameters: LearnerParameters, *, bags: bool = False, weighted: bool = False) -> None:
    """Refuse, before the start, a plan that its learner cannot do, with `bags` of the rows or `weighted` rows."""
    learner_of(parameters).check(setup_of(plan), parameters, bags, weighted)


def check_prepared(plan: Plan, parameters: LearnerParameters, party: str, private: Private) -> None:
    """Refuse, before the start, an owner's settings that leave missing values to a learner that cannot use them."""
    learner = learner_of(parameters)
    if party in plan.owners and private.prepare.missing == "keep" and not learner.takes_missing:
        raise PlanError(
            f"{party}: prepare.missing: {learner.models} cannot use missing values; take 'impute' or 'drop'"
        )


def answering_limits(policy: Policy) -> tuple[int | None, float | None, int | None]:
    """A party's own limits to what it answers in products and opens of trees, as `open_engine` takes them."""
    return policy.maximum_questions, policy.maximum_bits_per_row, policy.maximum_splits


def answered_in(engine: Engine) -> dict[str, Any]:
    """What a party's result says of what it has answered, of how many bits it would have answered at the most, and of
    what that shows of its table in bins."""
    counted = {"questions": engine.answered, "bits": engine.bits, "splits": engine.opened}
    found = {name: sum(counts.values()) for name, counts in counted.items()}
    for shown in engine.revealed.values():
        for name, count in shown.items():
            found[name] = found.get(name, 0) + count
    return found | ({"most_bits": sum(engine.most_bits.values())} if engine.most_bits else {})


def waiting_in(plan: Plan) -> tuple[str, ...]:
    """Who is told how far the active party is: the seeker, and a coordinator that has something to do."""
    coordinators = plan.with_role("coordinator") if plan.engine != "plain" else []
    return (*plan.with_role("seeker"), *coordinators)


def learning_outline(
    plan: Plan, parameters: LearnerParameters
) -> tuple[list[Exchange], list[Exchange], list[Exchange]]:
    """What is sent besides the alignment: before the first fit, in each fit, and after the last."""
    setup = setup_of(plan)
    begin, end = engine_outline(setup)
    begin += [Exchange(setup.active, party, HowFar) for party in waiting_in(plan)]
    return begin + agreement_outline(setup), learner_of(parameters).outline(setup, parameters), end


def open_products(session: Session, work: Work[Any], places: Places, stages: Sequence[Stage]) -> Engine:
    """Products for all stages of learning."""
    plan, questions = work.plan, questions_of(stages)
    limits, folder = answering_limits(work.private.policy), work.folder / WORKING
    who, kept = (plan.owners, plan.active, places.coordinator), (evidence_for(work), folder, work.spending)
    return open_engine(session, rules_of(plan, questions), *who, *limits, *kept)


def served(engine: Engine, policy: Policy, common: int | None, parameters: LearnerParameters) -> dict[str, Any]:
    """At the coordinator: serve products until there are no more; what it can say of that."""
    rows = None if common is None else learner_of(parameters).product_rows(parameters, common)
    size = serve(engine, Serving(policy.maximum_served_megabytes, rows))
    return {"served_megabytes": round(size / MEGABYTE, 3)}


def team_of(plan: Plan, engine: Engine, digest: str) -> Team:
    """Those who learn together from the rows of this digest."""
    return Team(plan.active, plan.owners, engine, digest, waiting_in(plan))


def ready(work: Work[Any], table: Table, learner: Learner) -> tuple[Columns, Preparation]:
    """A party's own columns of the common rows as numbers, and how they came about."""
    features = features_of(table, work.private)
    preparation = fit_preparation(features, work.private.prepare)
    disk = disk_for(work)
    return columns_of(transform(preparation, features, disk), table, learner, disk), preparation


def columns_of(prepared: Prepared, table: Table, learner: Learner, folder: Path | None = None) -> Columns:
    """A prepared table as a learner takes it; a column with missing values that it cannot use is an error."""
    for name, cells in zip(prepared.names, prepared.matrix.T, strict=True):
        if learner.takes_missing:
            break
        if not np.isfinite(cells).all():
            reason = f"values are missing, and {learner.models} need numbers; train with prepare.missing = 'impute'"
            raise fault(table.party, table.origin, reason, name)
    return Columns(prepared.matrix, prepared.names, folder=folder)


def _digest_of(table: Table, secret: bytes) -> str:
    """What says whether a table is the same: its columns one after the other, since as text they are large."""
    found = hashlib.sha256(secret)
    for name in (*table.id, *table.kinds):
        found.update(f"\n{name}\n".encode())
        cells = table.column(name).to_frame()
        for begin in range(0, cells.height, _ROWS_AT_ONCE):
            found.update(cells.slice(begin, _ROWS_AT_ONCE).write_csv(include_header=False).encode())
    return found.hexdigest()


def checkpoint_of(work: Work[Any], table: Table, secret: bytes = b"", name: str = _CHECKPOINT) -> Checkpoint:
    """Where a party keeps how far it is; nothing of it serves for another plan, table, `secret` or version.

    A job with several such places has a `name` for each.
    """
    private = work.private
    deciding = (
        private.prepare.model_dump_json(),
        private.generate.model_dump_json(),
        private.generate.screening and hashlib.sha256(private.generate.screening.read_bytes()).hexdigest(),
        private.policy.maximum_thresholds,
        private.target,
        private.weight,
    )
    about = {
        "plan": digest_of(fields_of(work.plan, work.parameters)),
        "software": __version__,
        "table": _digest_of(table, secret),
        "private setting": hashlib.sha256(repr(deciding).encode()).hexdigest(),
    }
    return Checkpoint(open_checkpoint(work.folder / WORKING / name, work.party, about, resume=work.resume))
