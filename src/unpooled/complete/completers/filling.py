"""Filling the cells of a table: `fit` learns from the known cells, `complete` fills the others.

A mask says which cells are to be filled, rows × columns of the table besides the ids; without one, all missing cells.
Values under the mask are neither learned from nor kept. Missing cells outside of it stay missing, and so do all cells
of a column without any known value. Known cells are never changed. Filled cells lie in the range and among the levels
that were seen, and whole numbers stay whole.

Every filled cell has a trust value between 0 and 1. For numbers and dates it estimates the fraction of the column's
variance that is explained (R²), for all other types the probability that the cell is right:

- with at least five draws that differ, from their spread: 1 - variance of the draws / variance of the column, or the
  fraction of pairs of draws that agree;
- otherwise the column's quality, the same for all its cells: R² (not below 0) or accuracy of one draw on rows that were
  held out, with cells hidden there as they are in rows of the mask.

>>> import polars as pl
>>> from unpooled.complete.completers.simple import MedianSettings
>>> from unpooled.data.table import table_from_frame
>>> frame = pl.DataFrame({"id": range(5), "age": [20, 30, None, 40, 50], "tariff": ["a", "b", "a", None, "a"]})
>>> table = table_from_frame(frame, "id", "telco")
>>> fitted = fit(MedianSettings(), table, np.random.default_rng(1))
>>> complete(fitted, table, np.random.default_rng(2)).table.frame.rows()
[('0', 20.0, 'a'), ('1', 30.0, 'b'), ('2', 35.0, 'a'), ('3', 40.0, 'a'), ('4', 50.0, 'a')]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.completers import completer_of
from unpooled.complete.completers.matrix import Learned, draw, learn, middle
from unpooled.data.coding import Column, encode_all, learn_all, replace_cells
from unpooled.data.columns import fault
from unpooled.data.table import Table
from unpooled.errors import InputError

FEWEST_DRAWS = 5
"""With fewer, their spread says too little about a cell."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Known cells of a column and what one draw made of them when they were hidden, both as `data.coding` has them."""

    column: Column
    truth: Floats
    filled: Floats


@dataclass(frozen=True, eq=False)
class Fitted:
    """A completer that has learned; `quality` by column, for those of which enough cells were held out.

    `state` is the completer's own, or None if no column has a value. `held_out` is what quality was measured on, and is
    not kept on disk. `dtypes` are the types of columns in the source, if it has types, for rows that are generated.
    """

    settings: CompleterSettings
    columns: tuple[Column, ...]
    state: Any
    quality: Mapping[str, float]
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)
    dtypes: Mapping[str, pl.DataType] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Completed:
    """A completed table: `draws` of it, what they agree on, which cells were filled, and how far each can be trusted.

    `table` has the median of numbers and dates, rounded where they are whole, and the most frequent of other values.
    `trust` is NaN for cells that were not filled.
    """

    table: Table
    draws: tuple[Table, ...]
    filled: Bools
    trust: Floats


def fit(settings: CompleterSettings, table: Table, rng: np.random.Generator, mask: Bools | None = None) -> Fitted:
    """Learn from the known cells of a table that are not under the mask."""
    mask = _checked(mask, list(table.kinds), table)
    hidden = [table.frame[name].set(pl.Series(cells), None) for name, cells in zip(table.kinds, mask.T, strict=True)]
    table = replace(table, frame=table.frame.with_columns(hidden))
    columns = learn_all(table)
    values = encode_all(columns, table)
    for_fit, for_quality = rng.spawn(2)
    learned = learn(completer_of(settings), settings, columns, values, for_fit)
    held_out = _held_out(settings, learned.columns, values, mask, for_quality) if settings.held_out else {}
    quality = {name: _skill(found.column, found.truth, found.filled) for name, found in held_out.items()}
    return Fitted(settings, learned.columns, learned.state, quality, held_out, dtypes_of(table))


def dtypes_of(table: Table) -> dict[str, pl.DataType]:
    """The types that the columns of a table have in its source, if it has types."""
    return {name: table.dtypes[name] for name in table.kinds if name in table.dtypes}


