"""Finding look-alikes in columns that several parties hold: `find` at the active party, `help_find` at the others.

The active party alone knows who is known, what is drawn, and the ranking. A party alone (`team.alone()`) finds the same
in pooled columns, to the last bit.

>>> import numpy as np
>>> from unpooled.vertical.trees.parameters import GbdtParameters
>>> from unpooled.vertical.team import alone
>>> rng = np.random.default_rng(1)
>>> matrix = rng.normal(size=(5000, 2))
>>> positive = matrix.sum(axis=1) > 1
>>> known = positive & (rng.random(5000) < 0.3)
>>> base = GbdtParameters(trees=10, depth=3)
>>> found = find(alone(), base, Columns(matrix, ("a", "b")), known, VfpuSettings(bags=3), seed=1)
>>> bool(positive[found.ranking.promoted].mean() > 0.9)
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from unpooled.arrays import Bools, Floats
from unpooled.errors import InputError, RefusedError
from unpooled.pu.bags import CLASSES, Bag, outside_means
from unpooled.pu.estimates.elkan_noto import HeldOut, held_out_bags
from unpooled.pu.methods import KeepGoing, rank
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters, Model, Part
from unpooled.vertical.resume import Checkpoint, Fits, Loans
from unpooled.vertical.stages import Stage
from unpooled.vertical.team import Team
from unpooled.wire import message

__all__ = ["Columns", "Found", "VfpuSettings", "find", "groups_of", "help_find"]

ESTIMATING = 5
"""How many models more are learned for estimates."""


@message(discloses="that models are learned from another group of bags, and how many", to="a passive party")
class NextBags:
    count: int


@message(discloses="nothing: no more bags come", to="a passive party")
class NoMoreBags:
    pass


@dataclass(frozen=True, eq=False)
class Found:
    """The ranking, and the models of the last group of bags, which score new rows.

    `held_out` are scores by models that had not seen the row, of known rows too, for estimates (`pu.prior`, `pu.scar`).
    """

    ranking: Ranking
    model: Model
    held_out: HeldOut | None = None


def find(
    team: Team,
    base: LearnerParameters,
    columns: Columns,
    known: Bools,
    settings: AnyMethod,
    seed: int,
    *,
    weights: Floats | None = None,
    estimate: bool = False,
    keep_going: KeepGoing | None = None,
    checkpoint: Checkpoint | None = None,
    choose: Callable[[Fits], LearnerParameters] | None = None,
) -> Found:
    """At the active party: rank the rows that are not known. The seed is its secret, and so are `weights` of rows.

    Bags are drawn as without weights; in the models of all bags a row then counts by its weight. With `choose`, which
    may learn models first, it says with which parameters.

    If it is to `estimate` as well, some models more are learned with the first ones. If all parties have a checkpoint,
    the search goes on from what all of them have kept there.
    """
    _check(base)
    if known.shape != (len(columns.matrix),):
        raise InputError(f"positives: {len(known)} marks for {len(columns.matrix)} rows")
    if weights is not None and weights.shape != known.shape:
        raise InputError(f"weights: {len(weights)} of them for {len(known)} rows")
    steps, fits = steps_of(settings, estimate=estimate), Fits(team, base, columns, checkpoint)
    model: Model | None = None
    parameters, before, scored = base, 0, None
    more = held_out_bags(known, seed, ESTIMATING) if estimate else []

    def learn(bags: Sequence[Bag]) -> list[Floats]:
        nonlocal model, more, scored
        together, beside = [*bags, *more], more
        if not (fitted := fits.kept()):
            _tell(team, NextBags(len(together)))
            with _scope(team, fits.learner.models, steps, before, fits.group, len(together)):
                targets = [replace(bag.target, row_weights=weights) for bag in together]
                fitted = fits.scored(fits.fit(targets, CLASSES, parameters))
            fits.keep(fitted)
        model, scores = fitted.model, [each[:, 0] for each in fitted.scores or ()]
        if beside:
            model, more = fits.learner.without_last(model, len(beside)), []
            scored = HeldOut(known, outside_means(beside, scores[len(bags) :]))
        return scores[: len(bags)]

    with fits.counting():
        if choose is not None:
            parameters, before = choose(fits), fits.group
        ranking = rank(known, settings, learn, seed, keep_going)
    _tell(team, NoMoreBags())
    if model is None:
        raise InputError("look-alikes: the method has learned nothing")
    return Found(ranking, model, scored)


def help_find(
    team: Team,
    base: LearnerParameters,
    columns: Columns,
    settings: AnyMethod,
    most_thresholds: int | None = None,
    *,
    estimate: bool = False,
    checkpoint: Checkpoint | None = None,
    before: Sequence[Stage] = (),
    choose: Callable[[Loans], LearnerParameters] | None = None,
) -> Part:
    """At a passive party: lend columns as often as the method needs; what is kept is its part of the last models.

    With `choose` it lends them for the stages `before` too, and is told with which of their parameters all is learned.
    """
    _check(base)
    steps, parameters = steps_of(settings, estimate=estimate), base
    choices = tuple(choice for stage in before for choice in stage.choices) or (base,)
    stages = [*before, Stage(choices, tuple(groups_of(settings, estimate=estimate)))]
    loans, earlier = Loans(team, stages, columns, most_thresholds, checkpoint), sum(len(one.groups) for one in before)
    learner = loans.learner
    with loans.counting():
        if choose is not None:
            parameters = choose(loans)
        while bags := _next_bags(team, loans.left):
            notebook = loans.begin(bags)
            with _scope(team, learner.models, steps, earlier, loans.group, bags):
                part = loans.lend(bags, notebook, parameters)
                if not learner.scores_in_fit(parameters):
                    learner.help_score(team, part, columns, True)
            loans.keep(part, bags)
    if loans.part is None:
        raise RefusedError(f"{team.active} ended before anything was learned")
    only_first = estimate and loans.group == earlier + 1
    return learner.without_last(loans.part, ESTIMATING) if only_first else loans.part


def _next_bags(team: Team, left: int) -> int:
    """How many models the active party wants to learn next; 0 if no more."""
    said = team.session.recv(team.active, NextBags, NoMoreBags)
    if isinstance(said, NoMoreBags):
        return 0
    if not 1 <= said.count <= left:
        raise RefusedError(
            f"{team.session.party} takes part in as many models as the method needs, and {team.active} wants more"
        )
    return said.count


def groups_of(settings: AnyMethod, *, estimate: bool = False) -> list[int]:
    """How many models a method learns together, step by step, at the most."""
    return [models for _, models in steps_of(settings, estimate=estimate)]


def steps_of(settings: AnyMethod, *, estimate: bool = False) -> list[tuple[str, int]]:
    """The steps of a method, and how many models are learned together in each; there may come to be fewer of both.

    Models for estimates are learned with those of the first step, since they do not depend on each other.
    """
    (first, models), *others = _steps_alone(settings)
    return [(f"estimates and {first}", models + ESTIMATING) if estimate else (first, models), *others]


def _steps_alone(settings: AnyMethod) -> list[tuple[str, int]]:
    match settings:
        case VfpuSettings():
            first = [("reliable negatives", NaiveSettings().folds)] if settings.negatives == "reliable" else []
            numbers = range(1, settings.iterations + 1)
            return first + [(f"iteration {number} of {settings.iterations}", settings.bags) for number in numbers]
        case BaggingSettings():
            return [("ranking", settings.bags)]
        case TwoStepSettings():
            return [("first step", settings.folds), ("second step", settings.folds)]
        case NaiveSettings():
            return [("ranking", settings.folds)]


def _scope(
    team: Team, models: str, steps: Sequence[tuple[str, int]], before: int, group: int, bags: int
) -> AbstractContextManager[None]:
    """Says where in the search we are, after so many groups `before`; a party alone says nothing."""
    if not team.passive:
        return nullcontext()
    if team.products.evidence:
        team.products.evidence.fit = group
    step = min(group - before, len(steps) - 1)
    team.progress(before + step, before + len(steps))
    return team.session.scope(f"{steps[step][0]}, {models} of {bags} bags")


def _tell(team: Team, message: NextBags | NoMoreBags) -> None:
    for owner in team.passive:
        team.session.send(owner, message)


def _check(base: LearnerParameters) -> None:
    if base.classes != 2:
        raise InputError("classes: must be 2 for look-alikes, positive and other")
