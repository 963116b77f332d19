"""A party's table in memory: ids as text, every other column of a known type.

An id keeps its leading zeros, has one way to write each letter (Unicode NFC) and loses white space around it. One that
is very long, or holds invisible characters, is refused. A blank id, or one of the texts for a missing value, is null:
`prepare.clean` refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.data.columns import MISSING_TEXTS, Kind, fault, infer, typed, unfit_ids, what_is_wrong, without_missing


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one party; `origin` is the table's name in errors, `kinds` the types of the columns besides the ids.

    `hashed`: its ids are hashes already.
    """

    party: str
    origin: str
    id: tuple[str, ...]
    kinds: dict[str, Kind]
    frame: pl.DataFrame
    hashed: bool = False

    @property
    def ids(self) -> pl.DataFrame:
        """The id columns alone."""
        return self.frame.select(self.id)

    def take(self, rows: NDArray[np.integer]) -> Table:
        """The rows at these positions (from 0), in this order."""
        return replace(self, frame=self.frame[rows])


def table_from_frame(
    frame: Any,
    id: str | Sequence[str],
    party: str,
    types: Mapping[str, Kind] | None = None,
    missing: Sequence[str] = MISSING_TEXTS,
) -> Table:
    """A table from a polars or pandas data frame; every column besides the ids is used."""
    origin = "data frame"
    if not isinstance(frame, pl.DataFrame):
        frame = _from_pandas(frame, party, origin)
    ids = (id,) if isinstance(id, str) else tuple(id)
    absent = [name for name in ids if name not in frame.columns]
    if absent:
        raise fault(party, origin, f"there is no such column; there are: {', '.join(frame.columns)}", absent[0])
    return table_from_raw(frame, ids, party, origin, types or {}, missing, untyped=False)


def table_from_raw(
    raw: pl.DataFrame,
    ids: Sequence[str],
    party: str,
    origin: str,
    types: Mapping[str, Kind],
    missing: Sequence[str],
    untyped: bool,
) -> Table:
    """Give every column its declared or inferred type; `untyped`: the source has only text."""
    features = [name for name in raw.columns if name not in ids]
    for name in types:
        if name not in features:
            raise fault(party, origin, "its type is declared, but it is not among the columns that are read", name)
    columns = [_id_text(raw[name], party, origin, missing) for name in ids]
    kinds: dict[str, Kind] = {}
    for name in features:
        cells = without_missing(raw[name], missing)
        inferred = infer(cells, untyped)
        if inferred is None:
            raise fault(party, origin, f"cells of type {cells.dtype} cannot be used; leave the column out", name)
        kinds[name] = types.get(name, inferred)
        column = typed(cells, kinds[name])
        refused = (cells.is_not_null() & column.is_null()).arg_true() + 1
        if len(refused):
            raise fault(party, origin, what_is_wrong(kinds[name]), name, refused.to_list())
        columns.append(column.fill_nan(None) if kinds[name] == "number" else column)
    return Table(party, origin, tuple(ids), kinds, pl.DataFrame(columns))


def _id_text(cells: pl.Series, party: str, origin: str, missing: Sequence[str]) -> pl.Series:
    """Ids as text; floats, as which pandas keeps whole numbers beside missing ones, have no exact text."""
    if cells.dtype.is_integer() or cells.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Null):
        texts = without_missing(cells.cast(pl.String).str.normalize("NFC"), ["", *missing])
        if unfit := unfit_ids(texts):
            raise fault(party, origin, unfit[0], cells.name, unfit[1])
        return texts
    raise fault(party, origin, f"ids must be texts or whole numbers, not {cells.dtype}", cells.name)


def _from_pandas(frame: Any, party: str, origin: str) -> pl.DataFrame:
    """Cell by cell, because the fast way needs pyarrow, which is not a dependency."""
    columns = []
    for name in frame.columns:
        cells = frame[name].astype(object)
        values = cells.where(cells.notna(), None).tolist()
        try:
            columns.append(pl.Series(str(name), values))
        except (TypeError, pl.exceptions.PolarsError):
            raise fault(party, origin, "its cells are of different types", str(name)) from None
    return pl.DataFrame(columns)
