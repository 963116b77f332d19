"""A party's table in memory: ids as text, every other column of a known type.

An id keeps its leading zeros, has one way to write each letter (Unicode NFC) and loses white space around it. One that
is very long, or holds invisible characters, is refused. A blank id, or one of the texts for a missing value, is null:
`prepare.clean` refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import time
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.data.columns import MISSING_TEXTS, Kind, fault, unfit_ids, without_missing
from unpooled.data.inference import CellSettings, Note, Understood, mixed_decimals, understand
from unpooled.data.stored import Stored
from unpooled.errors import InputError

DATA_FRAME = "data frame"
"""What a table that comes from Python is called in errors."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one party; `origin` is the table's name in errors, `kinds` the types of the columns besides the ids.

    `hashed`: its ids are hashes already. `notes` are what its owner should know about how it was read. `dtypes` are the
    types of columns in the source, if it has types; `timed` are columns of dates whose cells had a time of day.
    `handles` are those of its rows, from a file beside it; null for a row that has none. `frame` has all columns, or
    the ids alone where the others are `stored` on disk.
    """

    party: str
    origin: str
    id: tuple[str, ...]
    kinds: dict[str, Kind]
    frame: pl.DataFrame
    hashed: bool = False
    notes: tuple[Note, ...] = ()
    dtypes: Mapping[str, pl.DataType] = field(default_factory=dict)
    timed: tuple[str, ...] = ()
    handles: pl.Series | None = None
    stored: Stored | None = None

    def column(self, name: str) -> pl.Series:
        """A column, from memory or from disk."""
        return self.frame[name] if self.stored is None or name in self.id else self.stored[name]

    def with_column(self, cells: pl.Series) -> Table:
        """The same with other cells of a column that is no id."""
        if self.stored is None:
            return replace(self, frame=self.frame.with_columns(cells))
        return replace(self, stored=self.stored.with_column(cells))

    def in_memory(self) -> Table:
        """The same with all columns in memory."""
        if self.stored is None:
            return self
        return replace(self, frame=self.frame.hstack([self.stored[name] for name in self.kinds]), stored=None)

    @property
    def ids(self) -> pl.DataFrame:
        """The id columns alone."""
        return self.frame.select(self.id)

    def take(self, rows: NDArray[np.integer]) -> Table:
        """The rows at these positions (from 0), in this order."""
        handles = None if self.handles is None else self.handles[rows]
        stored = None if self.stored is None else self.stored.take(rows)
        return replace(self, frame=self.frame[rows], handles=handles, stored=stored)


def table_from_frame(
    frame: Any,
    id: str | Sequence[str],
    party: str,
    types: Mapping[str, Kind] | None = None,
    missing: Sequence[str] = MISSING_TEXTS,
) -> Table:
    """A table from a polars or pandas data frame; every column besides the ids is used."""
    frame, origin = as_polars(frame, party), DATA_FRAME
    ids = (id,) if isinstance(id, str) else tuple(id)
    absent = [name for name in ids if name not in frame.columns]
    if absent:
        raise fault(party, origin, f"there is no such column; there are: {', '.join(frame.columns)}", absent[0])
    return accepted(table_from_raw(frame, ids, party, origin, CellSettings(types or {}, missing)))


def table_from_raw(
    raw: pl.DataFrame | Stored,
    ids: Sequence[str],
    party: str,
    origin: str,
    settings: CellSettings,
    notes: Sequence[Note] = (),
    into: Stored | None = None,
) -> Table:
    """Give every column its declared or inferred type; columns that cannot be used as they are have a note.

    With `into` all but the ids are kept there, one after the other, and not in memory.
    """
    features = [name for name in raw.columns if name not in ids]
    for name in settings.types:
        if name not in features:
            raise fault(party, origin, "its type is declared, but it is not among the columns that are read", name)
    id_columns = [_id_text(raw[name], party, origin, settings.missing) for name in ids]
    columns, dtypes, timed = list[Understood](), dict[str, pl.DataType](), list[str]()
    for name in features:
        cells = raw[name]
        column = understand(cells, settings)
        dtypes[name] = cells.dtype
        if column.kind == "date" and _timed(cells):
            timed.append(name)
        if into is not None:
            into = into.with_column(column.cells)
            column = replace(column, cells=column.cells.clear())
        columns.append(column)
    found = [note for column in columns for note in column.notes] + mixed_decimals(raw, columns, settings)
    kinds = {column.cells.name: column.kind for column in columns}
    frame = pl.DataFrame([*id_columns, *(column.cells for column in columns if into is None)])
    found += [Note(name, "the time of day is dropped, and the date kept", "warning") for name in timed]
    return Table(
        party,
        origin,
        tuple(ids),
        kinds,
        frame,
        notes=(*notes, *found),
        dtypes={} if settings.untyped else dtypes,
        timed=tuple(timed),
        stored=into,
    )


def _timed(cells: pl.Series) -> bool:
    """Whether a date has a time of day, other than midnight, by the time zone in which dates are read."""
    if isinstance(cells.dtype, pl.Datetime):
        utc = cells.dt.convert_time_zone("UTC") if cells.dtype.time_zone else cells
        return bool((utc.dt.time() != time(0)).any())
    return cells.dtype == pl.String and bool(cells.str.contains(r"[0-9][T ][0-9:.]*[1-9]").any())


def accepted(table: Table) -> Table:
    """The table, if nothing in its notes is an error; otherwise all of them, a line for each column."""
    errors = [note for note in table.notes if note.level == "error"]
    if errors:
        raise InputError("\n".join(f"{table.party}: {table.origin}: {note}" for note in errors))
    return table


def _id_text(cells: pl.Series, party: str, origin: str, missing: Sequence[str]) -> pl.Series:
    """Ids as text; floats, as which pandas keeps whole numbers beside missing ones, have no exact text."""
    if cells.dtype.is_integer() or cells.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Null):
        texts = without_missing(cells.cast(pl.String).str.normalize("NFC"), ["", *missing])
        if unfit := unfit_ids(texts):
            raise fault(party, origin, unfit[0], cells.name, unfit[1])
        return texts
    raise fault(party, origin, f"ids must be texts or whole numbers, not {cells.dtype}", cells.name)


def as_polars(frame: Any, party: str) -> pl.DataFrame:
    """A polars or pandas data frame as one of polars."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if not hasattr(frame, "columns"):
        raise fault(party, DATA_FRAME, f"this is a {type(frame).__name__}, not a polars or pandas data frame")
    columns = []  # cell by cell, because the fast way needs pyarrow, which is not a dependency
    for name in frame.columns:
        cells = frame[name].astype(object)
        values = cells.where(cells.notna(), None).tolist()
        try:
            columns.append(pl.Series(str(name), values))
        except (TypeError, pl.exceptions.PolarsError):
            raise fault(party, DATA_FRAME, "its cells are of different types", str(name)) from None
    return pl.DataFrame(columns)
