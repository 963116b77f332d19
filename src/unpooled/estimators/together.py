"""Learning and scoring by parties that are threads of this process, or from the pooled columns.

Pooled columns come in the order in which the parties present them, so that trees are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.estimators.apart import COORDINATOR
from unpooled.ledger import Record
from unpooled.pu.federated.search import find, groups_of, help_find
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import AnyMethod
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, Serving, open_engine
from unpooled.secure.outline import Setup
from unpooled.secure.product import finish, serve
from unpooled.session import Session, draws_of
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters, Model, Part
from unpooled.vertical.learners import learner_of
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.resume import Fits, Loans
from unpooled.vertical.stages import stage
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team, alone

Watch = Callable[[str, int, int], None]
"""Told how far the active party is: the place, how much is done, and of how much."""

How = Literal["plain", "shares", "paillier", "pooled"]
"""An engine, or all columns in one place."""

_ROWS = "the rows"
_TIMEOUT = 24 * 3600.0
_OWNERS = "/"  # between a party's name, which has none, and its column's


@dataclass(frozen=True)
class Parties:
    """Who learns together, and how; the seed settles every draw that is not a secret."""

    owners: tuple[str, ...]
    active: str
    engine: How
    key_bits: int
    seed: int
    watch: Watch | None = None

    @property
    def passive(self) -> tuple[str, ...]:
        return tuple(owner for owner in self.owners if owner != self.active)

    @property
    def coordinator(self) -> str | None:
        return COORDINATOR if self.engine in ("shares", "paillier") else None

    def rules(self, questions: int | None = None) -> Rules:
        """In one process nothing is hidden from anybody, so keys may be of any size."""
        engine = "plain" if self.engine == "pooled" else self.engine
        return Rules(engine, self.key_bits, insecure=True, questions=questions)

    def pooled(self, columns: Mapping[str, Columns]) -> Columns:
        """All columns, those of passive parties in the order that is the first thing they draw."""
        matrices, names = list[Floats](), list[str]()
        for owner in self.owners:
            own, width = columns[owner], len(columns[owner].names)
            order = np.arange(width) if owner == self.active else draws_of(owner, self.seed).permutation(width)
            matrices.append(own.matrix[:, order])
            names += [f"{owner}{_OWNERS}{own.names[place]}" for place in order]
        blocks = tuple(matrix.shape[1] for matrix in matrices)
        return Columns(np.concatenate(matrices, axis=1), tuple(names), blocks, self.owners.index(self.active))


@dataclass(frozen=True, eq=False)
class Learned:
    """The active party's model, by name the other parties' parts of it, and what everybody sent and received.

    A pooled model is whole, and nothing was sent.
    """

    parties: Parties
    model: Model
    parts: Mapping[str, Part]
    ledgers: Mapping[str, Record]

    def importances(self) -> dict[str, list[dict[str, Any]]]:
        """What each party would tell of its own columns, the most important first."""
        tell = learner_of(self.model.parameters).importance
        if self.parties.engine != "pooled":
            parts = {**self.parts, self.parties.active: self.model.part}
            return {owner: tell(parts[owner])["importance"] for owner in self.parties.owners}
        found: dict[str, list[dict[str, Any]]] = {owner: [] for owner in self.parties.owners}
        for column in tell(self.model.part)["importance"]:
            owner, _, name = column["name"].partition(_OWNERS)
            found[owner].append({**column, "name": name})
        return found


def fit(
    parties: Parties,
    base: LearnerParameters,
    columns: Mapping[str, Columns],
    target: Target,
    classes: Sequence[str] = (),
) -> Learned:
    """One model, learned as a job does it."""

    def active(team: Team, own: Columns) -> Model:
        return Fits(team, base, own).fit([target], classes).model

    def passive(team: Team, own: Columns) -> Part:
        loans = Loans(team, [stage(base, [1])], own, None, None)
        return loans.lend(1, loans.begin(1))

    weighted = target.weights is not None
    model, parts, ledgers = _learn(parties, "fit", base, [1], columns, active, passive, weighted=weighted)
    return Learned(parties, model, parts, ledgers)


def search(
    parties: Parties, base: LearnerParameters, columns: Mapping[str, Columns], known: Bools, method: AnyMethod
) -> tuple[Learned, Ranking]:
    """The ranking of the rows that are not known, and the models of the last bags."""
    found, parts, ledgers = _learn(
        parties,
        "find",
        base,
        groups_of(method),
        columns,
        lambda team, own: find(team, base, own, known, method, parties.seed),
        lambda team, own: help_find(team, base, own, method),
        bags=True,
    )
    return Learned(parties, found.model, parts, ledgers), found.ranking


def score(learned: Learned, columns: Mapping[str, Columns]) -> Floats:
    """The mean of what the models say of rows, rows × outputs.

    Of two classes it is the probability of the second, of several that of each, else the number.
    """
    parties, model, learner = learned.parties, learned.model, learner_of(learned.model.parameters)
    if parties.engine == "pooled":
        return mean_of_models(learner.score(alone(parties.active), model, parties.pooled(columns)))

    def role(session: Session) -> list[Floats]:
        engine = Engine(session, parties.rules(), parties.owners, parties.active, None)
        team, own = Team(parties.active, parties.owners, engine, _ROWS), columns[session.party]
        if session.party == parties.active:
            return learner.score(team, model, own)
        learner.help_score(team, learned.parts[session.party], own, False)
        return []

    outcome = simulate_roles(dict.fromkeys(parties.owners, role), timeout=_TIMEOUT)
    return mean_of_models(outcome.results[parties.active])


def _learn(
    parties: Parties,
    scope: str,
    base: LearnerParameters,
    groups: Sequence[int],
    columns: Mapping[str, Columns],
    active: Callable[[Team, Columns], Any],
    passive: Callable[[Team, Columns], Part],
    *,
    bags: bool = False,
    weighted: bool = False,
) -> tuple[Any, dict[str, Part], dict[str, Record]]:
    """What the active party found, the others' parts, and the ledgers, with scopes as in a job."""
    learner, coordinator = learner_of(base), parties.coordinator
    rules = parties.rules(learner.questions(base, sum(groups)))
    learner.check(Setup(parties.owners, parties.active, coordinator, rules), base, bags, weighted)
    if parties.engine == "pooled":
        return active(alone(parties.active), parties.pooled(columns)), {}, {}

    def opened(session: Session) -> Engine:
        return open_engine(session, rules, parties.owners, parties.active, coordinator)

    def owner_role(session: Session) -> Any:
        part = active if session.party == parties.active else passive
        with session.scope(scope):
            team = Team(parties.active, parties.owners, opened(session), _ROWS)
            found = part(team, columns[session.party])
            finish(team.products)
        return found

    def coordinator_role(session: Session) -> int:
        with session.scope(scope):
            return serve(opened(session), Serving(megabytes=float("inf")))

    roles: dict[str, Callable[[Session], Any]] = dict.fromkeys(parties.owners, owner_role)
    if coordinator:
        roles[coordinator] = coordinator_role
    watchers = {parties.active: parties.watch} if parties.watch else {}
    outcome = simulate_roles(roles, seeds=dict.fromkeys(roles, parties.seed), watchers=watchers, timeout=_TIMEOUT)
    parts = {owner: outcome.results[owner] for owner in parties.passive}
    return outcome.results[parties.active], parts, outcome.ledgers