def complete(
    fitted: Fitted, table: Table, rng: np.random.Generator, mask: Bools | None = None, *, draws: int = 1
) -> Completed:
    """Fill the cells under the mask, as many times as there are to be draws; the same `rng` gives the same cells."""
    if draws < 1:
        raise InputError(f"completing a table takes at least one draw, not {draws}")
    values = encode_all(fitted.columns, table)
    mask = _checked(mask, [column.name for column in fitted.columns], table)
    values[mask] = np.nan
    rows = np.flatnonzero(mask.any(axis=1))
    hidden = mask[rows]
    different = draws if fitted.settings.random else 1
    learned = Learned(completer_of(fitted.settings), fitted.settings, fitted.columns, fitted.state)
    found = np.array(list(islice(draw(learned, values[rows], hidden, rng), different)))
    wide = np.full(values.shape, np.nan)

    def with_cells(cells: Floats) -> Table:
        wide[rows] = cells
        return replace_cells(table, fitted.columns, wide, mask)

    agreed, trust = _agreement(fitted, found, hidden)
    filled, trusts = np.zeros_like(mask), np.full(values.shape, np.nan)
    filled[rows], trusts[rows] = hidden & ~np.isnan(agreed), trust
    tables = [with_cells(one) for one in found]
    return Completed(with_cells(agreed), tuple(tables * (draws // different)), filled, trusts)


def _checked(mask: Bools | None, names: Sequence[str], table: Table) -> Bools:
    rows = table.frame.height
    if mask is None:
        return table.frame.select(pl.col(list(names)).is_null()).to_numpy().reshape(rows, len(names))
    if mask.shape != (rows, len(names)) or mask.dtype != np.bool_:
        reason = f"the mask must be {rows:,} rows × {len(names):,} columns of true and false"
        raise fault(table.party, table.origin, reason)
    return mask


def _agreement(fitted: Fitted, draws: Floats, wanted: Bools) -> tuple[Floats, Floats]:
    """What the draws, draws × rows × columns, agree on, and how far that can be trusted."""
    agreed, trust = draws[0].copy(), np.full(wanted.shape, np.nan)
    for place, column in enumerate(fitted.columns):
        rows = wanted[:, place] & ~np.isnan(draws[0, :, place])
        cells = draws[:, rows, place]
        agreed[rows, place] = middle(column, cells)
        if len(draws) < FEWEST_DRAWS:
            trust[rows, place] = fitted.quality.get(column.name, 0.0)
        elif column.is_number:
            unexplained = cells.var(axis=0, ddof=1) / (column.spread**2 or 1.0)
            trust[rows, place] = np.clip(1.0 - unexplained, 0.0, 1.0)
        else:
            pairs = sum((cells == one).sum(axis=0) - 1 for one in cells)
            trust[rows, place] = pairs / (len(draws) * (len(draws) - 1))
    return agreed, trust


def _held_out(
    settings: CompleterSettings, columns: Sequence[Column], values: Floats, mask: Bools, rng: np.random.Generator
) -> dict[str, HeldOut]:
    """By column cells of rows that were held out, each hidden as a random row of the mask is, or wholly."""
    known = ~np.isnan(values)
    rows = rng.permutation(np.flatnonzero(known.any(axis=1)))
    count = round(settings.held_out * len(rows))
    if not 0 < count < len(rows):
        return {}
    held = rows[:count]
    masked = mask[mask.any(axis=1)]
    hidden = masked[rng.integers(len(masked), size=count)] if len(masked) else np.ones_like(mask[held])
    hidden = hidden & known[held]
    learned = learn(completer_of(settings), settings, columns, values[np.sort(rows[count:])], rng)
    filled = next(draw(learned, np.where(hidden, np.nan, values[held]), hidden, rng))
    found = {}
    for place, column in enumerate(columns):
        cells = hidden[:, place] & ~np.isnan(filled[:, place])
        if cells.sum() > 1:
            found[column.name] = HeldOut(column, values[held][cells, place], filled[cells, place])
    return found


def _skill(column: Column, truth: Floats, filled: Floats) -> float:
    if not column.is_number:
        return float((truth == filled).mean())
    error, variance = float(((truth - filled) ** 2).mean()), float(truth.var())
    return max(1.0 - error / variance, 0.0) if variance else float(error == 0.0)
