"""Who learns together, and how they talk; one party alone is a team too, and learns from pooled columns."""

from __future__ import annotations

from dataclasses import dataclass

from unpooled.errors import PlanError
from unpooled.secure.engine import Engine, HowFar
from unpooled.secure.evidence import Evidence
from unpooled.session import Session


@dataclass(frozen=True, eq=False)
class Team:
    """The owners of columns in their listed order, which decides between equally good splits.

    `digest` is that of the aligned rows. The engine is opened with the active party as driver; a party alone has none.
    The active party tells those who are `waiting` how far it is.
    """

    active: str
    owners: tuple[str, ...]
    engine: Engine | None = None
    digest: str = ""
    waiting: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.active not in self.owners or len(set(self.owners)) < len(self.owners):
            raise PlanError("parties: the owners of columns are listed once each, the active party among them")

    @property
    def passive(self) -> tuple[str, ...]:
        return tuple(owner for owner in self.owners if owner != self.active)

    @property
    def products(self) -> Engine:
        """The engine, where there is somebody to talk to."""
        if self.engine is None:
            raise PlanError("engine: without one no secure products are made")
        return self.engine

    @property
    def evidence(self) -> Evidence | None:
        """What this party keeps for an audit; a party alone keeps none, and neither do parties whose plan says so."""
        return self.engine.evidence if self.engine else None

    @property
    def session(self) -> Session:
        return self.products.session

    def progress(self, done: int, total: int) -> None:
        """Say how far the current scope is; a party alone says nothing."""
        if self.passive:
            self.session.progress(done, total)
        self.tell_waiting(done, total)

    def tell_waiting(self, done: int, total: int) -> None:
        """Where the steps of a scope depend on the rows, those who wait are told of coarser ones."""
        for party in self.waiting:
            if self.session.party == self.active:
                self.session.send(party, HowFar(self.session.where, done, total))


def alone(party: str = "pooled") -> Team:
    """A team of one, which holds all columns."""
    return Team(party, (party,))
