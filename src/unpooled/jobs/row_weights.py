"""How much each row counts: by a column of the active party, or by one of a passive party, which tells it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from unpooled.arrays import Floats
from unpooled.data.table import Table
from unpooled.errors import PlanError, ProtocolError
from unpooled.jobs.kind import Agreement
from unpooled.jobs.learning.labels import LARGEST_WEIGHT, NO_WEIGHT, WRONG_WEIGHT, check_some_weigh, none_weighs
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob, Work
from unpooled.session import Session
from unpooled.settings import Section
from unpooled.wire import message

LENDING = Agreement("weights", "{active} learns the weight of each row of {party} that all owners have", "weights")


class WeightRules(Section):
    """The part of a plan that says by whose weights rows count."""

    weights: str | None = Field(
        None,
        description="the owner by whose weights rows count (weight in its private file), such as how confident a "
        "completed table is of them; if it is a passive party, it tells the active one",
    )


@message(discloses="how much each common row counts", to="the active party")
class LentWeights:
    """In the order of the common rows."""

    weights: Floats


def weigher(plan: Plan, parameters: object) -> str | None:
    """The owner by whose weights rows count, if the plan names one."""
    named = parameters.weights if isinstance(parameters, WeightRules) else None
    if named is not None and named not in plan.owners:
        raise PlanError(f"weights: {named!r} has no column of weights; it can name {', '.join(plan.owners)}")
    return named


def check_weight(plan: Plan, parameters: object, party: str, private: Private) -> None:
    """Refuse weights of a party whose weights do not count, and a party without those that do."""
    named = weigher(plan, parameters)
    if party == named and private.weight is None:
        raise PlanError(f"{party}: weight: rows count by the weights of {party} (weights in the plan): name the column")
    if party == named or private.weight is None:
        return
    if named is not None:
        raise PlanError(f"{party}: weight: rows count by the weights of {named} (weights in the plan): remove it")
    if party == plan.active:
        return
    if not isinstance(parameters, WeightRules):
        raise PlanError(f"{party}: weight: only {plan.active}, the active party, has weights: remove it")
    raise PlanError(f"{party}: weight: for rows to count by it, agree on weights = '{party}' in the plan")


def outline(plan: Plan, parameters: WeightRules) -> list[Exchange]:
    """What is sent so that the active party knows the weights."""
    named = weigher(plan, parameters)
    return [] if named is None or named == plan.active else [Exchange(named, plan.active, LentWeights, 1)]


def own_weights(job: CheckedJob[Any], table: Table) -> Floats | None:
    """A party's own column of weights, if it has one."""
    return None if job.private.weight is None else table.column(job.private.weight).cast(pl.Float64).to_numpy()


def weights_of(session: Session, work: Work[Any], table: Table) -> Floats | None:
    """At the active party, how much each common row counts; None where all count the same.

    A passive party by whose weights rows count tells it, and like all others is given None.
    """
    active, own = work.plan.active, own_weights(work, table)
    if own is not None:
        check_some_weigh(table, work.private.weight, own)
    with session.scope("weights"):
        for lent in outline(work.plan, work.parameters):
            if work.party == active:
                return _received(session, lent.sender, table.frame.height)
            if own is not None:
                session.send(active, LentWeights(own))
    return own if work.party == active else None


def as_secret(weights: Floats | None) -> bytes:
    """Weights as a part of what a resumed run compares."""
    return b"" if weights is None else weights.tobytes()


def _received(session: Session, sender: str, rows: int) -> Floats:
    weights = session.recv(sender, LentWeights, at_most=rows * np.dtype(np.float64).itemsize).weights
    if weights.shape != (rows,):
        raise ProtocolError(f"invalid LentWeights from {sender}: {rows} rows are common, and it is not one for each")
    if not ((weights >= 0) & (weights <= LARGEST_WEIGHT)).all():
        raise ProtocolError(f"invalid LentWeights from {sender}: {WRONG_WEIGHT}")
    if none_weighs(weights):
        raise ProtocolError(f"invalid LentWeights from {sender}: {NO_WEIGHT}")
    return weights
