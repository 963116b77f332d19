"""Complete a table: the active party's columns, predicted or generated for all people of the passive parties.

1. align: the rows that all owners have; the passive parties' other rows get handles (`align.other_rows`)
2. screen: which columns can be predicted (`choosing`)
3. predict these (`complete.federated`)
4. activations: passive parties send some of all rows, if the plan says so (`activating`)
5. generate the other columns at the active party alone, and write the table (`complete.table`)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unpooled.align.other_rows import ExtendedRows, help_keep_other_rows, keep_other_rows, learn_other_rows
from unpooled.align.rows import Aligned, Places
from unpooled.complete.federated import help_predict_columns, predict_columns
from unpooled.complete.outline import association_outline, completing_outline
from unpooled.complete.screening import Measure
from unpooled.complete.table import complete_table
from unpooled.complete.variables import variables_of
from unpooled.complete.vf_gain.outline import activations_outline
from unpooled.jobs.align import job as align
from unpooled.jobs.complete import table_files
from unpooled.jobs.complete.activating import gather, lend, sent_in
from unpooled.jobs.complete.checks import check_common, check_files, check_table
from unpooled.jobs.complete.choosing import AssociationsNeeded, choose, help_choose
from unpooled.jobs.complete.figures import completed_figures, warn_of_few
from unpooled.jobs.complete.lent import lent_importance, lent_limits
from unpooled.jobs.complete.parameters import Parameters, groups_of
from unpooled.jobs.learning.common import (
    answered_in,
    check_learner,
    checkpoint_of,
    open_products,
    ready,
    served,
    setup_of,
    team_of,
    waiting_in,
)
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.work import Work
from unpooled.networks.watching import told
from unpooled.secure.engine import Engine
from unpooled.secure.product import finish
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learners import learner_of
from unpooled.vertical.stages import stage
from unpooled.vertical.targets import SEEDS

_SCREENING = "screening"


@dataclass(frozen=True, eq=False)
class _Rows:
    """An owner's rows: the common ones, those that the active party lacks behind them, and the engine for both."""

    common: align.Common
    extended: ExtendedRows
    engine: Engine


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: align, screen, predict; the active party generates the rest and writes the table."""
    work = replace(work, plan=unaudited(work.plan))
    parameters, places = work.parameters, align.places_of(work.plan, work.parameters)
    check_files(work)
    if work.table is not None:
        check_table(work, work.table)
    common = align.common_rows(session, work, places)
    with session.scope("align"):
        extended = _other_rows(session, work, places, common)
    with session.scope("screen"):
        engine = open_products(session, work, places, [stage(parameters.widest, groups_of(parameters))])
        if not isinstance(common, align.Common) or extended is None:
            return served(engine, work.private.policy, None, parameters.model)
    rows = _Rows(common, extended, engine)
    found = _complete(session, work, rows) if session.party == places.active else _lend(session, work, rows)
    return common.counts | {"others": extended.others} | found | answered_in(engine)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What completing a table sends; how often depends on the rows, and on how learning goes."""
    plan = unaudited(plan)
    places, setup = align.places_of(plan, parameters), setup_of(plan)
    align.method_of(plan, parameters)
    check_learner(plan, parameters.widest, bags=True)
    measure: Measure | None = "gain" if parameters.screens_by_gain else None
    associations: list[Exchange] = []
    if parameters.association:
        associations += [Exchange(setup.active, party, AssociationsNeeded, 1, 60) for party in setup.passive]
        associations += association_outline(setup, parameters.association)
    activations = activations_outline(setup) if parameters.activations else []
    return completing_outline(
        places,
        parameters.psi,
        setup,
        parameters.model,
        measure,
        before_screening=associations,
        after_predicting=activations,
        screening_checkpoints=True,
        waiting=waiting_in(plan),
    )


def unaudited(plan: Plan) -> Plan:
    """The plan without evidence for audits: which learner a fit had follows from columns that are nobody else's."""
    return plan.model_copy(update={"audit": False})


