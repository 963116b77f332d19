"""Parties' tables as numbers: each party makes its own columns ready, as in a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import polars as pl

from unpooled.data.columns import Kind
from unpooled.data.prepare import Preparation, PrepareSettings, clean, fit, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.estimators.apart import Apart, select
from unpooled.jobs.learning.common import columns_of
from unpooled.jobs.learning.scores import free_name
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Learner

T = TypeVar("T")

_ROW = "row"


def learn(
    rows: Apart, settings: PrepareSettings, types: Mapping[str, Kind], learner: Learner
) -> tuple[dict[str, Preparation], dict[str, Columns]]:
    """What each party learns from the training rows, and its columns of these as a learner takes them."""
    if settings.missing == "drop":
        raise InputError("prepare.missing: 'drop' would leave out rows at one party alone; take 'impute' or 'keep'")
    held = {str(name) for frame in rows.frames.values() for name in frame.columns}
    for what, names in (("types", types), ("prepare.limits", settings.limits)):
        if strange := [name for name in names if name not in held]:
            raise InputError(f"{what}: no party holds a column '{strange[0]}'")
    preparations, columns = {}, {}
    for party, frame in rows.frames.items():
        own = settings.model_copy(update={"limits": _held(settings.limits, frame)})
        table = _table(party, frame, len(rows), own, types)
        preparations[party] = fit(table, own)
        columns[party] = columns_of(transform(preparations[party], table), table, learner)
    return preparations, columns


def use(preparations: Mapping[str, Preparation], rows: Apart, learner: Learner) -> dict[str, Columns]:
    """The parties' columns of new rows, in the types that they had in training."""
    if absent := [party for party in preparations if party not in rows.frames]:
        raise InputError(f"{absent[0]} held columns in training, and has no table now")
    columns = {}
    for party, preparation in preparations.items():
        frame, kinds = rows.frames[party], preparation.kinds
        needed = select(frame, [name for name in frame.columns if str(name) in kinds])
        known = preparation.settings.model_copy(update={"limits": _held(preparation.settings.limits, needed)})
        table = _table(party, needed, len(rows), known, kinds)
        columns[party] = columns_of(transform(preparation, table), table, learner)
    return columns


def _held(settings: Mapping[str, T], frame: Any) -> dict[str, T]:
    """Those of the columns that a party holds."""
    held = set(map(str, frame.columns))
    return {name: value for name, value in settings.items() if name in held}


def _table(party: str, frame: Any, rows: int, settings: PrepareSettings, types: Mapping[str, Kind]) -> Table:
    """A party's cleaned table; the id of each row is its number."""
    row = free_name(_ROW, list(map(str, frame.columns)))
    numbers = range(rows)
    if not len(frame.columns):
        frame = pl.DataFrame({row: numbers})
    elif isinstance(frame, pl.DataFrame):
        frame = frame.with_columns(pl.Series(row, numbers))
    else:
        frame = frame.assign(**{row: numbers})
    return clean(table_from_frame(frame, row, party, _held(types, frame)), settings)[0]
