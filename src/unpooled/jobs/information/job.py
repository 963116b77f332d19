"""How much each party's columns say about the active party's labels: information value and weight of evidence (WoE)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from unpooled.align.handles import RowRules
from unpooled.align.rows import Places
from unpooled.arrays import Ints
from unpooled.data.columns import as_text, fault
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.information.bins import LEAST_BINS, MOST_BINS, ColumnBins, columns_in_bins
from unpooled.information.protocol import (
    InformationSettings,
    find_information,
    information_outline,
    lend_information,
)
from unpooled.information.values import (
    as_fraction,
    by_chance,
    counts_of,
    information_value,
    verdict,
    weights_of_evidence,
)
from unpooled.jobs.align import job as align
from unpooled.jobs.learning.common import answered_in, answering_limits, rules_of, setup_of, team_of, waiting_in
from unpooled.jobs.learning.labels import check_columns, features_of, known_labels
from unpooled.jobs.learning.scores import write_rows
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import WORKING, CheckedJob, Work, asked_before
from unpooled.secure.engine import MEGABYTE, Engine, HowFar, Serving, open_engine
from unpooled.secure.lookup_dealer import serve_lookups
from unpooled.secure.outline import engine_outline
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.team import Team

VALUES, EVIDENCE = "information.csv", "woe.csv"
MOST_DECIMALS = 4
_CLASSES = 2


class Parameters(align.Parameters, RowRules):
    """What the job can be told."""

    bins: int = Field(
        10,
        description="in how many bins a column is counted at the most, besides one for missing cells",
        ge=LEAST_BINS,
        le=MOST_BINS,
    )
    min_rows: int = Field(
        30, description="the fewest rows of a bin; what would have fewer is counted with another", ge=1
    )
    show: Literal["iv", "woe"] = Field(
        "iv",
        description="iv: one information value for each column; woe: besides, its owner learns the weight of evidence "
        "of each of its bins, and so about how many positives each has; the active party must agree to it "
        "(consent.woe)",
    )
    woe_decimals: int = Field(
        2, description="how many decimals a weight of evidence has that another party learns", ge=0, le=MOST_DECIMALS
    )

    @property
    def settings(self) -> InformationSettings:
        return InformationSettings(self.bins, self.show, self.woe_decimals)


@dataclass(frozen=True, eq=False)
class OwnColumn:
    """What an owner knows of its own column: its information value, and if it is shown the WoE of each bin."""

    column: ColumnBins
    iv: float
    sizes: Ints
    woe: Sequence[float] | None


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part: align, then compute information values together; each owner keeps a file of its own."""
    plan, places = work.plan, align.places_of(work.plan, work.parameters)
    check_settings(work)
    if session.party == plan.active:
        work = _labelled(work)
    elif work.table is not None:
        check_features(work.private, work.table)
    common = align.common_rows(session, work, places)
    if not isinstance(common, align.Common):
        with session.scope("information"):
            return _served(session, work, places, common)
    table, settings = common.table, work.parameters.settings
    rules = {"most": settings.bins, "min_rows": work.parameters.min_rows}
    with session.scope("information"):
        engine = _open(session, work, places)
        team, dealer = team_of(plan, engine, common.digest), _dealer(plan)
        columns = columns_in_bins(features_of(table, work.private), **rules)
        with asked_before(work).counting(engine, common.digest, {}):  # all that is asked is counted at once
            if session.party == plan.active:
                found = _found(team, dealer, columns, table, work)
            else:
                found = _lent(team, dealer, list(columns), work)
        finish(engine)
    return common.counts | found | answered_in(engine)


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What the job sends; lookups take more messages where there are many columns."""
    align.places_of(plan, parameters)
    setup = setup_of(plan)
    begin, end = engine_outline(setup)
    begin += [Exchange(setup.active, party, HowFar) for party in waiting_in(plan)]
    return [*align.outline(plan, parameters), *begin, *information_outline(setup, parameters.settings), *end]


def check_settings(job: CheckedJob[Parameters]) -> None:
    """Refuse weights of rows."""
    if job.private.weight is not None:
        raise PlanError(f"{job.party}: weight: every row counts the same in information values: remove it")


def check_labels(private: Private, table: Table) -> None:
    """Refuse a target that has not two labels."""
    check_columns(private, table, _CLASSES)
    names = _names_of(private, table)
    if len(names) != _CLASSES:
        reason = f"information values need a column with two labels; there are {len(names)}"
        raise fault(table.party, table.origin, reason, private.target)


def check_features(private: Private, table: Table) -> None:
    """Refuse a table of a passive party that has no columns."""
    if not features_of(table, private).kinds:
        raise fault(table.party, table.origin, "the table has no columns besides the ids")


def _names_of(private: Private, table: Table) -> tuple[str, ...]:
    """The labels that occur, in order; the last one is the positive."""
    return tuple(as_text(table.column(private.target or "").drop_nulls().unique().sort()).to_list())


def _labelled(work: Work[Parameters]) -> Work[Parameters]:
    """At the active party: people without a label do not take part."""
    if (table := work.table) is None:
        return work
    check_labels(work.private, table)
    known = np.flatnonzero(table.column(work.private.target or "").is_not_null())
    if unlabelled := table.frame.height - len(known):
        left_out = {**work.left_out, "rows_without_label": unlabelled}
        return replace(work, table=table.take(known), left_out=left_out)
    return work


def _dealer(plan: Plan) -> str:
    """Who deals random numbers for lookups; where nothing is protected, the active party."""
    return plan.active if plan.engine == "plain" else plan.with_role("coordinator")[0]


def _open(session: Session, work: Work[Parameters], places: Places) -> Engine:
    plan, private = work.plan, work.private
    who, limits = (plan.owners, plan.active, places.coordinator), answering_limits(private.policy)
    return open_engine(session, rules_of(plan), *who, *limits, folder=work.folder / WORKING, spending=work.spending)


def _served(session: Session, work: Work[Parameters], places: Places, common: int | None) -> dict[str, Any]:
    """At the coordinator: deal random numbers for lookups, then serve products."""
    if work.plan.engine == "plain":
        return {}
    most, passive = work.private.policy.maximum_served_megabytes, work.plan.with_role("passive")
    size = serve_lookups(session, work.plan.active, passive, Serving(most))
    size += serve(_open(session, work, places), Serving(most, common))
    return {"served_megabytes": round(size / MEGABYTE, 3)}


def _found(
    team: Team, dealer: str, columns: Iterable[ColumnBins], table: Table, work: Work[Parameters]
) -> dict[str, Any]:
    """At the active party: its own columns in the clear, the others' together with their owners."""
    check_labels(work.private, table)
    names, decimals = _names_of(work.private, table), work.parameters.woe_decimals
    labels = known_labels(table, work.private, names).values.astype(np.int64)
    lent = find_information(team, dealer, labels, work.parameters.settings)
    own, positives = [_own_column(column, labels, decimals) for column in columns], int(labels.sum())
    shown = {owner: [as_fraction(int(value)) for value in values] for owner, values in lent.items()}
    _write(work.folder, team.active, own, shown)
    return {
        "positive": names[1],
        "negative": names[0],
        "positives": positives,
        "by_chance": by_chance(work.parameters.bins, positives, len(labels) - positives),
        "columns": [_said(column) for column in own],
        "lent": shown,
        "file": VALUES,
    }


