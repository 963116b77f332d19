"""Differences of two runs: whoever aligns twice sees which people were added to another party's table in between.

Only the alignment is simulated, with made-up ids: what two lists of common rows tell depends on the plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from unpooled.attacks.stage import id_of, made_up, staged
from unpooled.jobs.align.job import LABEL
from unpooled.jobs.plan import Plan
from unpooled.run.simulate import simulate_job

PEOPLE, ADDED = 300, 10


@dataclass(frozen=True)
class Difference:
    """By the other parties how many of the added people each can name after the second run."""

    added: int
    named: dict[str, int]


def two_runs(plan: Plan, holder: str, psi: str) -> Difference:
    """Align, add some people to a party's table, and align again."""
    lists = [_lists(plan, holder, psi, people) for people in (PEOPLE - ADDED, PEOPLE)]
    added = {id_of(person) for person in range(PEOPLE - ADDED, PEOPLE)}
    others = [party for party in plan.parties if party != holder]
    return Difference(ADDED, {party: len((lists[1][party] - lists[0][party]) & added) for party in others})


def _lists(plan: Plan, holder: str, psi: str, people: int) -> dict[str, set[str]]:
    """By party whom it knows to be in the holder's table, if that has so many people, and the others' have all."""
    aligning = plan.model_copy(update={"kind": "align", "engine": "plain", "audit": False, "parameters": {"psi": psi}})
    tables = {
        party: made_up(party, {}, np.arange(people if party == holder else PEOPLE))
        for party, told in plan.parties.items()
        if told.role != "coordinator"
    }
    about = {"people": PEOPLE, "secret": np.zeros(PEOPLE, bool), "holder": holder, "sought": ""}
    stage = staged(aligning, tables, {}, **about)
    found = simulate_job(aligning, stage.privates, tables).tables
    seeks = plan.parties[holder].role == "seeker"
    return {party: _known(found.get(party, {}).get("aligned"), labelled=seeks) for party in plan.parties}


def _known(aligned: pl.DataFrame | None, *, labelled: bool) -> set[str]:
    """The ids in an owner's list; of a seeker's people only those that are marked."""
    if aligned is None or (labelled and LABEL not in aligned.columns):
        return set()
    rows = aligned.filter(pl.col(LABEL).cast(pl.Int64) == 1) if labelled else aligned
    return set(rows[rows.columns[0]].cast(pl.String).to_list())