def _other_rows(
    session: Session, work: Work[Parameters], places: Places, common: align.Common | int | None
) -> ExtendedRows | None:
    method, limits = align.method_of(work.plan, work.parameters), align.limits_of(work)
    if not isinstance(common, align.Common) or work.table is None:
        help_keep_other_rows(session, places, method, limits)
        return None
    aligned = Aligned(common.rows, common.digest)
    if session.party != places.active:
        least = work.private.policy.minimum_rows
        return keep_other_rows(session, places, work.table, aligned, method, limits, least)
    extended = learn_other_rows(session, places, aligned, limits.most_peer_ids)
    check_common(work, common.table, None, extended.others)
    return extended


def _complete(session: Session, work: Work[Parameters], rows: _Rows) -> dict[str, Any]:
    """At the active party: screen, predict, generate, write."""
    parameters, settings = work.parameters, work.private.generate
    table, extended = rows.common.table, rows.extended
    screen_seed, predict_seed, generate_seed = (int(seed) for seed in session.rng.integers(SEEDS, size=3))
    checkpoint = checkpoint_of(work, table)  # first of all: it refuses whatever has changed
    with session.scope("screen"):
        kept = checkpoint_of(work, table, name=_SCREENING) if parameters.screens_by_gain else None
        choice = choose(team_of(work.plan, rows.engine, rows.common.digest), work, table, screen_seed, kept)
    count = extended.common + extended.others
    with session.scope("predict"):
        by_name = {one.name: one for one in variables_of(table, count, parameters.most_classes)}
        predicted = predict_columns(
            team_of(work.plan, rows.engine, extended.digest),
            parameters.model,
            Columns(np.empty((count, 0)), ()),
            [by_name[name] for name in choice.columns],
            parameters.predict,
            predict_seed,
            checkpoint=checkpoint,
        )
    activations = gather(team_of(work.plan, rows.engine, rows.common.digest), work, table, extended, choice.columns)
    with session.scope("predict"):
        finish(rows.engine)
    with session.scope("generate"):
        session.progress(0, 1)
        handles = extended.handles

        def show(what: str, done: int, total: int) -> None:
            with session.scope(what):
                session.progress(done, total)

        with told(show):
            done = complete_table(
                table,
                handles,
                predicted.predictions,
                settings.completer,
                np.random.default_rng(generate_seed),
                groups=[(group.columns, group.completer) for group in settings.groups],
                draws=settings.draws,
                least_confidence=settings.least_confidence,
                further=activations,
            )
        files = table_files.write(work.folder, table, done, settings)
        table_files.write_handles(work.folder, table.ids, handles[: extended.common])
        session.progress(1, 1)
    figures = completed_figures(table, done, choice, predicted.predictions, work)
    warn_of_few(figures, work.party)
    return figures | files | sent_in(parameters.activations, extended)


def _lend(session: Session, work: Work[Parameters], rows: _Rows) -> dict[str, Any]:
    """At a passive party: lend columns of the common rows to the screening, and of all rows to the prediction; perhaps
    send activations."""
    parameters, extended, plan = work.parameters, rows.extended, work.plan
    assert work.table is not None
    table = work.table.take(extended.rows)
    seed = int(session.rng.integers(SEEDS))
    rng = np.random.default_rng(seed)
    learner = learner_of(parameters.model)
    columns, _ = ready(work, table, learner)
    first = table.take(np.arange(extended.common))
    checkpoint = checkpoint_of(work, table, extended.seed)
    with session.scope("screen"):
        kept = checkpoint_of(work, table, extended.seed, _SCREENING) if parameters.screens_by_gain else None
        known = variables_of(first, most_classes=parameters.most_classes)
        of_common = Columns(columns.matrix[: extended.common], columns.names)
        team = team_of(plan, rows.engine, rows.common.digest)
        help_choose(team, work, known, of_common, rng, kept)
    with session.scope("predict"):
        parts = help_predict_columns(
            team_of(plan, rows.engine, extended.digest),
            parameters.model,
            columns,
            parameters.predict,
            work.private.policy.maximum_thresholds,
            checkpoint=checkpoint,
            most=(parameters.most_predicted, parameters.most_classes),
        )
    sent = lend(team_of(plan, rows.engine, rows.common.digest), work, table, columns, extended, seed)
    with session.scope("predict"):
        finish(rows.engine)
    table_files.write_handles(work.folder, table.ids, extended.handles)
    return {
        "columns": len(columns.names),
        "importance": lent_importance([part for (_, what), part in parts.items() if what == "values"]),
        "limits": lent_limits(work.private.policy),
        "file": table_files.HANDLES,
    } | sent