def _lent(team: Team, dealer: str, columns: Sequence[ColumnBins], work: Work[Parameters]) -> dict[str, Any]:
    """At a passive party: its columns, which the active party sees by numbers, in an order that it draws."""
    order, decimals = team.session.rng.permutation(len(columns)), work.parameters.woe_decimals
    columns = [columns[place] for place in order]
    values, evidence = lend_information(team, dealer, columns, work.parameters.settings)
    own = []
    for number, column in enumerate(columns):
        sizes = np.bincount(column.bins, minlength=len(column.meanings))
        woe = None if evidence is None else [value / 10**decimals for value in evidence[number, : len(sizes)].tolist()]
        own.append(OwnColumn(column, as_fraction(int(values[number])), sizes, woe))
    _write(work.folder, team.session.party, own, {})
    return {"columns": [_said(column) | {"number": n} for n, column in enumerate(own, 1)], "file": VALUES}


def _own_column(column: ColumnBins, labels: Ints, decimals: int) -> OwnColumn:
    counts = counts_of(column.bins, labels, len(column.meanings))
    woe = [value / 10**decimals for value in weights_of_evidence(*counts, decimals).tolist()]
    return OwnColumn(column, as_fraction(information_value(*counts)), counts[0] + counts[1], woe)


def _said(own: OwnColumn) -> dict[str, Any]:
    return {"name": own.column.name, "iv": own.iv, "bins": int((own.sizes > 0).sum())}


def _write(folder: Path, party: str, own: Sequence[OwnColumn], lent: Mapping[str, Sequence[float]]) -> None:
    """Write what this party learned of columns, the best first, and of bins, if it learned that."""
    found = [(party, each.column.name, each.iv) for each in own]
    found += [(owner, f"column {number}", iv) for owner, ivs in lent.items() for number, iv in enumerate(ivs, 1)]
    found.sort(key=lambda line: -line[2])
    parties, names, ivs = (list(each) for each in zip(*found, strict=True)) if found else ([], [], [])
    ids = pl.DataFrame({"party": parties, "column": names}, schema={"party": pl.String, "column": pl.String})
    values = {"iv": pl.Series(ivs, dtype=pl.Float64), "verdict": pl.Series(map(verdict, ivs), dtype=pl.String)}
    write_rows(folder / VALUES, ids, values)
    bins = [
        (each.column.name, meaning.text, meaning.above, meaning.up_to, int(rows), woe)
        for each in own
        if each.woe is not None
        for meaning, rows, woe in zip(each.column.meanings, each.sizes, each.woe, strict=True)
        if rows
    ]
    if bins:
        names = ["column", "bin", "above", "up_to", "rows", "woe"]
        frame = pl.DataFrame(bins, names, orient="row")
        write_rows(folder / EVIDENCE, frame.select(names[:2]), {name: frame[name] for name in names[2:]})
