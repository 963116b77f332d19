"""Learn a column of the active party from the columns of all owners, with trees; nobody shows its table."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
from pydantic import Discriminator, Field, Tag, model_validator

from unpooled.align.rows import Places
from unpooled.codec import Bools, Floats
from unpooled.data.prepare import Preparation, transform
from unpooled.data.prepare import fit as fit_preparation
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.jobs import align, saved, scores
from unpooled.jobs.labels import Labels, check_columns, drawn_for_test, features_of, labels_of
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.rules import check_engine, products_outline, rules_of
from unpooled.jobs.work import Work
from unpooled.secure.engine import open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical import messages, predicting, trees
from unpooled.vertical.model import Model, Part
from unpooled.vertical.parameters import (
    AnyTrees,
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
    outputs_of,
    questions_of,
)
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team

_SEEDS = 2**63
_OF_KNOWN_NODES: tuple[type, type, type] = (messages.Level, messages.Open, messages.Opened)
_OF_HIDDEN_NODES: tuple[type, type, type] = (messages.HiddenLevel, messages.OpenForAll, messages.OpenedForAll)
_SETS = ("unlabelled", "weight zero", "test", "train")


def _tag_of(model: Any) -> str:
    """The learner that settings are for; a tag in brackets is no part of the key that errors name."""
    learner = model.get("learner", "gbdt") if isinstance(model, Mapping) else getattr(model, "learner", "")
    return f"[{learner}]"


AnyModel = Annotated[
    Annotated[GbdtParameters, Tag("[gbdt]")]
    | Annotated[XgbParameters, Tag("[xgb]")]
    | Annotated[LgbParameters, Tag("[lgb]")]
    | Annotated[ForestParameters, Tag("[rf]")],
    Discriminator(
        _tag_of,
        custom_error_type="learner",
        custom_error_message="must be a table, its learner 'gbdt', 'xgb', 'lgb' or 'rf'",
    ),
]


class Parameters(align.Parameters):
    """What training can be told."""

    test_share: float = Field(
        0.2,
        description="the share of labelled rows set aside to judge the model; with hide_bags nobody else knows which",
        ge=0,
        lt=1,
    )
    model: AnyModel = Field(
        GbdtParameters(),
        description="the learner and its settings: gbdt, with what is below; xgb, likewise; lgb, which has leaves, "
        "top_share and other_share besides; or rf, which has bootstrap instead of rate, patience and validation_share",
    )

    @model_validator(mode="after")
    def _two_classes_at_least(self) -> Self:
        if self.model.classes == 1:
            raise ValueError("model.classes: there are two at least, or 0 for a number")
        return self


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: align, make ready, then grow trees together; each owner keeps its own part of the model."""
    plan, parameters, places = work.plan, work.parameters.model, places_of(work.plan, work.parameters)
    if work.table is not None and session.party == plan.active:
        check_columns(work.private, work.table.kinds, work.party, work.table.origin, parameters.classes)
    common = align.common_rows(session, work, places)
    with session.scope("fit"):
        rules, most = rules_of(plan, questions_of(parameters)), work.private.policy.maximum_questions
        engine = open_engine(session, rules, plan.owners, plan.active, places.coordinator, most)
        if common is None:
            serve(engine)
            return {}
    team = Team(plan.active, plan.owners, engine, common.digest)
    learned = _learn(team, work, common.table) if session.party == plan.active else _lend(team, work, common.table)
    return common.counts | learned


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What training says; how often depends on the rows, and on how the trees grow."""
    places_of(plan, parameters)
    model, active = parameters.model, plan.active
    groups = _groups_of(model)
    brief = groups and 150 * groups
    said = [*align.outline(plan, parameters), *products_outline(plan, hidden_nodes=model.hide_nodes)]
    looked, asked, opened = _OF_HIDDEN_NODES if model.hide_nodes else _OF_KNOWN_NODES
    for party in plan.with_role("passive"):
        said += [Exchange(party, active, messages.LentColumns, 1), Exchange(active, party, messages.Begin, 1, 100)]
        said.append(Exchange(active, party, messages.Trees, groups, brief))
        if not model.hide_bags:
            said.append(Exchange(active, party, messages.Bags, groups))
        said.append(Exchange(active, party, looked))
        if model.min_rows > 1 and not model.hide_nodes:
            said.append(Exchange(party, active, messages.Merged))
        said += [Exchange(active, party, asked), Exchange(party, active, opened)]
        said.append(Exchange(active, party, messages.Grown, groups, brief))
        said.append(Exchange(active, party, messages.Finished, 1, 50))
        if not model.hide_bags:
            said += sorting_outline(active, party, model.hide_nodes)
    return said


def sorting_outline(active: str, party: str, hidden: bool, only_if: str = "") -> list[Exchange]:
    """What is said with a passive party when rows are sorted by grown trees."""
    there, back = (messages.Needed, messages.AllSides) if hidden else (messages.Reached, messages.Sides)
    return [
        Exchange(active, party, messages.Sort, 1, 100),
        Exchange(active, party, there, only_if=only_if),
        Exchange(party, active, back, only_if=only_if),
        Exchange(active, party, messages.Sorted, 1, 50),
    ]


def places_of(plan: Plan, parameters: align.Parameters) -> Places:
    """Who does what in a plan; PlanError if its parties cannot learn together."""
    check_owners_only(plan)
    check_engine(plan)
    return align.places_of(plan, parameters)


def check_owners_only(plan: Plan) -> None:
    """Refuse a plan with a seeker, or with nobody to learn with."""
    if plan.with_role("seeker"):
        raise PlanError(f"parties: {plan.kind} has no seeker: labels are a column of the active party")
    if not plan.with_role("passive"):
        raise PlanError(f"parties: {plan.kind} takes a passive party at least, besides the active one")


def notes_of(parameters: Parameters) -> list[str]:
    """Where min_rows does not protect as one might think, and what the test rows have had a part in."""
    model, notes = parameters.model, []
    if model.hide_nodes:
        notes.append(
            "min_rows has no force, since with hide_nodes a passive party does not see which rows a node has: "
            "sums may be over a single row."
        )
    elif model.min_rows == 1:
        notes.append("min_rows is 1, so sums may be over a single row.")
    else:
        if model.hide_bags:
            notes.append(
                "min_rows counts all rows of a node, also those of weight zero: test rows, rows without a label, and "
                "rows not drawn for a tree. Fewer rows may count in a sum that is shown."
            )
        if model.bundle:
            notes.append(
                "min_rows has no force for columns that share bins (bundle): the sum over the rows in which none of "
                "them stands out is shown, however few these are."
            )
    if not model.hide_bags:
        notes.append(
            "With hide_bags = false the passive parties have seen which rows take part in each tree, and so which were "
            "set aside as a test or have no label."
        )
    if parameters.test_share:
        notes.append(
            "Each party has made its columns ready, and chosen bins, by all common rows, test rows among them; the "
            "labels of these have had no part in anything."
        )
    return notes


def _groups_of(model: AnyTrees) -> int | None:
    """How many groups of trees grow one after the other; None where that shows only as they do."""
    if isinstance(model, ForestParameters):
        return ceil(model.trees / model.lockstep)
    return None if model.patience is not None else ceil(outputs_of(model) / model.lockstep) * model.trees


def _learn(team: Team, work: Work[Parameters], table: Table) -> dict[str, Any]:
    """At the active party: fit, judge, and keep the model."""
    session, parameters = team.session, work.parameters.model
    labels = labels_of(table, work.private, parameters.classes)
    test = drawn_for_test(labels, work.parameters.test_share, session.rng)
    seed = int(session.rng.integers(_SEEDS))
    target = Target(labels.values, np.where(labels.known & ~test, labels.weights, 0.0), seed)
    columns, preparation = _ready(work, table)
    with session.scope("fit"):
        fitted = trees.fit(team, parameters, columns, [target], labels.names)
        finish(team.products)
    found = fitted.scores[0]
    if not parameters.hide_bags:  # rows of weight zero were left out, and have no scores yet
        with session.scope("score"):
            found = predicting.scores(team, fitted.model, columns.matrix)[0]
    saved.save(fitted.model, preparation, work.folder)
    sets = np.select([~labels.known, labels.weights == 0, test], _SETS[:-1], _SETS[-1])
    more = {"set": pl.Series(sets), align.LABEL: labels.cells}
    scores.write_predictions(work.folder, table.ids, found, labels.names, more)
    return {
        **_own(team, fitted.model.part),
        **_grown(fitted.model),
        **{f"{name.replace(' ', '_')}_rows": int((sets == name).sum()) for name in _SETS},
        **_judged(labels, found, sets == "test", sets == "train"),
        "notes": notes_of(work.parameters),
        "file": scores.PREDICTIONS,
    }


def _lend(team: Team, work: Work[Parameters], table: Table) -> dict[str, Any]:
    """At a passive party: lend columns, and keep this party's part of the model."""
    session, parameters = team.session, work.parameters.model
    columns, preparation = _ready(work, table)
    with session.scope("fit"):
        part = trees.help_fit(team, parameters, columns, work.private.policy.maximum_thresholds)
        finish(team.products)
    if not parameters.hide_bags:
        with session.scope("score"):
            predicting.help_predict(team, part, columns.matrix)
    saved.save(part, preparation, work.folder)
    return _own(team, part)


