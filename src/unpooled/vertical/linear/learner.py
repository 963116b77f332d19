"""The linear learner as jobs see it.

Rows that are set aside as a test are the last ones in an order that all parties know: they take no part, and everybody
sees which they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.checkpoint import Notebook
from unpooled.errors import InputError
from unpooled.secure.engine import MaskSeed, agreed_seeds
from unpooled.secure.outline import Exchange, Setup, commitments_outline, dense_products_outline
from unpooled.vertical.explained import Explain
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Audit, Explaining, Fitted, Learner
from unpooled.vertical.linear import explaining, fitting, messages, predictor
from unpooled.vertical.linear.audit import LinearCheck, pages_needed
from unpooled.vertical.linear.descent import batch_size, order_of
from unpooled.vertical.linear.model import LinearModel, LinearModels, LinearParts
from unpooled.vertical.linear.parameters import LinearParameters, check_plan, epochs_of
from unpooled.vertical.linear.residuals import MOST_COLUMNS
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team

_WEIGHTED = "if rows do not all count the same"
_LENT_BY_ANOTHER = "if another passive party has columns"


def check(setup: Setup, parameters: LinearParameters, bags: bool, weighted: bool) -> None:
    """Refuse an engine that cannot keep secret what the parameters say; rows outside a hidden bag have weight zero."""
    secret = weighted or (bags and parameters.hide_bags)
    check_plan(parameters, setup.rules.engine, len(setup.passive), weighted=secret)


def outline(setup: Setup, parameters: LinearParameters) -> list[Exchange]:
    """What is sent after the alignment; how often depends on the rows, and on when the loss falls no more."""
    active, passive, unseen = setup.active, setup.passive, parameters.reveal == "final"
    sent = dense_products_outline(setup, shown=not unseen) + commitments_outline(setup, all_owners=True)
    sent += [Exchange(one, other, messages.Width, 1, 60) for one, other in permutations(setup.owners, 2)]
    for party in passive:
        sent.append(Exchange(active, party, messages.BeginLinear, 1, 100))
        if not parameters.hide_bags:
            sent.append(Exchange(active, party, messages.TakingPart, 1))
        if parameters.show_weights:
            sent.append(Exchange(active, party, messages.RowWeights, only_if=_WEIGHTED))
        if not unseen:
            sent.append(Exchange(active, party, messages.NextEpoch))
    if unseen:
        sent += _unseen_outline(active, passive)
    return sent + _scoring(setup)


def _unseen_outline(active: str, passive: Sequence[str]) -> list[Exchange]:
    """What is sent besides where weights stay in shares: those who are no partners pass on what they have."""
    first, *others = passive
    return [
        *(Exchange(party, first, messages.GradientShares) for party in others),
        *(Exchange(party, active, messages.GradientShares, only_if=_LENT_BY_ANOTHER) for party in passive if others),
        *(Exchange(active, party, messages.LastShare, 1) for party in passive),
        Exchange(first, active, messages.LastShare, 1),
    ]


def score_outline(setup: Setup) -> list[Exchange]:
    """What is sent when new rows are scored."""
    seeds = [Exchange(one, other, MaskSeed, 1, 100) for one, other in combinations(setup.passive, 2)]
    return seeds + _scoring(setup)


def _scoring(setup: Setup) -> list[Exchange]:
    sent = []
    for party in setup.passive:
        sent.append(Exchange(setup.active, party, messages.Score, 1, 100))
        sent.append(Exchange(party, setup.active, messages.PartialScores, 1))
    return sent


def explain_outline(setup: Setup, _parameters: LinearParameters | None) -> list[Exchange]:
    """What is sent so that columns' owners learn what these add."""
    sent = []
    for party in setup.passive:
        sent += [Exchange(setup.active, party, one, 1) for one in (Explain, messages.ExplainedOutputs)]
        sent.append(Exchange(party, setup.active, messages.PartyContributions, 1))
    return sent


def notes(parameters: LinearParameters, test_fraction: float) -> list[str]:
    """What others than the active party have seen, and where it adds up from one job to the next."""
    found = []
    if test_fraction:
        found.append(
            "All parties know which rows were set aside as a test: which they are depends on the number of common rows "
            "and on test_fraction alone."
        )
    if parameters.reveal == "gradients":
        found.append(
            "Each party has seen the gradients of its own columns, batch by batch. A job on the same people with "
            "another test_fraction, validation_fraction or batch_rows, or with other people, cuts other batches, and "
            "what gradients say of labels adds up: after about twenty such jobs labels can be guessed better than the "
            "columns explain."
        )
        if parameters.insecure_batch:
            found.append("With insecure_batch batches may be so small that labels can be worked out from gradients.")
    else:
        found.append(
            "Each party has seen its own weights, at the end, and no gradient and no loss: all epochs were run."
        )
    if not parameters.hide_bags:
        found.append(
            "With hide_bags = false the passive parties have seen which rows take part, and so which have no label."
        )
    if parameters.show_weights:
        found.append(
            "With show_weights the passive parties have seen how much each row counts, and so which have no label."
        )
    found.append(
        "The active party has seen the score of every common row, and so what the passive parties' columns together "
        "add to it."
    )
    return found


