"""The half of a train job that is about linear models: what is said, what is worth knowing, and learning itself.

Rows that are set aside as a test are the last ones in an order that all parties know: they take no part, and everybody
sees which they are.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.data.columns import fault
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.jobs.labels import Labels
from unpooled.jobs.learned import Learned, Lent
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.product_outline import commitments_outline, dense_products_outline
from unpooled.secure.product import finish
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear import fitting, messages, predictor
from unpooled.vertical.linear.descent import order_of
from unpooled.vertical.linear.model import LinearModel, LinearModels, LinearPart, LinearParts
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.linear.parameters import check_plan as check_linear
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.vertical.trees.predictor import mean_of

_WEIGHTED = "if rows do not all count the same"
_LENT_BY_ANOTHER = "if another passive party has columns"


def check_plan(plan: Plan, model: LinearParameters) -> None:
    """Refuse, before the start, a plan whose engine cannot keep what it says."""
    check_linear(model, plan.engine, len(plan.with_role("passive")))


def outline(plan: Plan, model: LinearParameters) -> list[Exchange]:
    """What is said after the alignment; how often depends on the rows, and on when the loss falls no more."""
    active, passive, unseen = plan.active, plan.with_role("passive"), model.reveal == "final"
    said = dense_products_outline(plan, shown=not unseen) + commitments_outline(plan, linear=True)
    said += [Exchange(one, other, messages.Width, 1, 60) for one, other in permutations(plan.owners, 2)]
    for party in passive:
        said.append(Exchange(active, party, messages.BeginLinear, 1, 100))
        if not model.hide_bags:
            said.append(Exchange(active, party, messages.TakingPart, 1))
        if model.show_weights:
            said.append(Exchange(active, party, messages.RowWeights, only_if=_WEIGHTED))
        if not unseen:
            said.append(Exchange(active, party, messages.NextEpoch))
    if unseen:
        said += _unseen_outline(active, passive)
    for party in passive:
        said += scoring_outline(active, party)
    return said


def _unseen_outline(active: str, passive: list[str]) -> list[Exchange]:
    """What is said besides where weights stay in shares: those who are no partners pass on what they have."""
    first, *others = passive
    return [
        *(Exchange(party, first, messages.GradientShares) for party in others),
        *(Exchange(party, active, messages.GradientShares, only_if=_LENT_BY_ANOTHER) for party in passive if others),
        *(Exchange(active, party, messages.LastShare, 1) for party in passive),
        Exchange(first, active, messages.LastShare, 1),
    ]


def scoring_outline(active: str, party: str) -> list[Exchange]:
    """What is said with a passive party when rows are scored."""
    return [
        Exchange(active, party, messages.Score, 1, 100),
        Exchange(party, active, messages.PartialScores, 1),
    ]


def notes_of(model: LinearParameters, test_share: float) -> list[str]:
    """What others than the active party have seen, and where it adds up from one job to the next."""
    notes = []
    if test_share:
        notes.append(
            "All parties know which rows were set aside as a test: which they are depends on the number of common rows "
            "and on test_share alone."
        )
    if model.reveal == "gradients":
        notes.append(
            "Each party has seen the gradients of its own columns, batch by batch. A job on the same people with "
            "another test_share, validation_share or batch_rows, or with people come or gone, cuts other batches, and "
            "what gradients say of labels adds up: after about twenty such jobs labels can be guessed better than the "
            "columns explain."
        )
        if model.insecure_batch:
            notes.append("With insecure_batch batches may be so small that labels can be worked out from gradients.")
    if not model.hide_bags:
        notes.append(
            "With hide_bags = false the passive parties have seen which rows take part, and so which have no label."
        )
    if model.show_weights:
        notes.append(
            "With show_weights the passive parties have seen how much each row counts, and so which have no label."
        )
    notes.append(
        "The active party has seen the score of every common row, and so what the passive parties' columns together "
        "add to it."
    )
    return notes


def set_aside(rows: int, share: float) -> Bools:
    """Which rows are the test, the same at all parties: the last ones when mixed as batches are."""
    aside = np.zeros(rows, bool)
    aside[order_of(rows)[rows - round(share * rows) :]] = True
    if rows and aside.all():
        raise InputError(f"parameters.test_share: of {rows} common rows none are left to learn from")
    return aside


def check_complete(table: Table, columns: Columns) -> None:
    """Refuse columns with missing values, which a linear model cannot use."""
    for name, cells in zip(columns.names, columns.matrix.T, strict=True):
        if not np.isfinite(cells).all():
            reason = "values are missing, and a linear model needs numbers; train with prepare.missing = 'impute'"
            raise fault(table.party, table.origin, reason, name)


def learn(team: Team, parameters: LinearParameters, columns: Columns, labels: Labels, test_share: float) -> Learned:
    """At the active party: fit a model to the rows that are no test, then score all rows."""
    session, test = team.session, set_aside(len(columns.matrix), test_share)
    target = Target(labels.values[~test], np.where(labels.known, labels.weights, 0.0)[~test])
    with session.scope("fit"):
        fitted = fitting.fit(team, parameters, _taken(columns, ~test), target, labels.names)
        finish(team.products)
    with session.scope("score"):
        found = scores(team, fitted.model, columns.matrix)
    course = {"epochs": len(fitted.losses) or parameters.epochs, "losses": list(fitted.losses)}
    return Learned(fitted.model, found, test, own_importance(fitted.model.part) | course)


def lend(team: Team, parameters: LinearParameters, columns: Columns, test_share: float) -> Lent:
    """At a passive party: take part in both."""
    session, test = team.session, set_aside(len(columns.matrix), test_share)
    with session.scope("fit"):
        part = fitting.help_fit(team, parameters, _taken(columns, ~test))
        finish(team.products)
    with session.scope("score"):
        predictor.help_predict(team, part, columns.matrix)
    return Lent(part, own_importance(part))


def scores(team: Team, model: LinearModel | LinearModels, matrix: Floats) -> Floats:
    """At the active party: of two classes the probability of the second, of several that of each, or the number.

    Of several models it is the mean.
    """
    models = model.models if isinstance(model, LinearModels) else (model,)
    each = zip(models, predictor.score_many(team, models, matrix), strict=True)
    return mean_of([_meaning(one, found) for one, found in each])


def _meaning(model: LinearModel, found: Floats) -> Floats:
    if not model.parameters.classes:
        numbers: Floats = model.centre + model.scale * found
        return numbers
    chances = predictor.probabilities(model.parameters, found)
    return chances[:, 1:] if model.parameters.classes == 2 else chances


def _taken(columns: Columns, rows: Bools) -> Columns:
    return Columns(columns.matrix[rows], columns.names)


def own_importance(part: LinearPart | LinearParts) -> dict[str, Any]:
    """What each owner says of its own columns; the heaviest come first."""
    importance = [{"name": name, "weight": weight} for name, weight in part.importance.items()]
    return {
        "columns": len(part.columns),
        "importance": sorted(importance, key=lambda column: (-part.importance[str(column["name"])], column["name"])),
    }
