"""Columns back in the types that their source had, as far as it had types.

A CSV file has none: there whole numbers become integers, categories categories, and dates dates. A Parquet file or a
data frame gets the very types of its columns back.

>>> cells = pl.Series("visits", [3.0, None, 5.0])
>>> restored(cells, "number", None, whole=True).dtype, restored(cells, "number", pl.UInt8(), whole=True).dtype
(Int64, UInt8)
"""

from __future__ import annotations

import polars as pl

from unpooled.data.coding import learn
from unpooled.data.columns import Kind, fault, kind_name
from unpooled.data.table import Table

_EXACT = 2.0**53


def restored(cells: pl.Series, kind: Kind, dtype: pl.DataType | None, *, whole: bool) -> pl.Series:
    """A column of a table in its source's type, or in the usual one for its kind; `whole` says it has no fractions."""
    if dtype is not None and not (dtype == pl.String and kind in ("number", "date", "boolean")):
        texts = kind == "category" or isinstance(kind, tuple)
        return cells.cast(pl.String).cast(dtype) if texts else cells.cast(dtype)
    if kind == "number" and whole:
        return cells.cast(pl.Int64)
    return cells.cast(pl.Categorical) if kind == "category" else cells


def check_restorable(table: Table) -> None:
    """Refuse a table with a column whose cells cannot be given back as they were."""
    for name, kind in table.kinds.items():
        if reason := _lost(table, name, kind):
            raise fault(table.party, table.origin, reason, name)


def _lost(table: Table, name: str, kind: Kind) -> str:
    """What would be lost of a column; nothing if all is well."""
    if name in table.timed:
        return "its dates have a time of day or a time zone, which is not kept; leave it out, or make it a number"
    column, dtype = learn(name, kind, table.frame[name]), table.dtypes.get(name)
    largest = max(abs(column.low or 0.0), abs(column.high or 0.0))
    if isinstance(dtype, pl.Decimal):
        largest *= 10.0**dtype.scale
    if kind == "number" and (column.whole or isinstance(dtype, pl.Decimal)) and largest >= _EXACT:
        return "numbers of more than 15 digits are not kept exactly; declare it a category, or leave it out"
    try:
        restored(table.frame[name], kind, dtype, whole=column.whole)
    except pl.exceptions.PolarsError:
        return f"its cells, read as {kind_name(kind)}, cannot be written as {dtype} again; declare no type for it"
    return ""
