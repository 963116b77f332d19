"""Learn a column of the active party from the columns of all owners; nobody shows its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from unpooled.align.handles import RowRules
from unpooled.align.rows import Places
from unpooled.arrays import Bools, Floats
from unpooled.data.columns import fault
from unpooled.data.table import Table
from unpooled.jobs import row_weights
from unpooled.jobs.align import job as align
from unpooled.jobs.learning import model_files, scores
from unpooled.jobs.learning.common import (
    answered_in,
    check_learner,
    checkpoint_of,
    learning_outline,
    open_products,
    ready,
    served,
    team_of,
)
from unpooled.jobs.learning.labels import NO_WEIGHT, Labels, check_columns, drawn_for_test, labels_of, none_weighs
from unpooled.jobs.learning.tuned import choice_outline, chosen_result, result_of
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.row_weights import WeightRules, as_secret, weights_of
from unpooled.jobs.train.filled_target import target_notes
from unpooled.jobs.work import CheckedJob, Work
from unpooled.secure.product import finish
from unpooled.session import Session
from unpooled.tuning import labelled
from unpooled.tuning.candidates import Candidate, candidates_of, stages_of
from unpooled.tuning.folds import too_few
from unpooled.tuning.search import Tuned, help_tune, rest_scope, tune
from unpooled.tuning.settings import ModelTuning
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Fitted
from unpooled.vertical.learners import AnyParameters, default_parameters, learner_of
from unpooled.vertical.resume import Fits, Loans
from unpooled.vertical.stages import Stage, models_in
from unpooled.vertical.targets import SEEDS, Target
from unpooled.vertical.team import Team

_SETS = ("unlabelled", "weight zero", "test", "train")


class Parameters(align.Parameters, RowRules, WeightRules):
    """What training can be told."""

    test_fraction: float = Field(
        0.2,
        description="the fraction of labelled rows set aside to judge the model; with hide_bags only the active party "
        "knows which; "
        "for linear a fraction of all rows, and everybody knows which",
        ge=0,
        lt=1,
    )
    model: AnyParameters = Field(
        default_parameters(),
        description="the learner and its settings: gbdt, with what is below; xgb, likewise; lgb, which has leaves, "
        "top_fraction and other_fraction besides; rf, which has bootstrap instead of learning_rate, patience and "
        "validation_fraction; "
        "or linear, a logistic or linear regression, which has epochs, learning_rate, l2 and others",
    )
    tuning: ModelTuning = Field(
        ModelTuning(),
        description="settings of the model chosen by trying: each candidate is learned once for each fold of the rows "
        "to learn from, and the best one then from all of them",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.model.classes == 1:
            raise ValueError("model.classes: there are two at least, or 0 for a number")
        if self.candidates:
            labelled.measure_of(self.tuning, self.model.classes)
        return self

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """What is tried; empty if nothing is tuned."""
        return candidates_of(self.model, self.tuning)

    @property
    def models_each(self) -> int:
        """How many models a candidate takes."""
        return self.tuning.folds * self.tuning.repeats

    @property
    def stages(self) -> list[Stage]:
        """All that is learned: models of each candidate, then the one that is kept."""
        return stages_of(self.model, self.candidates, self.models_each, [1])


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: align, make ready, then learn together; each owner keeps its own part of the model."""
    plan, parameters, places = work.plan, work.parameters.model, places_of(work.plan, work.parameters)
    if work.table is not None:
        check_columns(work.private, work.table, parameters.classes)
    session.weights["fit"] = groups_of(work.parameters)
    common = align.common_rows(session, work, places)
    counts = weights_of(session, work, common.table) if isinstance(common, align.Common) else None
    with session.scope("fit"):
        engine = open_products(session, work, places, work.parameters.stages)
        if not isinstance(common, align.Common):
            return served(engine, work.private.policy, common, parameters)
    team = team_of(plan, engine, common.digest)
    if session.party == plan.active:
        kept = _keep_model(team, work, common.table, counts)
    else:
        kept = _keep_part(team, work, common.table)
    return common.counts | kept | answered_in(engine)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What training sends; how often depends on the rows, and on how learning goes."""
    places_of(plan, parameters)
    begin, fit, end = learning_outline(plan, parameters.model)
    if parameters.candidates:
        fit = [replace(one, frames=None, bytes=None) for one in fit] + choice_outline(plan, parameters.candidates)
    return align.outline(plan, parameters) + row_weights.outline(plan, parameters) + begin + fit + end


def groups_of(parameters: Parameters) -> list[int]:
    """How many models are learned together, step by step."""
    return models_in(parameters.stages)


def places_of(plan: Plan, parameters: Parameters) -> Places:
    """Who does what in a plan; PlanError if its parties cannot learn together."""
    check_models(plan, parameters, weighted=parameters.weights is not None)
    return align.places_of(plan, parameters)


def check_models(plan: Plan, parameters: Parameters, *, weighted: bool) -> None:
    """Refuse a plan that its learner cannot do with the settings that it has, or is tried with."""
    candidates = parameters.candidates
    for model in [each.parameters for each in candidates] or [parameters.model]:
        check_learner(plan, model, bags=bool(candidates), weighted=weighted)


def check_folds(job: CheckedJob[Parameters], table: Table, labels: Labels, test: Bools | None = None) -> None:
    """Refuse, at the active party, labels that cannot be divided into the folds of a plan; any test set is as large."""
    parameters = job.parameters
    if not parameters.candidates:
        return
    if test is None:
        test = learner_of(parameters.model).shown_test(len(labels.values), parameters.test_fraction)
    if test is None:
        test = drawn_for_test(labels, parameters.test_fraction, np.random.default_rng(1))
    usable = labels.known & (labels.weights > 0) & ~test
    if reason := too_few(labels.values, usable, parameters.tuning.folds, labels.names):
        raise fault(table.party, table.origin, f"{reason} (parameters.tuning.folds)", job.private.target)


def notes_of(parameters: Parameters) -> list[str]:
    """Where settings do not protect as one might think, and what the test rows have had a part in."""
    notes = learner_of(parameters.model).notes(parameters.model, parameters.test_fraction)
    if parameters.test_fraction:
        notes.append(
            "Each party has made its columns ready by all common rows, test rows among them; the labels of these have "
            "had no part in anything."
        )
    return notes


def _keep_model(team: Team, work: Work[Parameters], table: Table, counts: Floats | None) -> dict[str, Any]:
    """At the active party: learn, judge, and keep the model; rows count as told, or all the same."""
    parameters, session = work.parameters.model, team.session
    learner, labels = learner_of(parameters), labels_of(table, work.private, parameters.classes)
    if counts is not None:
        labels = replace(labels, weights=counts)
    columns, preparation = ready(work, table, learner)
    shown = learner.shown_test(len(columns.matrix), work.parameters.test_fraction)
    test = drawn_for_test(labels, work.parameters.test_fraction, session.rng) if shown is None else shown
    weights, seed = np.where(labels.known & ~test, labels.weights, 0.0), int(session.rng.integers(SEEDS))
    if none_weighs(weights):
        reason = f"of the common rows that have a value and are not for the test, {NO_WEIGHT}"
        raise fault(table.party, table.origin, reason, work.private.target)
    check_folds(work, table, labels, test)
    taken = slice(None) if shown is None else ~shown
    with session.scope("fit"):
        fits = Fits(team, parameters, _taken(columns, shown), checkpoint_of(work, table, as_secret(counts)))
        target = Target(labels.values[taken], weights[taken], seed)
        with fits.counting():
            tuned, fitted = _fitted(team, fits, work.parameters, target, labels.names)
        finish(team.products)
    parameters = tuned.best.parameters if tuned else parameters
    found = fitted.scores
    if found is None or shown is not None:
        with session.scope("score"):
            found = tuple(learner.score(team, fitted.model, columns))
    model_files.save(fitted.model, preparation, work.folder)
    sets = np.select([~labels.known, labels.weights == 0, test], _SETS[:-1], _SETS[-1])
    more = {"set": pl.Series(sets), align.LABEL: labels.cells}
    scores.write_predictions(work.folder, table.ids, found[0], labels.names, more)
    warned = target_notes(work.private, table)
    return {
        "learner": parameters.learner,
        "title": learner.title(parameters),
        "classes": parameters.classes,
        "class_names": list(labels.names),
        "parameters": parameters.model_dump(mode="json", exclude_defaults=True),
        **learner.importance(fitted.model.part),
        **fitted.summary,
        **result_of(tuned, work.parameters.models_each),
        **{f"{name.replace(' ', '_')}_rows": int((sets == name).sum()) for name in _SETS},
        **_judged(labels, found[0], sets == "test", sets == "train"),
        "notes": [*warned, *notes_of(work.parameters)],
        "flattered": bool(warned),
        "file": scores.PREDICTIONS,
    }


def _fitted(
    team: Team, fits: Fits, parameters: Parameters, target: Target, names: Sequence[str]
) -> tuple[Tuned | None, Fitted]:
    """At the active party: the best candidate, if the plan has any, and the model with its settings."""
    candidates, tuned = parameters.candidates, None
    if candidates:
        weights = np.ones(len(target.values)) if target.weights is None else target.weights
        folds = labelled.labelled_folds(target.values, weights, names, parameters.tuning, target.seed)
        measure = labelled.measure_of(parameters.tuning, parameters.model.classes)
        tuned = tune(team, fits, candidates, folds, names, measure)
    if not (fitted := fits.kept()):
        with rest_scope(team, len(candidates)):
            fitted = fits.fit([target], names, tuned.best.parameters if tuned else None)
        fits.keep(fitted)
    return tuned, fitted


def _keep_part(team: Team, work: Work[Parameters], table: Table) -> dict[str, Any]:
    """At a passive party: lend columns, and keep this party's part of the model."""
    parameters, session, policy = work.parameters.model, team.session, work.private.policy
    learner, candidates = learner_of(parameters), work.parameters.candidates
    columns, preparation = ready(work, table, learner)
    shown = learner.shown_test(len(columns.matrix), work.parameters.test_fraction)
    checkpoint = checkpoint_of(work, table)
    with session.scope("fit"):
        stages, most = work.parameters.stages, policy.maximum_thresholds
        loans, chosen = Loans(team, stages, _taken(columns, shown), most, checkpoint), 1
    with loans.counting():
        with session.scope("fit"):
            if candidates:
                chosen = help_tune(team, loans, candidates, work.parameters.models_each)
                parameters = candidates[chosen - 1].parameters
            if loans.left or (part := loans.part) is None:
                with rest_scope(team, len(candidates)):
                    part = loans.lend(1, loans.begin(1), parameters)
                loans.keep(part, 1)
            finish(team.products)
        if shown is not None or not learner.scores_in_fit(parameters):
            with session.scope("score"):
                learner.help_score(team, part, columns, True)
    model_files.save(part, preparation, work.folder)
    return learner.importance(part) | chosen_result(candidates, work.parameters.models_each, chosen)


def _taken(columns: Columns, left_out: Bools | None) -> Columns:
    """The rows that are learned from."""
    return columns if left_out is None else Columns(columns.matrix[~left_out], columns.names)


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
