"""Rows as numbers, from a matrix or a data frame: numbers as they are, categories as the positions of their levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from unpooled.arrays import Floats
from unpooled.data.coding import Column, encode, learn, seen
from unpooled.networks.encoding import Encoding, learn_encoding

_LEVELS = 100


def is_frame(table: Any) -> bool:
    """Whether this is a data frame with columns that are not numbers."""
    if isinstance(table, pl.DataFrame):
        return not all(kind.is_numeric() for kind in table.dtypes)
    kinds = getattr(table, "dtypes", None)
    if kinds is None or not hasattr(table, "columns"):
        return False
    return any(getattr(kind, "kind", "O") not in "iuf" for kind in kinds)


def polars_of(table: Any) -> pl.DataFrame:
    """A polars or pandas data frame as a polars one, categories as texts."""
    if not isinstance(table, pl.DataFrame):
        table = pl.DataFrame({str(name): _cells(table[name]) for name in table.columns})
    frame: pl.DataFrame = table
    texts = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
    return frame.with_columns(pl.col(name).cast(pl.String) for name in texts)


def _cells(series: Any) -> list[Any]:
    if getattr(series.dtype, "kind", "O") in "iuf":
        cells: list[Any] = series.tolist()
        return cells
    return [None if missing else str(cell) for cell, missing in zip(series, series.isna(), strict=True)]


def frame_of(matrix: Floats, categories: Sequence[int]) -> pl.DataFrame:
    """A matrix as a data frame, the numbered columns as texts."""
    columns = {str(place): pl.Series(cells) for place, cells in enumerate(matrix.T)}
    return pl.DataFrame(columns).with_columns(pl.col(str(place)).cast(pl.String) for place in categories)


def learn_columns(frame: pl.DataFrame) -> tuple[Column, ...]:
    """What there is to know of the columns; ValueError where a number is missing."""
    found = []
    for cells in frame:
        kind = "number" if cells.dtype.is_numeric() else "category"
        found.append(learn(cells.name, kind, cells.cast(pl.Float64) if kind == "number" else cells))  # type: ignore[arg-type]
    return tuple(found)


def values_of(columns: Sequence[Column], frame: pl.DataFrame) -> Floats:
    """Rows × columns as numbers; a category's cell is NaN if it is missing or was not seen before."""
    values = np.empty((frame.height, len(columns)))
    for place, column in enumerate(columns):
        if column.name not in frame.columns:
            raise ValueError(f"there is no column '{column.name}', which the network was fitted with")
        cells = frame[column.name]
        if column.is_number != cells.dtype.is_numeric():
            raise ValueError(f"column '{column.name}' is of another type than when the network was fitted")
        values[:, place] = encode(column, cells.cast(pl.Float64) if column.is_number else cells)
        if column.is_number and not np.isfinite(values[:, place]).all():
            raise ValueError(f"column '{column.name}' contains NaN or infinity: fill these cells first")
    return values


def encoding_of(columns: Sequence[Column], values: Floats) -> Encoding:
    """How rows become units: numbers by their ranks, as normal quantiles, and categories one-hot."""
    values = values.copy()
    empty = np.isnan(values).all(axis=0)
    values[:, empty] = 0.0
    known = [seen(column, values[:, place]) for place, column in enumerate(columns)]
    return learn_encoding(known, values, "quantiles", levels=_LEVELS)