def product_rows(parameters: LinearParameters, rows: int) -> int:
    """Twice the common rows for each class, or, turned, as many as a party has columns."""
    return max(2 * rows * max(parameters.classes, 1), MOST_COLUMNS)


def shown_test(rows: int, fraction: float) -> Bools:
    """Which rows are the test, the same at all parties: the last ones when mixed as batches are."""
    aside = np.zeros(rows, bool)
    aside[order_of(rows)[rows - round(fraction * rows) :]] = True
    if rows and aside.all():
        raise InputError(f"parameters.test_fraction: of {rows} common rows none are left to learn from")
    return aside


def fit(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    targets: Sequence[Target],
    classes: Sequence[str],
    notebook: Notebook | None,
) -> Fitted:
    fitted = fitting.fit_many(team, parameters, columns, targets, classes, notebook=notebook)
    model = LinearModels(models=tuple(one.model for one in fitted))
    return Fitted(model, None, {"epochs": fitted[0].epochs, "losses": list(fitted[0].losses)})


def lend(
    team: Team, parameters: LinearParameters, columns: Columns, models: int, notebook: Notebook | None
) -> LinearParts:
    return LinearParts(parts=tuple(fitting.help_fit_many(team, parameters, columns, models, notebook=notebook)))


def score(team: Team, model: LinearModels, columns: Columns) -> list[Floats]:
    each = predictor.score_many(team, model.models, columns.matrix)
    return [_meaning(one, found) for one, found in zip(model.models, each, strict=True)]


def _meaning(model: LinearModel, found: Floats) -> Floats:
    if not model.parameters.classes:
        numbers: Floats = model.centre + model.scale * found
        return numbers
    chances = predictor.probabilities(model.parameters, found)
    return chances[:, 1:] if model.parameters.classes == 2 else chances


def help_score(team: Team, part: LinearParts, columns: Columns, _same_rows: bool) -> None:
    """Add this party's part of the scores; without products, passive parties agree on seeds of masks first."""
    if not team.products.mask_seeds:
        team.products.mask_seeds = agreed_seeds(team.session, team.passive)
    predictor.help_predict_many(team, part.parts, columns.matrix)


def importance(part: LinearParts) -> dict[str, Any]:
    """What a party tells of its own columns; the heaviest come first."""
    sizes = part.importance
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    return {"columns": len(part.columns), "importance": [{"name": name, "weight": sizes[name]} for name in ranked]}


def gradient_fits(parameters: LinearParameters, models: int) -> int:
    """Hidden bags are all cut into the same batches; those that are shown into batches of their own."""
    if parameters.reveal == "final":
        return 0
    return min(models, 1) if parameters.hide_bags else models


def without_last(kept: LinearModels | LinearParts, count: int) -> LinearModels | LinearParts:
    if isinstance(kept, LinearParts):
        return LinearParts(parts=kept.parts[:-count])
    return LinearModels(models=kept.models[:-count])


LINEAR = Learner(
    name="linear",
    models="linear models",
    parameters=(LinearParameters,),
    model=LinearModels,
    part=LinearParts,
    check=check,
    outline=outline,
    score_outline=score_outline,
    fit=fit,
    lend=lend,
    score=score,
    help_score=help_score,
    title=lambda parameters: "Logistic regression" if parameters.classes else "Linear regression",
    importance=importance,
    without_last=without_last,
    takes_missing=False,
    for_bags=LinearParameters(l2=0.01),  # with less, small bags are learned by heart
    product_rows=product_rows,
    shown_test=shown_test,
    notes=notes,
    rounds=lambda _parameters, models, engine: ("epochs", 5 if models == 1 and engine == "shares" else 1),
    gradient_fits=gradient_fits,
    batch_rows=batch_size,
    rounds_of=epochs_of,
    ends_early=lambda parameters: messages.NextEpoch if parameters.reveal == "gradients" else None,
    tunable=frozenset({"epochs", "tolerance", "patience", "learning_rate", "optimiser", "l2", "limit", "balanced"}),
    audit=Audit(pages_needed, LinearCheck),
    explaining=Explaining(
        outline=explain_outline,
        contributions=lambda team, model, columns, *which: explaining.contributions(
            team, model, columns.matrix, *which
        ),
        help_contributions=lambda team, part, columns, most: explaining.help_contributions(
            team, part, columns.matrix, most
        ),
        margin=lambda parameters: "log-odds" if parameters.classes else "predicted number",
        lacks=explaining.lacks,
    ),
)
