"""Use a model on new rows: each owner of columns brings its part of it, and the active party has the predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from unpooled.align.handles import RowRules
from unpooled.arrays import Floats, Ints
from unpooled.data.prepare import transform
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.jobs.align import job as align
from unpooled.jobs.learning import explaining, scores
from unpooled.jobs.learning.common import answering_limits, columns_of, rules_of, setup_of
from unpooled.jobs.learning.labels import check_columns, known_labels
from unpooled.jobs.learning.model_files import check_owners, load
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob, Work, asked_before, disk_for
from unpooled.secure.engine import Engine
from unpooled.session import Session
from unpooled.vertical import learners
from unpooled.vertical.learner import Learner, Model
from unpooled.vertical.learners import learner_named
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.team import Team
from unpooled.wire import message


@message(discloses="which learner made the model", to="a passive party")
class ModelLearner:
    name: str


class Parameters(align.Parameters, RowRules, explaining.ExplainRules):
    """What a prediction can be told."""


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: bring the model, align the new rows, score them together."""
    places, party, table = align.places_of(work.plan, work.parameters), work.party, work.table
    if table is None:
        align.common_rows(session, work, places)
        return {}
    active = party == work.plan.active
    kept, preparation = load(work.private, party, active=active)
    learner = learner_named(kept.learner)
    if active:
        check_owners(work.plan, kept)
        check_table(work, table)
    with session.scope("score"):
        _agree_on_learner(session, work, learner)
    common = align.common_rows(session, work, places)
    if not isinstance(common, align.Common):
        return {}
    prepared = transform(preparation, common.table, disk_for(work))
    columns, team = columns_of(prepared, common.table, learner), _team(session, work, common)
    most, explained = work.parameters.explain, dict[str, Any]()
    rows = explaining.OwnRows(common.table, preparation, columns)
    if active:
        with session.scope("score"):
            found = mean_of_models(learner.score(team, kept, columns))
        if most:
            explained = explaining.explain(team, work, rows, kept, *_highest(found, most))
        result = _result(work, common.table, kept, found)
    else:
        asked = asked_before(work)
        with session.scope("score"), asked.counting(team.products, team.digest):
            learner.help_score(team, kept, columns, False)
        if most:
            explained = explaining.help_explain(team, work, rows, kept, most, asked)
        result = {"file": align.ALIGNED}
    return common.counts | {"unseen": prepared.unseen} | result | explained


def check_table(job: CheckedJob[Parameters], table: Table) -> None:
    """Refuse a target or weights of the active party that cannot judge the model's predictions."""
    if job.party == job.plan.active:
        model, _ = load(job.private, job.party, active=True)
        check_columns(_judging(job.private, table), table, model.parameters.classes)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What a prediction says; the model says which of the ways to score rows it takes."""
    said = [Exchange(plan.active, party, ModelLearner, 1, 60) for party in plan.with_role("passive")]
    said += align.outline(plan, parameters)
    for learner in learners.LEARNERS:
        condition = f"if the model is of {learner.models}"
        for one in learner.score_outline(setup_of(plan)):
            said.append(replace(one, only_if=f"{condition} {one.only_if}".rstrip()))
    return said + explaining.outline(plan, parameters)


def _highest(found: Floats, most: int) -> tuple[Ints, Ints]:
    """The rows with the highest scores, of several classes each by its most probable one; and which that is."""
    first = np.argsort(-found.max(axis=1), kind="stable")[:most]
    return first, found[first].argmax(axis=1)


def _agree_on_learner(session: Session, work: Work[Parameters], learner: Learner) -> None:
    """Refuse to begin with a part of another learner's model: the two would wait for different messages."""
    active = work.plan.active
    if session.party == active:
        for party in work.plan.with_role("passive"):
            session.send(party, ModelLearner(learner.name))
    elif session.recv(active, ModelLearner).name != learner.name:
        raise InputError(
            f"{work.party}: {work.private.model}: this is a part of {learner.models}, and {active} predicts with "
            "another learner"
        )


def _result(work: Work[Parameters], table: Table, model: Model, found: Floats) -> dict[str, Any]:
    """At the active party: write the predictions, and judge them if the truth is there."""
    truth, judged = _judged(table, _judging(work.private, table), model, found)
    scores.write_predictions(work.folder, table.ids, found, model.classes, truth)
    return {
        "learner": model.parameters.learner,
        "classes": model.parameters.classes,
        "class_names": list(model.classes),
        "scores": {"histogram": scores.histogram_of(found, model.classes)},
        **judged,
        "file": scores.PREDICTIONS,
    }


def _team(session: Session, work: Work[Parameters], common: align.Common) -> Team:
    """Scoring rows takes no products, so nothing is opened."""
    plan = work.plan
    limits = answering_limits(work.private.policy)
    engine = Engine(session, rules_of(plan), plan.owners, plan.active, None, *limits, spending=work.spending)
    return Team(plan.active, plan.owners, engine, common.digest)


def _judging(private: Private, table: Table) -> Private:
    """The settings without a target and weights that the new rows do not have."""
    absent = {key: None for key in ("target", "weight") if getattr(private, key) not in table.kinds}
    return private.model_copy(update=absent)


def _judged(table: Table, private: Private, model: Model, found: Floats) -> tuple[dict[str, pl.Series], dict[str, Any]]:
    """The labels and how good the predictions are, if the truth is there; labels unknown to the model are counted."""
    if private.target is None:
        return {}, {}
    labels = known_labels(table, private, model.classes)
    strange = int((labels.cells.is_not_null().to_numpy() & ~labels.known).sum())
    figures = scores.metrics_of(labels, found, labels.known)
    return {align.LABEL: labels.cells}, {"metrics": {"new": figures} if figures else {}, "unknown_labels": strange}
