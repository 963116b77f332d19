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
from functools import partial
from itertools import count

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.checkpoint import Notebook
from unpooled.errors import InputError, RefusedError
from unpooled.pu.bags import Bag
from unpooled.pu.estimates.elkan_noto import HeldOut, held_out
from unpooled.pu.federated import linear_bags, tree_bags
from unpooled.pu.federated.memory import Memory, go_on, model_in
from unpooled.pu.federated.messages import NextBags, NoMoreBags
from unpooled.pu.methods import KeepGoing, rank
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings
from unpooled.secure.engine import Rules, limit_bits
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.model import LinearModels, LinearParts
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.team import Team
from unpooled.vertical.trees import ensemble
from unpooled.vertical.trees.budget import bits_needed, leaves_of, sorting_bits, tree_bits
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.parameters import AnyTrees, questions_of

__all__ = ["AnyBase", "Columns", "Found", "VfpuSettings", "find", "help_find", "models_of", "questions"]

AnyBase = AnyTrees | LinearParameters
Whole = Model | LinearModels
KeptPart = Part | LinearParts
ESTIMATING = 5
"""How many models more are learned for estimates."""
AGAIN = 30
"""How many times over a passive party does again what lies between two pages, in a run that is resumed: three times in
each of ten interruptions, for what is under way, what another party has not kept, and a page lost in a power cut."""
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

    def learn(bags: Sequence[Bag]) -> list[Floats]:
        group = next(number)
        if memory and group < whole:
            page = memory.groups.read(group)
            last[:] = [model_in(page, _WHOLE, linear=isinstance(base, LinearParameters))]
            return list(page["scores"].astype(float))
        _tell(team, NextBags(len(bags)))
        with _scope(team, base, steps, group, len(bags)):
            model, found = learner(bags, memory.trees_of(group) if memory else None)
        if memory:
            memory.keep(model, scores=np.stack(found))
        last[:] = [model]
        return found

    with memory.counting(team, None) if memory else nullcontext():
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
    """At a passive party: lend columns as often as the method needs; what is kept is its part of the last models.

    If the run was resumed it may be asked again what it has answered, or something else; so it lends only so much more.
    """
    _check(base)
    steps, part = steps_of(settings, estimate=estimate), None
    helper, at_once = _helper(team, base, columns, most_thresholds, steps, again=bool(memory and memory.asked.begun))
    number, left = count(), models_of(settings, estimate=estimate)
    most = left + AGAIN * max(models for _, models in steps)
    if memory:
        number = count(go_on(team, memory, lends=bool(columns.names)))
        left -= sum(int(page["models"]) for page in memory.groups.pages())
        if memory.groups:
            page = memory.groups.read(len(memory.groups) - 1)
            part = model_in(page, _PARTS, linear=isinstance(base, LinearParameters))
        if memory.asked.begun and at_once:
            _allow_again(team, at_once["answered"])
    with memory.counting(team, at_once) if memory else nullcontext():
        while bags := _next_bags(team, left):
            left -= bags
            if memory and memory.asked.begun + bags > most:
                raise RefusedError(
                    f"{team.session.party} begins at most {most} models in a run, however often that is resumed, and "
                    f"{team.active} wants more: begin a new run"
                )
            group = next(number)
            notebook = memory.begin(team, group, bags) if memory else None
            with _scope(team, base, steps, group, bags):
                part = helper(bags, notebook)
            if memory:
                memory.keep(part, models=np.array(bags))
    if part is None:
        raise RefusedError(f"{team.active} ended before anything was learned")
    return part


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


def _allow_again(team: Team, at_once: int) -> None:
    """What is asked twice counts twice; linear models, which have no limit beforehand, are counted as models."""
    rules = team.products.rules
    if rules.questions is not None:
        team.products.rules = replace(rules, questions=rules.questions + AGAIN * at_once)


def models_of(settings: AnyMethod, *, estimate: bool = False) -> int:
    """How many models a method learns at the most."""
    return sum(models for _, models in steps_of(settings, estimate=estimate))


