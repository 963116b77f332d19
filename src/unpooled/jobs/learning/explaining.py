"""Why people are first on a list: what each owner's columns add to their scores, told to that owner alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from unpooled.arrays import Floats, Ints
from unpooled.data.prepare import Preparation
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.jobs.kind import Agreement
from unpooled.jobs.learning.common import setup_of
from unpooled.jobs.learning.scores import write_rows
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.work import Work
from unpooled.secure.query_count import Asked
from unpooled.settings import Section
from unpooled.vertical import learners
from unpooled.vertical.explained import MOST_ROWS
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Explaining, Learner, LearnerParameters, Model, Part
from unpooled.vertical.team import Team

CONTRIBUTIONS, LINES = "contributions.csv", ("party", "column", "value", "contribution")
"""The file of an owner, and what stands behind the ids there."""

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


@dataclass(frozen=True)
class OwnRows:
    """A party's common rows: as they are in its table, and as its learner takes them."""

    table: Table
    preparation: Preparation
    columns: Columns

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the table that the learner has."""
        return tuple(dict.fromkeys(self.preparation.sources))


def explain(
    team: Team, work: Work[Any], rows: OwnRows, model: Model, first: Ints, outputs: Ints | None = None
) -> dict[str, Any]:
    """At the active party: explain the first rows in their order, each for one of the outputs that its score has.

    Others are told which rows these are in the order of the table, which says nothing of who comes first.
    """
    explaining, order = explaining_of(learners.learner_named(model.learner)), np.argsort(first)
    wanted = np.zeros(len(first), np.int64) if outputs is None else outputs
    with team.session.scope("explain"):
        found = explaining.contributions(team, model, rows.columns, first[order], wanted[order])
    back = np.argsort(order)
    own, others = _by_source(found.own[back], rows), {party: added[back] for party, added in found.others.items()}
    more = {("", BASE): found.base[back]} | {(party, TOGETHER): added for party, added in others.items()}
    _write(work, rows.table.take(first), dict(zip(rows.sources, own.T, strict=True)), more)
    parties = [{"name": party, "size": _size(added)} for party, added in others.items()]
    return {"explained": _summary(own, rows) | {"margin": explaining.margin(model.parameters), "parties": parties}}


def help_explain(team: Team, work: Work[Any], rows: OwnRows, part: Part, most: int, asked: Asked) -> dict[str, Any]:
    """At a passive party: what its own columns add to the scores of at the most so many rows; `asked` counts on."""
    explaining = explaining_of(learners.learner_named(part.learner))
    with team.session.scope("explain"), asked.counting(team.products, team.digest):
        chosen, found = explaining.help_contributions(team, part, rows.columns, most)
    own = _by_source(found, rows)
    _write(work, rows.table.take(chosen), dict(zip(rows.sources, own.T, strict=True)), {})
    return {"explained": _summary(own, rows)}


def _by_source(found: Floats, rows: OwnRows) -> Floats:
    """What columns of the table add; the levels of a category have columns of their own in the matrix alone."""
    summed, places = np.zeros((len(found), len(rows.sources))), {name: at for at, name in enumerate(rows.sources)}
    for place, source in enumerate(rows.preparation.sources):
        summed[:, places[source]] += found[:, place]
    return summed


def _summary(own: Floats, rows: OwnRows) -> dict[str, Any]:
    """How much each column adds or takes away in the mean over the rows, the strongest first."""
    sizes = dict(zip(rows.sources, map(_size, own.T), strict=True))
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    return {"rows": len(own), "columns": [{"name": name, "size": sizes[name]} for name in ranked]}


def _size(values: Floats) -> float:
    return float(np.abs(values).mean())


def _texts(cells: pl.Series) -> list[str | None]:
    """Cells as people write them: tables have whole numbers as fractions too.

    >>> _texts(pl.Series([28.0, 0.5, None])), _texts(pl.Series(["plus"]))
    (['28', '0.5', None], ['plus'])
    """
    texts = cells.cast(pl.String)
    return (texts.str.strip_suffix(".0") if cells.dtype.is_float() else texts).to_list()


def _write(work: Work[Any], chosen: Table, own: Mapping[str, Floats], more: Mapping[tuple[str, str], Floats]) -> None:
    """Write lines row by row: `more` by party and what stands for a column, then own columns, each with its cell."""
    cells = {name: _texts(chosen.column(name)) for name in own}
    lines = [
        line
        for row in range(chosen.frame.height)
        for line in (
            *((party or None, name, None, added[row]) for (party, name), added in more.items()),
            *((work.party, name, cells[name][row], added[row]) for name, added in own.items()),
        )
    ]
    written = pl.DataFrame(lines, dict(zip(LINES, (*[pl.String] * 3, pl.Float64), strict=True)), orient="row")
    ids = chosen.ids[np.repeat(np.arange(chosen.frame.height), len(own) + len(more))]
    write_rows(work.folder / CONTRIBUTIONS, ids, {column.name: column for column in written})
