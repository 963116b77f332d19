"""Learn a column of the active party from the columns of all owners; nobody shows its table."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
import polars as pl
from pydantic import Discriminator, Field, Tag, model_validator

from unpooled.align.rows import Places
from unpooled.arrays import Bools, Floats
from unpooled.data.prepare import Preparation, transform
from unpooled.data.prepare import fit as fit_preparation
from unpooled.data.table import Table
from unpooled.jobs import model_files, scores
from unpooled.jobs.align import job as align
from unpooled.jobs.labels import Labels, check_columns, features_of, labels_of
from unpooled.jobs.learned import Learned, Lent
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.product_outline import (
    answered_in,
    answering_limits,
    rules_of,
    served,
    waiting_for_end,
    waiting_outline,
)
from unpooled.jobs.train import linear as train_linear
from unpooled.jobs.train import trees
from unpooled.jobs.work import Work, asked_before, evidence_for
from unpooled.secure.engine import open_engine
from unpooled.session import Session
from unpooled.settings import tag_by
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.team import Team
from unpooled.vertical.trees.parameters import (
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
    questions_of,
)

_SETS = ("unlabelled", "weight zero", "test", "train")


AnyModel = Annotated[
    Annotated[GbdtParameters, Tag("[gbdt]")]
    | Annotated[XgbParameters, Tag("[xgb]")]
    | Annotated[LgbParameters, Tag("[lgb]")]
    | Annotated[ForestParameters, Tag("[rf]")]
    | Annotated[LinearParameters, Tag("[linear]")],
    Discriminator(
        tag_by("learner", default="gbdt"),
        custom_error_type="learner",
        custom_error_message="must be a table, its learner 'gbdt', 'xgb', 'lgb', 'rf' or 'linear'",
    ),
]


class Parameters(align.Parameters):
    """What training can be told."""

    test_share: float = Field(
        0.2,
        description="the share of labelled rows set aside to judge the model; with hide_bags nobody else knows which; "
        "for linear a share of all rows, and everybody knows which",
        ge=0,
        lt=1,
    )
    model: AnyModel = Field(
        GbdtParameters(),
        description="the learner and its settings: gbdt, with what is below; xgb, likewise; lgb, which has leaves, "
        "top_share and other_share besides; rf, which has bootstrap instead of rate, patience and validation_share; "
        "or linear, a logistic or linear regression, which has epochs, rate, l2 and others",
    )

    @model_validator(mode="after")
    def _two_classes_at_least(self) -> Self:
        if self.model.classes == 1:
            raise ValueError("model.classes: there are two at least, or 0 for a number")
        return self


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: align, make ready, then learn together; each owner keeps its own part of the model."""
    plan, parameters, places = work.plan, work.parameters.model, places_of(work.plan, work.parameters)
    if work.table is not None and session.party == plan.active:
        check_columns(work.private, work.table.kinds, work.party, work.table.origin, parameters.classes)
    common = align.common_rows(session, work, places)
    asked = asked_before(work)
    with session.scope("fit"):
        questions, limits = _questions(work.parameters), answering_limits(work.private.policy)
        if questions is not None:  # a run that is resumed begins anew, and what it had asked counts
            questions += max(asked.counts["answered"].values(), default=0)
        rules = rules_of(plan, questions)
        engine = open_engine(session, rules, plan.owners, plan.active, places.coordinator, *limits, evidence_for(work))
        if not isinstance(common, align.Common):
            return served(engine, work.private.policy, common, parameters.classes)
    team = Team(plan.active, plan.owners, engine, common.digest, waiting_for_end(plan))
    keep = _keep_model if session.party == plan.active else _keep_part
    with asked.counting(engine, common.digest):
        kept = keep(team, work, common.table)
    return common.counts | kept | answered_in(engine)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What training says; how often depends on the rows, and on how learning goes."""
    places_of(plan, parameters)
    model, said = parameters.model, align.outline(plan, parameters) + waiting_outline(plan)
    if isinstance(model, LinearParameters):
        return said + train_linear.outline(plan, model)
    return said + trees.outline(plan, model)


def places_of(plan: Plan, parameters: Parameters) -> Places:
    """Who does what in a plan; PlanError if its parties cannot learn together."""
    if isinstance(parameters.model, LinearParameters):
        train_linear.check_plan(plan, parameters.model)
    return align.places_of(plan, parameters)


def notes_of(parameters: Parameters) -> list[str]:
    """Where settings do not protect as one might think, and what the test rows have had a part in."""
    model, share = parameters.model, parameters.test_share
    linear = isinstance(model, LinearParameters)
    notes = train_linear.notes_of(model, share) if isinstance(model, LinearParameters) else trees.notes_of(model)
    if share:
        notes.append(
            f"Each party has made its columns ready{'' if linear else ', and chosen bins,'} by all common rows, test "
            "rows among them; the labels of these have had no part in anything."
        )
    return notes


def _questions(parameters: Parameters) -> int | None:
    """How many columns may be asked about the same rows; a linear learner says it later, when it knows all columns."""
    return None if isinstance(parameters.model, LinearParameters) else questions_of(parameters.model)


def _learn(team: Team, parameters: Parameters, columns: Columns, labels: Labels) -> Learned:
    model, share = parameters.model, parameters.test_share
    if isinstance(model, LinearParameters):
        return train_linear.learn(team, model, columns, labels, share)
    return trees.learn(team, model, columns, labels, share)


def _lend(team: Team, parameters: Parameters, columns: Columns, maximum_thresholds: int | None) -> Lent:
    model = parameters.model
    if isinstance(model, LinearParameters):
        return train_linear.lend(team, model, columns, parameters.test_share)
    return trees.lend(team, model, columns, maximum_thresholds)


def _keep_model(team: Team, work: Work[Parameters], table: Table) -> dict[str, Any]:
    """At the active party: learn, judge, and keep the model."""
    parameters = work.parameters.model
    labels = labels_of(table, work.private, parameters.classes)
    columns, preparation = _ready(work, table)
    learned = _learn(team, work.parameters, columns, labels)
    model_files.save(learned.model, preparation, work.folder)
    sets = np.select([~labels.known, labels.weights == 0, learned.test], _SETS[:-1], _SETS[-1])
    more = {"set": pl.Series(sets), align.LABEL: labels.cells}
    scores.write_predictions(work.folder, table.ids, learned.scores, labels.names, more)
    return {
        "learner": parameters.learner,
        "classes": parameters.classes,
        "class_names": list(labels.names),
        "parameters": parameters.model_dump(mode="json", exclude_defaults=True),
        **learned.result,
        **{f"{name.replace(' ', '_')}_rows": int((sets == name).sum()) for name in _SETS},
        **_judged(labels, learned.scores, sets == "test", sets == "train"),
        "notes": notes_of(work.parameters),
        "file": scores.PREDICTIONS,
    }


def _keep_part(team: Team, work: Work[Parameters], table: Table) -> dict[str, Any]:
    """At a passive party: lend columns, and keep this party's part of the model."""
    columns, preparation = _ready(work, table)
    lent = _lend(team, work.parameters, columns, work.private.policy.maximum_thresholds)
    model_files.save(lent.part, preparation, work.folder)
    return lent.result


def _ready(work: Work[Parameters], table: Table) -> tuple[Columns, Preparation]:
    """A party's own columns of the common rows as numbers, and how they came about."""
    features = features_of(table, work.private)
    preparation = fit_preparation(features, work.private.prepare)
    prepared = transform(preparation, features)
    columns = Columns(prepared.matrix, prepared.names)
    if isinstance(work.parameters.model, LinearParameters):
        train_linear.check_complete(table, columns)
    return columns, preparation


def _judged(labels: Labels, found: Floats, test: Bools, train: Bools) -> dict[str, Any]:
    """How good the scores are, on test rows and, for comparison, on those that were learned from."""
    by_set = {"test": scores.metrics_of(labels, found, test), "train": scores.metrics_of(labels, found, train)}
    drawn = {
        "curves": scores.curves_of(labels, found, test),
        "calibration": scores.calibration_of(labels, found, test),
    }
    return {"metrics": {name: figures for name, figures in by_set.items() if figures}} | {
        name: drawing for name, drawing in drawn.items() if drawing
    }
