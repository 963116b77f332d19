"""Finding look-alikes in columns that several parties hold: `find` at the active party, `help_find` at the others.

The active party alone knows who is known, what is drawn, and the ranking. A party alone (`team.alone()`) finds the same
in pooled columns, to the last bit.

>>> import numpy as np
>>> from unpooled.vertical.parameters import GbdtParameters
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
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from unpooled.checkpoint import Notebook
from unpooled.codec import Bools, Floats
from unpooled.errors import InputError, RefusedError
from unpooled.pu import linear_bags, tree_bags
from unpooled.pu.bags import Bag
from unpooled.pu.elkan_noto import HeldOut, held_out
from unpooled.pu.memory import Memory, go_on, model_in, restore_answered
from unpooled.pu.messages import NextBags, NoMoreBags
from unpooled.pu.methods import KeepGoing, rank
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings
from unpooled.vertical import trees
from unpooled.vertical.linear_model import LinearModels, LinearParts
from unpooled.vertical.linear_parameters import LinearParameters
from unpooled.vertical.model import Model, Part
from unpooled.vertical.parameters import AnyTrees, questions_of
from unpooled.vertical.team import Team
from unpooled.vertical.trees import Columns

__all__ = ["AnyBase", "Columns", "Found", "VfpuSettings", "find", "help_find", "models_of", "questions"]

AnyBase = AnyTrees | LinearParameters
Whole = Model | LinearModels
KeptPart = Part | LinearParts
ESTIMATING = 5
"""How many models more are learned for estimates."""
_WHOLE: dict[bool, type[Whole]] = {False: Model, True: LinearModels}
_PARTS: dict[bool, type[KeptPart]] = {False: Part, True: LinearParts}


@dataclass(frozen=True, eq=False)
class Found:
    """The ranking, and the models of the last group of bags, which score new rows.

    `held_out` are scores by models that had not seen the row, of known rows too, for estimates (`pu.prior`, `pu.scar`).
    """

    ranking: Ranking
    model: Whole
    held_out: HeldOut | None = None


def find(
    team: Team,
    base: AnyBase,
    columns: Columns,
    known: Bools,
    settings: AnyMethod,
    seed: int,
    *,
    estimate: bool = False,
    keep_going: KeepGoing | None = None,
    memory: Memory | None = None,
) -> Found:
    """At the active party: rank the rows that are not known. The seed is its secret.

    If it is to `estimate` as well, some models more are learned first. If all parties have a memory, the search goes on
    from what all of them have kept there.
    """
    _check(base)
    if known.shape != (len(columns.matrix),):
        raise InputError(f"positives: {len(known)} marks for {len(columns.matrix)} rows")
    learner, last, number = _learner(team, base, columns), list[Whole](), count()
    steps = steps_of(settings, estimate=estimate)
    whole = go_on(team, memory) if memory else 0
    if memory and whole:
        restore_answered(team, memory.groups.read(whole - 1))

    def learn(bags: Sequence[Bag]) -> list[Floats]:
        group = next(number)
        if memory and group < whole:
            page = memory.groups.read(group)
            last[:] = [model_in(page, _WHOLE, linear=isinstance(base, LinearParameters))]
            return list(page["scores"].astype(float))
        _tell(team, NextBags(len(bags)))
        with _scope(team, steps, group, len(bags)):
            model, found = learner(bags, memory.trees_of(group) if memory else None)
        if memory:
            memory.keep(team, model, scores=np.stack(found))
        last[:] = [model]
        return found

    scored = held_out(known, learn, seed, ESTIMATING) if estimate else None
    ranking = rank(known, settings, learn, seed, keep_going)
    _tell(team, NoMoreBags())
    return Found(ranking, last[0], scored)


def help_find(
    team: Team,
    base: AnyBase,
    columns: Columns,
    settings: AnyMethod,
    most_thresholds: int | None = None,
    *,
    estimate: bool = False,
    memory: Memory | None = None,
) -> KeptPart:
    """At a passive party: lend columns as often as the method needs; what is kept is its part of the last models."""
    _check(base)
    session, active = team.session, team.active
    helper, left, part = _helper(team, base, columns, most_thresholds), models_of(settings, estimate=estimate), None
    number = count(go_on(team, memory) if memory else 0)
    if memory and memory.groups:
        pages = list(memory.groups.pages())
        left -= sum(int(page["models"]) for page in pages)
        part = model_in(pages[-1], _PARTS, linear=isinstance(base, LinearParameters))
        restore_answered(team, pages[-1])
    while isinstance(bags := session.recv(active, NextBags, NoMoreBags), NextBags):
        left -= bags.count
        if bags.count < 1 or left < 0:
            raise RefusedError(
                f"{session.party} takes part in as many models as the method needs, and {active} wants more"
            )
        group = next(number)
        with _scope(team, steps_of(settings, estimate=estimate), group, bags.count):
            part = helper(bags.count, memory.trees_of(group) if memory else None)
        if memory:
            memory.keep(team, part, models=np.array(bags.count))
    if part is None:
        raise RefusedError(f"{active} ended before anything was learned")
    return part


def models_of(settings: AnyMethod, *, estimate: bool = False) -> int:
    """How many models a method learns at the most."""
    first = ESTIMATING if estimate else 0
    match settings:
        case VfpuSettings():
            first += NaiveSettings().folds if settings.negatives == "reliable" else 0
            return first + settings.iterations * settings.bags
        case BaggingSettings():
            return first + settings.bags
        case TwoStepSettings():
            return first + 2 * settings.folds
        case NaiveSettings():
            return first + settings.folds


def steps_of(settings: AnyMethod, *, estimate: bool = False) -> list[str]:
    """The steps of a method, in each of which one group of models is learned; there may come to be fewer."""
    first = ["estimates"] if estimate else []
    match settings:
        case VfpuSettings():
            first += ["reliable negatives"] if settings.negatives == "reliable" else []
            return first + [f"iteration {number + 1} of {settings.iterations}" for number in range(settings.iterations)]
        case TwoStepSettings():
            return [*first, "first step", "second step"]
        case _:
            return [*first, "ranking"]


def questions(base: AnyBase, settings: AnyMethod, *, estimate: bool = False) -> int | None:
    """The most columns that are asked about the same rows; see `secure.engine.Rules`.

    A linear learner says it later, when it knows all columns.
    """
    return None if isinstance(base, LinearParameters) else questions_of(base, models_of(settings, estimate=estimate))


def _learner(
    team: Team, base: AnyBase, columns: Columns
) -> Callable[[Sequence[Bag], Notebook | None], tuple[Whole, list[Floats]]]:
    """What the active party does with bags; its columns are binned once."""
    if isinstance(base, LinearParameters):
        return partial(linear_bags.learn, team, base, columns)
    return partial(tree_bags.learn, team, base, columns, trees.own_binning(team, base, columns))


def _helper(
    team: Team, base: AnyBase, columns: Columns, most_thresholds: int | None
) -> Callable[[int, Notebook | None], KeptPart]:
    """What a passive party does for so many models; its columns are binned once, so that the limit is one for all."""
    if isinstance(base, LinearParameters):
        return partial(linear_bags.help_learn, team, base, columns)
    binning = trees.lent_binning(team.session, base, columns, most_thresholds)
    return partial(tree_bags.help_learn, team, base, columns, binning)


def _scope(team: Team, steps: Sequence[str], group: int, bags: int) -> AbstractContextManager[None]:
    """Says where in the search we are; a party alone says nothing."""
    if not team.passive:
        return nullcontext()
    step = min(group, len(steps) - 1)
    team.progress(step, len(steps))
    return team.session.scope(f"{steps[step]}, {bags} bags")


def _tell(team: Team, message: NextBags | NoMoreBags) -> None:
    for owner in team.passive:
        team.session.send(owner, message)


def _check(base: AnyBase) -> None:
    if base.classes != 2:
        raise InputError("classes: whoever looks for look-alikes tells two apart, positive and other")
