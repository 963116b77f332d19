"""What completing a table will send, step by step, told before it starts.

Each step's outline has the messages of the function of the same step: `association_outline` those of `spearman` or
`contingency`, `predicting_outline` those of `predict_columns`, `new_rows_outline` those of `predict_new`. How often a
message is sent depends on the rows, and on how learning goes. `align.outline` has the steps before.

>>> from unpooled.secure.engine import Rules
>>> setup = Setup(("clinic", "registry"), "clinic", "coordinator", Rules("shares"))
>>> [(one.sender, one.kind) for one in association_outline(setup, "mean")][:2]
[('clinic', 'AssociationRequest'), ('registry', 'RankNorms')]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unpooled.align.outline import alignment_outline, other_rows_outline
from unpooled.align.rows import Places, Psi
from unpooled.complete.association import AssociationRequest, BinCounts, RankNorms
from unpooled.complete.federated import NextRound, NoMoreRounds, PredictedColumns
from unpooled.complete.screening import Measure
from unpooled.secure.engine import HowFar
from unpooled.secure.outline import Exchange, Setup, engine_outline, products_outline
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of
from unpooled.vertical.resume import agreement_outline


def completing_outline(
    places: Places,
    psi: Psi,
    setup: Setup,
    base: LearnerParameters,
    measure: Measure | None,
    *,
    before_screening: Sequence[Exchange] = (),
    after_predicting: Sequence[Exchange] = (),
    screening_checkpoints: bool = False,
    waiting: Sequence[str] = (),
) -> list[Exchange]:
    """All steps, from the alignment on; without a measure there is no screening.

    `before_screening` and `after_predicting` are what a job sends then. With `screening_checkpoints` a screening by
    gain is resumed too. Those who are `waiting` are told how far the active party is (`Team.waiting`).
    """
    begin, end = engine_outline(setup)
    screening = [] if measure is None else association_outline(setup, measure)
    if measure == "gain":
        screening = predicting_outline(setup, base, checkpoints=screening_checkpoints)
    return [
        *alignment_outline(places, psi),
        *other_rows_outline(places, psi),
        *begin,
        *(Exchange(setup.active, party, HowFar) for party in waiting),
        *before_screening,
        *screening,
        *predicting_outline(setup, base),
        *after_predicting,
        *end,
    ]


def association_outline(setup: Setup, measure: Measure) -> list[Exchange]:
    """Rank correlations, or for `cramer` counts; `gain` is no association: it takes a prediction."""
    if measure == "gain":
        return []
    told = BinCounts if measure == "cramer" else RankNorms
    return [
        *(Exchange(setup.active, party, AssociationRequest, 1, 60) for party in setup.passive),
        *(Exchange(party, setup.active, told, 1) for party in setup.passive),
        *products_outline(setup, hidden_nodes=measure != "cramer"),  # ranks have no nodes to count the rows of
    ]


def predicting_outline(setup: Setup, base: LearnerParameters, *, checkpoints: bool = True) -> list[Exchange]:
    """Columns predicted in rounds; with `checkpoints` the parties agree first on where they resume."""
    active, passive = setup.active, setup.passive
    return [
        *(Exchange(active, party, PredictedColumns, 1) for party in passive),
        *(agreement_outline(setup) if checkpoints else []),
        *(Exchange(active, party, NextRound) for party in passive),
        *(replace(one, frames=None, bytes=None) for one in learner_of(base).outline(setup, base)),
        *(Exchange(active, party, NoMoreRounds) for party in passive),
    ]


def new_rows_outline(setup: Setup, base: LearnerParameters) -> list[Exchange]:
    """New rows, completed by the models that were kept: each of them scores the rows once."""
    return [replace(one, frames=None, bytes=None) for one in learner_of(base).score_outline(setup)]