def _ready(work: Work[Parameters], table: Table) -> tuple[trees.Columns, Preparation]:
    """A party's own columns of the common rows as numbers, and how they came about."""
    features = features_of(table, work.private)
    preparation = fit_preparation(features, work.private.prepare)
    prepared = transform(preparation, features)
    return trees.Columns(prepared.matrix, prepared.names), preparation


def _own(team: Team, part: Part) -> dict[str, Any]:
    """What each owner says of its own columns; those that were split most come first."""
    importance = [{"name": name, **counts} for name, counts in part.importance.items()]
    return {
        "columns": len(part.binning.features),
        "importance": sorted(importance, key=lambda column: (-column["rows"], column["name"])),
        "thresholds": len({(feature, place) for feature, place, _ in part.splits}),
        "questions": sum(team.products.answered.values()),
    }


def _grown(model: Model) -> dict[str, Any]:
    """What the active party says of the model."""
    parameters, ensemble = model.parameters, model.ensembles[0]
    own = zip(model.part.binning.features, ensemble.gains[model.own_place], strict=True)
    gains = [{"name": feature.name, "gain": gain} for feature, gain in own]
    return {
        "learner": parameters.learner,
        "classes": parameters.classes,
        "class_names": list(model.classes),
        "trees": len(ensemble.trees),
        "parameters": parameters.model_dump(mode="json", exclude_defaults=True),
        "gain_by_party": {owner: sum(gains) for owner, gains in zip(model.owners, ensemble.gains, strict=True)},
        "own_gains": sorted(gains, key=lambda column: (-column["gain"], column["name"])),
    }


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
