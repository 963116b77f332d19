"""Use a model on new rows: each owner of columns brings its part of it, and the active party has the predictions."""

from __future__ import annotations

from typing import Any

import polars as pl

from unpooled.align.rows import Places
from unpooled.codec import Floats
from unpooled.data.prepare import transform
from unpooled.data.table import Table
from unpooled.jobs import align, scores
from unpooled.jobs.labels import check_columns, known_labels
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.rules import rules_of
from unpooled.jobs.saved import check_owners, load_part
from unpooled.jobs.train import check_owners_only, sorting_outline
from unpooled.jobs.work import Work
from unpooled.secure.engine import Engine
from unpooled.session import Session
from unpooled.vertical import predicting
from unpooled.vertical.model import Model, Part
from unpooled.vertical.team import Team


class Parameters(align.Parameters):
    """What a prediction can be told."""


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: bring the model, align the new rows, sort them by the trees."""
    places = places_of(work.plan, work.parameters)
    if work.table is None:
        align.common_rows(session, work, places)
        return {}
    if session.party == work.plan.active:
        return _predict(session, work, places, work.table)
    return _help(session, work, places)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What a prediction says; which way of sorting rows it takes, the model says."""
    places_of(plan, parameters)
    said = align.outline(plan, parameters)
    for party in plan.with_role("passive"):
        begin, *shown, end = sorting_outline(plan.active, party, False, "unless the model hides nodes")
        hidden = sorting_outline(plan.active, party, True, "if the model hides nodes")[1:-1]
        said += [begin, *shown, *hidden, end]
    return said


def places_of(plan: Plan, parameters: Parameters) -> Places:
    """Who does what in a plan; PlanError if its parties cannot predict together."""
    check_owners_only(plan)
    return align.places_of(plan, parameters)


def _predict(session: Session, work: Work[Parameters], places: Places, table: Table) -> dict[str, Any]:
    """At the active party: score the new rows, and judge that if the truth is there."""
    model, preparation = load_part(work.private, work.party, Model)
    check_owners(work.plan, model)
    private = _judging(work.private, table)
    check_columns(private, table.kinds, work.party, table.origin, model.parameters.classes)
    common = align.common_rows(session, work, places)
    if common is None:
        return {}
    prepared = transform(preparation, common.table)
    with session.scope("score"):
        found = predicting.scores(_team(session, work, common), model, prepared.matrix)[0]
    truth, judged = _judged(common.table, private, model, found)
    scores.write_predictions(work.folder, common.table.ids, found, model.classes, truth)
    return {
        **common.counts,
        "learner": model.parameters.learner,
        "classes": model.parameters.classes,
        "class_names": list(model.classes),
        "scores": {"histogram": scores.histogram_of(found, model.classes)},
        **judged,
        "unseen": prepared.unseen,
        "file": scores.PREDICTIONS,
    }


def _help(session: Session, work: Work[Parameters], places: Places) -> dict[str, Any]:
    """At a passive party: say on which side of its splits the new rows fall."""
    part, preparation = load_part(work.private, work.party, Part)
    common = align.common_rows(session, work, places)
    if common is None:
        return {}
    prepared = transform(preparation, common.table)
    with session.scope("score"):
        predicting.help_predict(_team(session, work, common), part, prepared.matrix)
    return common.counts | {"unseen": prepared.unseen, "file": align.ALIGNED}


def _team(session: Session, work: Work[Parameters], common: align.Common) -> Team:
    """Sorting rows takes no products, so nothing is opened."""
    plan = work.plan
    engine = Engine(session, rules_of(plan), plan.owners, plan.active, None)
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
