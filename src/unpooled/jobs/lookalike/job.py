"""Find look-alikes: who else is very likely what the seeker's people are; nobody shows its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from math import ceil
from typing import Any

import numpy as np

from unpooled.align import rows
from unpooled.align.handles import has_only_handles
from unpooled.align.rows import Aligned, Places
from unpooled.arrays import Bools, Floats
from unpooled.data.columns import fault
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.jobs import row_weights
from unpooled.jobs.align import job as align
from unpooled.jobs.learning import explaining, model_files
from unpooled.jobs.learning.common import (
    answered_in,
    check_learner,
    checkpoint_of,
    learning_outline,
    open_products,
    ready,
    served,
    setup_of,
    team_of,
)
from unpooled.jobs.learning.labels import check_columns
from unpooled.jobs.learning.tuned import choice_outline, chosen_result, result_of
from unpooled.jobs.lookalike import in_common, list_counts, list_files
from unpooled.jobs.lookalike.advice import ADVICE_BYTES, Advice, checked_advice
from unpooled.jobs.lookalike.figures import estimates_of, histogram, judged, promotions_of
from unpooled.jobs.lookalike.in_common import InCommon, Line, checked_lines, describing
from unpooled.jobs.lookalike.list_files import Lookalikes
from unpooled.jobs.lookalike.parameters import Parameters, groups_of
from unpooled.jobs.lookalike.receiving import LISTED_BYTES, received
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.row_weights import as_secret, weights_of
from unpooled.jobs.work import CheckedJob, Work
from unpooled.pu.bags import CLASSES
from unpooled.pu.estimates import spies
from unpooled.pu.federated import search
from unpooled.pu.federated.search import NextBags, NoMoreBags
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import VfpuSettings
from unpooled.secure.engine import HowFar, follow
from unpooled.secure.product import finish
from unpooled.session import Session
from unpooled.tuning.search import Tuned, help_tune, tune
from unpooled.tuning.unlabelled import known_folds
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of
from unpooled.vertical.resume import Fits, Loans
from unpooled.vertical.targets import SEEDS
from unpooled.vertical.team import Team

_SPIES = 0.2
_FEWEST = 5  # estimates divide both the known and the others into as many groups


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: align, make ready, learn, deliver."""
    plan, places = work.plan, align.places_of(work.plan, work.parameters)
    if work.table is not None:
        check_table(work, work.table)
    session.weights["find"] = groups_of(work.parameters)  # an iteration of ten bags takes twice as long as five models
    if session.party == places.seeker and work.table is not None:
        return _seek(session, work, places, work.table)
    common = align.common_rows(session, work, places)
    known, counts = _known(session, work, places, common) if isinstance(common, align.Common) else (None, None)
    parameters = work.parameters.model
    with session.scope("find"):
        engine = open_products(session, work, places, work.parameters.stages)
        if not isinstance(common, align.Common):
            return served(engine, work.private.policy, common, parameters)
    team = team_of(plan, engine, common.digest)
    found = _help(team, work, common.table) if known is None else _find(team, work, common.table, known, counts)
    return common.counts | found | answered_in(engine)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What a search sends; how often depends on the rows, and on how learning goes."""
    places, active, passive = align.places_of(plan, parameters), plan.active, plan.with_role("passive")
    for model in [each.parameters for each in parameters.candidates] or [parameters.model]:
        check_learner(plan, model, bags=True, weighted=parameters.weights is not None)
    begin, fit, end = learning_outline(plan, parameters.model)
    describers, seeker = describing(plan, parameters.describe), places.seeker or ""
    bins, counts = list_counts.outline(setup_of(plan), seeker, [party for party in passive if party in describers])
    return [
        *align.outline(plan, parameters),
        *row_weights.outline(plan, parameters),
        *begin,
        *bins,
        *(Exchange(active, party, NextBags) for party in passive),
        *(replace(one, frames=None, bytes=None) for one in fit),
        *choice_outline(plan, parameters.candidates),
        *(Exchange(active, party, NoMoreBags, 1, 50) for party in passive),
        *counts,
        *end,
        *explaining.outline(plan, parameters, parameters.model),
        Exchange(active, seeker, Lookalikes, 1),
        *([Exchange(active, seeker, Advice, 1, ADVICE_BYTES)] if parameters.advice else []),
        *([Exchange(active, seeker, InCommon, 1)] if active in describers else []),
    ]


def check_table(job: CheckedJob[Parameters], table: Table) -> None:
    """Refuse weights that cannot count, and an active party that the seeker cannot be compared with."""
    check_columns(job.private.model_copy(update={"target": None}), table, classes=2)
    if job.party != job.plan.active:
        return
    if has_only_handles(table, job.parameters):
        (seeker,) = job.plan.with_role("seeker")
        raise PlanError(
            f"{job.party}: table.handles: {seeker} has ids, and {job.party} has only handles to compare with them; the "
            "active party must be one that has ids, and names its file of handles"
        )
    if job.private.weight is not None and job.parameters.weights is None:
        raise PlanError(f"{job.party}: weight: for rows to count by it, agree on weights = '{job.party}' in the plan")


def check_known(job: CheckedJob[Parameters], table: Table, known: Bools, weights: Floats | None) -> None:
    """Refuse rows in common that cannot be searched: the seeker must know some of them, and must not know others.

    The error says how many of the others' customers are the seeker's people, so it is for the active party alone.
    """
    (seeker,) = job.plan.with_role("seeker")
    if known.all():
        reason = f"{seeker} knows all {len(known):,} people whom the owners have in common, so there is nobody to find"
        raise fault(table.party, table.origin, reason)
    counts, whom = (weights > 0, ", and who have a weight above zero,") if weights is not None else (True, "")
    folds = job.parameters.tuning.folds if job.parameters.candidates else 0
    fewest = max(_FEWEST, ceil(folds / (1 - _SPIES)) if job.parameters.stop else folds)
    for count, what in ((int((known & counts).sum()), "knows"), (int((~known & counts).sum()), "does not know")):
        if count < fewest:
            reason = (
                f"of the people whom the owners have in common{whom} {seeker} {what} {count}; at least {fewest} are "
                "needed"
            )
            raise fault(table.party, table.origin, reason)


def _known(
    session: Session, work: Work[Parameters], places: Places, common: align.Common
) -> tuple[Bools, Floats | None] | tuple[None, None]:
    """Which of the common rows the seeker knows, and how much each counts; told to the active party alone."""
    if session.party != places.active:
        weights_of(session, work, common.table)
        return None, None
    aligned = Aligned(np.arange(common.table.frame.height), common.digest)
    method = align.method_of(work.plan, work.parameters)
    with session.scope("align"):
        labels = rows.label(session, places, common.table, aligned, method, align.label_limits_of(work))
    known: Bools = labels == rows.POSITIVE
    counts = weights_of(session, work, common.table)
    check_known(work, common.table, known, counts)
    return known, counts


def _seek(session: Session, work: Work[Parameters], places: Places, table: Table) -> dict[str, Any]:
    """At the seeker: let the active party compare ids, then wait for the list."""
    method = align.method_of(work.plan, work.parameters)
    with session.scope("align"):
        asked = rows.help_label(session, places, table, method, align.label_limits_of(work))
    with session.scope("deliver"):
        while isinstance(told := session.recv(places.active, Lookalikes, HowFar, at_most=asked * LISTED_BYTES), HowFar):
            follow(session, places.active, told)
        parameters = work.parameters
        last = parameters.method.iterations if isinstance(parameters.method, VfpuSettings) else 0
        most = min(asked, parameters.top or asked)
        found = list_files.listed(told, table, places.active, most, last)
        advice = (
            checked_advice(session.recv(places.active, Advice), places.active, asked) if parameters.advice else None
        )
        describers = describing(work.plan, parameters.describe)
        described = [line for party in describers for line in checked_lines(session.recv(party, InCommon), party)]
    read = work.cleaning.rows_read if work.cleaning else 0
    counts = {"rows_read": read, "rows": table.frame.height, "asked_about": asked}
    return counts | received(work, found, advice, described)


def _find(team: Team, work: Work[Parameters], table: Table, known: Bools, counts: Floats | None) -> dict[str, Any]:
    """At the active party: rank, keep the models, send the list."""
    session, parameters = team.session, work.parameters
    learner = learner_of(parameters.model)
    columns, preparation = ready(work, table, learner)
    seed, secret = int(session.rng.integers(SEEDS)), np.packbits(known).tobytes() + as_secret(counts)
    checkpoint = checkpoint_of(work, table, secret)
    hidden = spies.hidden(known, _SPIES, np.random.default_rng([seed, 0])) if parameters.stop else None
    goes_on, rankings = spies.StopWhenFalling(hidden) if hidden else lambda _: True, list[Ranking]()
    describers = describing(work.plan, parameters.describe)
    tuned: Tuned | None = None

    def watched(ranking: Ranking) -> bool:
        rankings.append(ranking)
        return goes_on(ranking)

    def choose(fits: Fits) -> LearnerParameters:
        nonlocal tuned
        taken = hidden.known if hidden else known
        fraction = (parameters.top or 0) / int((~taken).sum()) if parameters.top else parameters.fraction or 0.0
        folds = known_folds(taken, counts, parameters.method, parameters.tuning, fraction, seed)
        rest = len(parameters.stages[-1].groups)
        tuned = tune(team, fits, parameters.candidates, folds, CLASSES, parameters.tuning.measure, rest)
        return tuned.best.parameters

    with session.scope("find"):
        bins = list_counts.take_bins(team, [party for party in team.passive if party in describers], len(known))
        found = search.find(
            team,
            parameters.model,
            columns,
            hidden.known if hidden else known,
            parameters.method,
            seed,
            weights=counts,
            estimate=parameters.estimate,
            keep_going=watched,
            checkpoint=checkpoint,
            choose=choose if parameters.candidates else None,
        )
    ranking = replace(found.ranking, known=known)
    estimated, advice = estimates_of(found.held_out, ranking, hidden)
    length = list_size(parameters, ranking, advice)
    listed, others = ranking.order[:length], ranking.order[length:]
    with session.scope("find"):
        list_counts.tell_counts(team, bins, len(known), listed, others, checkpoint)
        finish(team.products)
    explained = dict[str, Any]()
    if parameters.explain:
        given = explaining.OwnRows(table, preparation, columns)
        explained = explaining.explain(team, work, given, found.model, listed[: parameters.explain])
    seeker, fewest = work.plan.with_role("seeker")[0], work.private.policy.minimum_rows
    wanted = work.private.consent.describe if work.party in describers else ()
    lines = in_common.described(table, wanted, listed, others, fewest)
    with session.scope("deliver"):
        session.send(seeker, list_files.message_of(table, parameters, ranking, listed))
        if parameters.advice and advice:
            session.send(seeker, advice)
        if work.party in describers:
            session.send(seeker, in_common.message_of(lines))
    model_files.save(found.model, preparation, work.folder)
    list_files.write_ranking(work.folder, table, ranking)
    return {
        "method": parameters.method.name,
        "learner": parameters.model.learner,
        "positives": int(known.sum()),
        "unlabelled": int((~known).sum()),
        "listed": len(listed),
        "scores": histogram(ranking.scores[~known]),
        "promotions": promotions_of(ranking),
        "estimates": estimated,
        **result_of(tuned, parameters.models_each),
        **({"advice": asdict(advice)} if advice else {}),
        **_told(lines, work),
        **learner.importance(found.model.part),
        **explained,
        **judged(table, work.private, ranking, listed, rankings[0] if rankings else None),  # the first: bagging alone
        "file": list_files.RANKING,
    }


def _help(team: Team, work: Work[Parameters], table: Table) -> dict[str, Any]:
    """At a passive party: lend columns, keep this party's part of the models, and describe columns to the seeker."""
    parameters, policy, session = work.parameters, work.private.policy, team.session
    describes = work.party in describing(work.plan, parameters.describe)
    learner = learner_of(parameters.model)
    columns, preparation = ready(work, table, learner)
    checkpoint = checkpoint_of(work, table)
    candidates, chosen = parameters.candidates, 1

    def choose(loans: Loans) -> LearnerParameters:
        nonlocal chosen
        chosen = help_tune(team, loans, candidates, parameters.models_each, len(parameters.stages[-1].groups))
        return candidates[chosen - 1].parameters

    with session.scope("find"):
        named = work.private.consent.describe
        bins = list_counts.announce_bins(team, table, named, policy.minimum_rows) if describes else None
        part = search.help_find(
            team,
            parameters.model,
            columns,
            parameters.method,
            policy.maximum_thresholds,
            estimate=parameters.estimate,
            checkpoint=checkpoint,
            before=parameters.stages[:-1],
            choose=choose if candidates else None,
        )
        lines = list_counts.lines_of(team, bins, policy.minimum_rows) if bins else []
        finish(team.products)
    explained = dict[str, Any]()
    if parameters.explain:
        given = explaining.OwnRows(table, preparation, columns)
        explained = explaining.help_explain(team, work, given, part, parameters.explain, checkpoint.asked)
    if describes:
        with session.scope("deliver"):
            session.send(work.plan.with_role("seeker")[0], in_common.message_of(lines))
    model_files.save(part, preparation, work.folder)
    found = chosen_result(candidates, parameters.models_each, chosen)
    return learner.importance(part) | found | _told(lines, work) | explained


def _told(lines: Sequence[Line], work: Work[Parameters]) -> dict[str, Any]:
    """What an owner's result says of its own description."""
    describes = work.party in describing(work.plan, work.parameters.describe)
    return {"in_common": [asdict(line) for line in lines]} if describes else {}


def list_size(parameters: Parameters, ranking: Ranking, advice: Advice | None) -> int:
    """How many the seeker receives."""
    unlabelled = len(ranking.order)
    if parameters.top is not None:
        return min(parameters.top, unlabelled)
    if parameters.fraction is not None:
        return max(round(parameters.fraction * unlabelled), 1)
    return len(ranking.promoted) or (advice.suggested if advice else 1)
