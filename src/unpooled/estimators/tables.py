"""Parties' tables as numbers: each party makes its own columns ready, as in a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from unpooled.data.columns import Kind
from unpooled.data.prepare import Preparation, PrepareSettings, clean, fit, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.estimators.apart import Apart, select
from unpooled.jobs.learning import columns_of
from unpooled.jobs.scores import free_name
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Learner

_ROW = "row"


def learn(
    rows: Apart, settings: PrepareSettings, types: Mapping[str, Kind], learner: Learner
) -> tuple[dict[str, Preparation], dict[str, Columns]]:
    """What each party learns from the training rows, and its columns of these as a learner takes them."""
    if settings.missing == "drop":
        raise InputError("prepare.missing: 'drop' would leave out rows at one party alone; take 'impute' or 'keep'")
    for name in types:
        if not any(name in map(str, frame.columns) for frame in rows.frames.values()):
            raise InputError(f"types: no party holds a column '{name}'")
    tables = {party: _cleaned(party, rows, settings, types) for party in rows.parties}
    preparations = {party: fit(table, settings) for party, table in tables.items()}
    return preparations, {
        party: columns_of(transform(preparations[party], table), table, learner) for party, table in tables.items()
    }


def use(preparations: Mapping[str, Preparation], rows: Apart, learner: Learner) -> dict[str, Columns]:
    """The parties' columns of new rows, in the types that they had in training."""
    if absent := [party for party in preparations if party not in rows.frames]:
        raise InputError(f"{absent[0]} held columns in training, and has no table now")
    found = {}
    for party, preparation in preparations.items():
        table = _cleaned(party, rows, preparation.settings, preparation.kinds, known_only=True)
        found[party] = columns_of(transform(preparation, table), table, learner)
    return found


def _cleaned(
    party: str, rows: Apart, settings: PrepareSettings, types: Mapping[str, Kind], *, known_only: bool = False
) -> Table:
    """A party's table with the number of each row as its id; of `known_only` the columns whose type is given."""
    frame = rows.frames[party]
    by_name = {str(name): name for name in frame.columns}
    here = {name: kind for name, kind in types.items() if name in by_name}
    if known_only:
        frame = select(frame, [by_name[name] for name in here])
    row = free_name(_ROW, by_name)
    return clean(table_from_frame(_with_ids(frame, row, len(rows)), row, party, here), settings)[0]


def _with_ids(frame: Any, name: str, rows: int) -> Any:
    if not len(frame.columns):
        return pl.DataFrame({name: range(rows)})
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(pl.Series(name, range(rows)))
    return frame.assign(**{name: range(rows)})
