"""Use a model on new rows: each owner of columns brings its part of it, and the active party has the predictions."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import polars as pl

from unpooled.align.rows import Places
from unpooled.arrays import Floats
from unpooled.data.prepare import transform
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.jobs import scores
from unpooled.jobs.align import job as align
from unpooled.jobs.labels import check_columns, known_labels
from unpooled.jobs.learned import AnyPart, AnyWhole
from unpooled.jobs.model_files import check_owners, load_part, load_whole
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.product_outline import answering_limits, rules_of
from unpooled.jobs.train import linear as train_linear
from unpooled.jobs.train import trees
from unpooled.jobs.work import Work, asked_before
from unpooled.secure.engine import Engine, MaskSeed, agreed_seeds
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear import predictor
from unpooled.vertical.linear.model import LinearParts
from unpooled.vertical.team import Team
from unpooled.vertical.trees import predictor as predicting
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.predictor import mean_of
from unpooled.wire import message

_TREES, _LINEAR = "if the model is one of trees", "if the model is a linear one"
_SHOWN, _HIDDEN = "if it is one of trees that hides no nodes", "if it is one of trees that hides nodes"


@message(discloses="whether the model is a linear one or one of trees", to="a passive party")
class ModelKind:
    linear: bool


class Parameters(align.Parameters):
    """What a prediction can be told."""


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: bring the model, align the new rows, score them together."""
    places = align.places_of(work.plan, work.parameters)
    if work.table is None:
        align.common_rows(session, work, places)
        return {}
    if session.party == work.plan.active:
        return _predict(session, work, places, work.table)
    return _help(session, work, places)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What a prediction says; the model says which of the ways to score rows it takes."""
    active, passive = plan.active, plan.with_role("passive")
    said = [Exchange(active, party, ModelKind, 1, 60) for party in passive]
    said += align.outline(plan, parameters)
    for party in passive:
        begin, *shown, end = trees.sorting_outline(active, party, hidden=False)
        hidden = trees.sorting_outline(active, party, hidden=True)[1:-1]
        said += [replace(begin, only_if=_TREES), *(replace(one, only_if=_SHOWN) for one in shown)]
        said += [*(replace(one, only_if=_HIDDEN) for one in hidden), replace(end, only_if=_TREES)]
    said += [Exchange(one, other, MaskSeed, 1, 100, only_if=_LINEAR) for one, other in combinations(passive, 2)]
    for party in passive:
        said += [replace(one, only_if=_LINEAR) for one in train_linear.scoring_outline(active, party)]
    return said


def _predict(session: Session, work: Work[Parameters], places: Places, table: Table) -> dict[str, Any]:
    """At the active party: score the new rows, and judge that if the truth is there."""
    model, preparation = load_whole(work.private, work.party)
    check_owners(work.plan, model)
    private = _judging(work.private, table)
    check_columns(private, table.kinds, work.party, table.origin, model.parameters.classes)
    with session.scope("score"):
        for party in work.plan.with_role("passive"):
            session.send(party, ModelKind(not isinstance(model, Model)))
    common = align.common_rows(session, work, places)
    if not isinstance(common, align.Common):
        return {}
    prepared = transform(preparation, common.table)
    if not isinstance(model, Model):
        train_linear.check_complete(common.table, Columns(prepared.matrix, prepared.names))
    with session.scope("score"):
        team = _team(session, work, common)
        if isinstance(model, Model):
            found = mean_of(predicting.scores(team, model, prepared.matrix))
        else:
            found = train_linear.scores(team, model, prepared.matrix)
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
    """At a passive party: say on which side of its splits the new rows fall, or what its columns add to scores."""
    part, preparation = load_part(work.private, work.party)
    with session.scope("score"):
        _check_kind(session, work, part)
    common = align.common_rows(session, work, places)
    if not isinstance(common, align.Common):
        return {}
    prepared = transform(preparation, common.table)
    if not isinstance(part, Part):
        train_linear.check_complete(common.table, Columns(prepared.matrix, prepared.names))
    team = _team(session, work, common)
    with session.scope("score"), asked_before(work).counting(team.products, team.digest):
        if isinstance(part, Part):
            predicting.help_predict(team, part, prepared.matrix)
        else:
            team.products.mask_seeds = agreed_seeds(session, team.passive)
            parts = part.parts if isinstance(part, LinearParts) else (part,)
            predictor.help_predict_many(team, parts, prepared.matrix)
    return common.counts | {"unseen": prepared.unseen, "file": align.ALIGNED}


def _check_kind(session: Session, work: Work[Parameters], part: AnyPart) -> None:
    """Refuse to begin with a part of another kind of model: the two would wait for different messages."""
    active, linear = work.plan.active, not isinstance(part, Part)
    if session.recv(active, ModelKind).linear != linear:
        mine, other = ("a linear model", "one of trees") if linear else ("a model of trees", "a linear one")
        raise InputError(f"{work.party}: {work.private.model}: this is a part of {mine}, and {active} has {other}")


def _team(session: Session, work: Work[Parameters], common: align.Common) -> Team:
    """Scoring rows takes no products, so nothing is opened."""
    plan = work.plan
    limits = answering_limits(work.private.policy)
    engine = Engine(session, rules_of(plan), plan.owners, plan.active, None, *limits)
    return Team(plan.active, plan.owners, engine, common.digest)


def _judging(private: Private, table: Table) -> Private:
    """The settings without a target and weights that the new rows do not have."""
    absent = {key: None for key in ("target", "weight") if getattr(private, key) not in table.kinds}
    return private.model_copy(update=absent)


def _judged(
    table: Table, private: Private, model: AnyWhole, found: Floats
) -> tuple[dict[str, pl.Series], dict[str, Any]]:
    """The labels and how good the predictions are, if the truth is there; labels unknown to the model are counted."""
    if private.target is None:
        return {}, {}
    labels = known_labels(table, private, model.classes)
    strange = int((labels.cells.is_not_null().to_numpy() & ~labels.known).sum())
    figures = scores.metrics_of(labels, found, labels.known)
    return {align.LABEL: labels.cells}, {"metrics": {"new": figures} if figures else {}, "unknown_labels": strange}