def steps_of(settings: AnyMethod, *, estimate: bool = False) -> list[tuple[str, int]]:
    """The steps of a method, and how many models are learned together in each; there may come to be fewer of both."""
    first = [("estimates", ESTIMATING)] if estimate else []
    match settings:
        case VfpuSettings():
            first += [("reliable negatives", NaiveSettings().folds)] if settings.negatives == "reliable" else []
            numbers = range(1, settings.iterations + 1)
            return first + [(f"iteration {number} of {settings.iterations}", settings.bags) for number in numbers]
        case BaggingSettings():
            return [*first, ("ranking", settings.bags)]
        case TwoStepSettings():
            return [*first, ("first step", settings.folds), ("second step", settings.folds)]
        case NaiveSettings():
            return [*first, ("ranking", settings.folds)]


def questions(base: AnyBase, settings: AnyMethod, *, estimate: bool = False) -> int | None:
    """The most columns that are asked about the same rows; see `secure.engine.Rules`.

    A linear learner says it later, when it knows all columns.
    """
    return None if isinstance(base, LinearParameters) else questions_of(base, models_of(settings, estimate=estimate))


def bits_of(rules: Rules, base: AnyTrees, layout: Layout, rows: int, steps: Sequence[tuple[str, int]]) -> int:
    """The most bits that a party with this layout answers about its rows in these steps of a method."""
    return sum(bits_needed(rules, base, layout, rows, models) for _, models in steps)


def _learner(
    team: Team, base: AnyBase, columns: Columns
) -> Callable[[Sequence[Bag], Notebook | None], tuple[Whole, list[Floats]]]:
    """What the active party does with bags; its columns are binned once."""
    if isinstance(base, LinearParameters):
        return partial(linear_bags.learn, team, base, columns)
    return partial(tree_bags.learn, team, base, columns, ensemble.own_binning(team, base, columns))


def _helper(
    team: Team,
    base: AnyBase,
    columns: Columns,
    most_thresholds: int | None,
    steps: Sequence[tuple[str, int]],
    *,
    again: bool,
) -> tuple[Callable[[int, Notebook | None], KeptPart], dict[str, int] | None]:
    """What a passive party does for so many models; its columns are binned once, so that limits are the same for all.

    It answers the bits that all steps need, and so many more if it does some of it `again`. Beside it stands how much
    it answers at the most for trees that grow together, of which is a page; linear models have no such page.
    """
    if isinstance(base, LinearParameters):
        return partial(linear_bags.help_learn, team, base, columns), None
    binning = ensemble.lent_binning(team.session, base, columns, most_thresholds)
    products, layout, rows = team.products, binning.layout, len(columns.matrix)
    sorting = sorting_bits(base, layout, rows, max(models for _, models in steps))
    at_once = {
        "answered": base.lockstep * questions_of(base) // base.trees,
        "bits": base.lockstep * tree_bits(products.rules, base, layout, rows) + sorting,
        "opened": base.lockstep * (leaves_of(base, rows) - 1),
    }
    needed = bits_of(products.rules, base, layout, rows, steps) + (AGAIN * at_once["bits"] if again else 0)
    limit_bits(products, team.digest, rows, needed)
    return partial(tree_bags.help_learn, team, base, columns, binning), at_once


def _scope(
    team: Team, base: AnyBase, steps: Sequence[tuple[str, int]], group: int, bags: int
) -> AbstractContextManager[None]:
    """Says where in the search we are; a party alone says nothing."""
    if not team.passive:
        return nullcontext()
    if team.products.evidence:
        team.products.evidence.fit = group
    step = min(group, len(steps) - 1)
    team.progress(step, len(steps))
    counted = "descent" if isinstance(base, LinearParameters) else "trees"
    return team.session.scope(f"{steps[step][0]}, {counted} of {bags} bags")


def _tell(team: Team, message: NextBags | NoMoreBags) -> None:
    for owner in team.passive:
        team.session.send(owner, message)


def _check(base: AnyBase) -> None:
    if base.classes != 2:
        raise InputError("classes: whoever looks for look-alikes tells two apart, positive and other")
