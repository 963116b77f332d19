"""A party's columns as what can be compared and predicted: one column of numbers each, classes as numbers from 0.

Categories, ordered categories and booleans have classes, numbers and dates have values. A category of many levels has a
class for each frequent one, and one more in which the others are pooled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from unpooled.arrays import Floats, Ints
from unpooled.data.columns import Kind
from unpooled.data.table import Table
from unpooled.errors import InputError

MOST_CLASSES = 20
MOST_BINS = 10


@dataclass(frozen=True, eq=False)
class Variable:
    """A column: `values` are numbers, or classes from 0; not-a-number where a cell is missing.

    `levels` are the names of the classes, of which the last one may stand for all that are `pooled`; a number has none.
    """

    name: str
    kind: Kind
    values: Floats
    levels: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()
    pooled_counts: tuple[int, ...] = ()

    @property
    def classes(self) -> int:
        """How many classes there are; 0 for a number."""
        return len(self.levels)

    @property
    def constant(self) -> bool:
        """Whether there is one value at most, so that nothing can be learned."""
        present = self.values[~np.isnan(self.values)]
        return not present.size or bool((present == present[0]).all())


def variables_of(table: Table, most_classes: int = MOST_CLASSES) -> list[Variable]:
    """All columns besides the ids."""
    return [variable_of(table.frame[name], kind, most_classes) for name, kind in table.kinds.items()]


def variable_of(cells: pl.Series, kind: Kind, most_classes: int = MOST_CLASSES) -> Variable:
    """One column; of a category with more levels than `most_classes` the rarest are pooled."""
    if kind in ("number", "date"):
        values = cells.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy()
        return Variable(cells.name, kind, values)
    texts = cells.cast(pl.String)
    if isinstance(kind, tuple):
        return Variable(cells.name, kind, _codes(texts, kind), kind)
    counts = dict(texts.drop_nulls().value_counts(sort=True).rows())
    ranked = sorted(counts, key=lambda level: (-counts[level], level))
    if len(ranked) <= most_classes:
        return Variable(cells.name, kind, _codes(texts, levels := tuple(sorted(ranked))), levels)
    kept, pooled = sorted(ranked[: most_classes - 1]), ranked[most_classes - 1 :]
    values = _codes(texts, tuple(kept))
    values[texts.is_in(pooled).fill_null(False).to_numpy()] = len(kept)
    others = tuple(counts[level] for level in pooled)
    return Variable(cells.name, kind, values, (*kept, "(other)"), tuple(pooled), others)


def binned(variable: Variable, most: int = MOST_BINS) -> tuple[Ints, int]:
    """Classes as they are, numbers in bins with about equally many rows; missing cells have a class of their own."""
    values, present = variable.values, ~np.isnan(variable.values)
    if variable.classes:
        codes, count = np.where(present, values, 0), variable.classes
    else:
        places = np.linspace(0, 1, most + 1)[1:-1]
        edges = np.unique(np.quantile(values[present], places)) if present.any() else np.empty(0)
        codes, count = np.searchsorted(edges, np.where(present, values, 0.0), side="right"), len(edges) + 1
    whole = codes.astype(np.int64)
    whole[~present] = count
    return whole, count + (not present.all())


def _codes(texts: pl.Series, levels: tuple[str, ...]) -> Floats:
    if not levels:
        return np.full(len(texts), np.nan)
    return texts.cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy().copy()


def seen_classes(variable: Variable) -> Variable:
    """The same with those classes only that some cell has; nothing can be learned about others."""
    present = np.unique(variable.values[~np.isnan(variable.values)])
    if not variable.classes or len(present) == variable.classes:
        return variable
    codes = np.where(np.isnan(variable.values), np.nan, np.searchsorted(present, variable.values))
    levels = tuple(variable.levels[int(code)] for code in present)
    if present.size and variable.pooled and present[-1] == variable.classes - 1:
        return replace(variable, values=codes, levels=levels)
    return replace(variable, values=codes, levels=levels, pooled=(), pooled_counts=())


def named(variables: list[Variable], names: tuple[str, ...]) -> list[Variable]:
    """The variables of these names, in this order."""
    by_name = {variable.name: variable for variable in variables}
    if absent := [name for name in names if name not in by_name]:
        raise InputError(f"column '{absent[0]}': there is no such column; there are: {', '.join(by_name)}")
    return [by_name[name] for name in names]
