"""Why people are first on a list: what each owner's columns add to their scores, told to that owner alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from unpooled.arrays import Floats, Ints
from unpooled.data.prepare import Preparation
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.jobs.kind import Agreement
from unpooled.jobs.learning import setup_of
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.scores import write_rows
from unpooled.jobs.work import Work
from unpooled.settings import Section
from unpooled.vertical import learners
from unpooled.vertical.explained import MOST_ROWS
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Explaining, Learner, LearnerParameters, Model, Part
from unpooled.vertical.team import Team

CONTRIBUTIONS = "contributions.csv"
BASE, TOGETHER = "(base)", "(all columns)"
"""What stands in place of a column: where the score begins, and what another party's columns add in all."""

SHOWN = Agreement(
    "explain",
    "{passive} will know which of the common rows score highest, and how much their own columns add to these scores",
    "explain",
)
SOUGHT = Agreement(
    "explain", "{passive} will know which people are first on the list, and how much their own columns add", "explain"
)
LENT = Agreement("explain", "{active} learns how much all columns of {party} together add to these scores", "explain")


class ExplainRules(Section):
    """The part of a plan that says how many rows are explained."""

    explain: int = Field(
        0,
        description="how many of the first people are explained: each owner learns who they are, and how much each of "
        "its own columns adds to their scores, if all agree",
        ge=0,
        le=MOST_ROWS,
    )


def explaining_of(learner: Learner) -> Explaining:
    """How a learner's models are explained; a PlanError if they cannot be."""
    if learner.explaining is None:
        raise PlanError(f"explain: {learner.models} cannot say what columns add; leave it out of the plan")
    return learner.explaining


def outline(plan: Plan, rules: ExplainRules, parameters: LearnerParameters | None = None) -> list[Exchange]:
    """What is sent to explain rows by a model with these parameters, or by one that the plan does not know."""
    if not rules.explain:
        return []
    if parameters is not None:
        return explaining_of(learners.learner_of(parameters)).outline(setup_of(plan), parameters)
    return [
        replace(one, only_if=f"if the model is of {learner.models} {one.only_if}".rstrip())
        for learner in learners.LEARNERS
        if learner.explaining is not None
        for one in learner.explaining.outline(setup_of(plan), None)
    ]


def explain(
    team: Team,
    work: Work[Any],
    learner: Learner,
    model: Model,
    columns: Columns,
    table: Table,
    preparation: Preparation,
    first: Ints,
    outputs: Ints | None = None,
) -> dict[str, Any]:
    """At the active party: explain the first rows in their order, each for one of the outputs that its score has.

    Others are told of these rows by their place in the table, which says nothing of their order.
    """
    explaining, order = explaining_of(learner), np.argsort(first)
    wanted = np.zeros(len(first), np.int64) if outputs is None else outputs
    with team.session.scope("explain"):
        found = explaining.contributions(team, model, columns, first[order], wanted[order])
    back = np.argsort(order)
    own = _by_source(found.own, preparation)[back]
    others = {party: totals[back] for party, totals in found.others.items()}
    more = {("", BASE): found.base[back]} | {(party, TOGETHER): totals for party, totals in others.items()}
    _write(work, table.take(first), own, tuple(dict.fromkeys(preparation.sources)), more)
    summary = _summary(own, preparation)
    parties = [{"name": party, "size": _size(totals)} for party, totals in others.items()]
    return {"explained": summary | {"margin": explaining.margin(model.parameters), "parties": parties}}


def help_explain(
    team: Team,
    work: Work[Any],
    learner: Learner,
    part: Part,
    columns: Columns,
    table: Table,
    preparation: Preparation,
    most: int,
) -> dict[str, Any]:
    """At a passive party: what its own columns add to the scores of at the most so many rows."""
    with team.session.scope("explain"):
        rows, found = explaining_of(learner).help_contributions(team, part, columns, most)
    own = _by_source(found, preparation)
    _write(work, table.take(rows), own, tuple(dict.fromkeys(preparation.sources)))
    return {"explained": _summary(own, preparation)}


def _by_source(found: Floats, preparation: Preparation) -> Floats:
    """What the columns of the table add; levels of a category have columns of their own only in the matrix."""
    sources = list(dict.fromkeys(preparation.sources))
    summed = np.zeros((len(found), len(sources)))
    for place, source in enumerate(preparation.sources):
        summed[:, sources.index(source)] += found[:, place]
    return summed


def _summary(own: Floats, preparation: Preparation) -> dict[str, Any]:
    """How much each column adds, up or down, in the mean over the rows; in which no single row shows but the only one."""
    sizes = dict(zip(dict.fromkeys(preparation.sources), map(_size, own.T), strict=True))
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    return {"rows": len(own), "columns": [{"name": name, "size": sizes[name]} for name in ranked]}


def _size(values: Floats) -> float:
    return float(np.abs(values).mean())


def _write(
    work: Work[Any],
    rows: Table,
    own: Floats,
    names: tuple[str, ...],
    more: Mapping[tuple[str, str], Floats] | None = None,
) -> None:
    """Write a line for each row and column, row by row: party, column, the cell, and what it adds."""
    lines = dict(more or {}) | {(work.party, name): own[:, place] for place, name in enumerate(names)}
    cells = {name: rows.column(name).cast(pl.String).to_list() for name in names}
    each = [
        (party, name, cells[name][row] if party == work.party else None, float(values[row]))
        for row in range(len(own))
        for (party, name), values in lines.items()
    ]
    schema = {"party": pl.String, "column": pl.String, "value": pl.String, "contribution": pl.Float64}
    written = pl.DataFrame(each, schema, orient="row")
    ids = rows.ids[np.repeat(np.arange(len(own)), len(lines))]
    write_rows(work.folder / CONTRIBUTIONS, ids, {column.name: column for column in written})
