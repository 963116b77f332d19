"""Send the seeker a list of another length from the ranking of an earlier search: nothing is learned anew."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from unpooled.align.normalise import IdRules
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.jobs.deliver.earlier import advice_in, ranking_in
from unpooled.jobs.exclusion import rows_left
from unpooled.jobs.lookalike import list_files
from unpooled.jobs.lookalike.advice import ADVICE_BYTES, Advice, checked_advice
from unpooled.jobs.lookalike.list_files import Lookalikes
from unpooled.jobs.lookalike.receiving import LISTED_BYTES, received
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.work import Work
from unpooled.pu.ranking import Ranking
from unpooled.session import Session

_MOST = 2**31 - 1
"""Iterations and people that a search can have had: the seeker has not kept the earlier plan."""


class Parameters(IdRules):
    """What a delivery can be told."""

    top: int = Field(
        1000, description="how many look-alikes the seeker receives: the first of the earlier search", ge=1
    )
    advice: bool = Field(
        False,
        description="the active party also tells the seeker what to expect of lists of several lengths, if it agrees "
        "to that",
    )


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: the active party sends, the seeker receives, the others have agreed to it."""
    (seeker,) = work.plan.with_role("seeker")
    with session.scope("deliver"):
        if session.party == work.plan.active:
            return _send(session, work, seeker)
        if session.party == seeker and work.table is not None:
            return _receive(session, work, work.table)
    return {}


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What a delivery sends."""
    seekers = plan.with_role("seeker")
    if len(seekers) > 1:
        raise PlanError("parties: there can be one seeker at most")
    (seeker,) = seekers
    advice = [Exchange(plan.active, seeker, Advice, 1, ADVICE_BYTES)] if parameters.advice else []
    return [Exchange(plan.active, seeker, Lookalikes, 1), *advice]


def _send(session: Session, work: Work[Parameters], seeker: str) -> dict[str, Any]:
    """At the active party: the first of the kept ranking, without the people of its own file."""
    rules, private, party = work.parameters, work.private, work.party
    kept = ranking_in(private, party)
    hashed = work.table.hashed if work.table else bool(private.table and private.table.hashed)
    table = Table(party, "the ranking", tuple(kept.ids.columns), {}, kept.ids, hashed)
    scores = kept.lines["score"].fill_null(np.nan).to_numpy()
    ranking = Ranking(np.zeros(len(scores), bool), scores, kept.lines["iteration"].to_numpy().astype(np.int64))
    left = rows_left(table, private.exclude, rules, hashed=hashed)
    chosen = left[: rules.top]
    session.send(seeker, list_files.message_of(table, rules, ranking, chosen))
    if rules.advice:
        session.send(seeker, advice_in(private, party))
    excluded = {"excluded": len(scores) - len(left)} if private.exclude else {}
    return {"ranked": len(scores), "listed": len(chosen)} | excluded


def _receive(session: Session, work: Work[Parameters], table: Table) -> dict[str, Any]:
    active, top = work.plan.active, work.parameters.top
    said = session.recv(active, Lookalikes, at_most=top * LISTED_BYTES)
    found = list_files.listed(said, table, active, top, _MOST)
    advice = checked_advice(session.recv(active, Advice), active, _MOST) if work.parameters.advice else None
    return received(work, found, advice)
