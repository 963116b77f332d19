"""A column as something to be predicted: a number for each row, or one of some classes.

Numbers and dates are numbers, all other columns have a class for each value that occurs. A category of many levels has
a class for each frequent one, and one more in which the others are pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.data.coding import Column, encode, learn_all
from unpooled.data.table import Table

MOST_CLASSES = 20
MOST_BINS = 10


@dataclass(frozen=True, eq=False)
class Variable:
    """A column: `values` as `data.coding` has them, not-a-number where a cell is missing.

    `codes` has the value of each class. The last class may stand for several values that are `pooled`, the most
    frequent first, and `counts` says how many cells each of them has. A number has no classes.
    """

    column: Column
    values: Floats
    codes: tuple[int, ...] = ()
    pooled: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def classes(self) -> int:
        """How many classes there are; 0 for a number."""
        return len(self.codes)

    @property
    def known(self) -> Bools:
        known: Bools = ~np.isnan(self.values)
        return known

    @property
    def constant(self) -> bool:
        """Whether there is one value at most, so that nothing can be learned."""
        present = self.values[self.known]
        return not present.size or bool((present == present[0]).all())

    @property
    def labels(self) -> Floats:
        """Numbers as they are, or each row's class, counted from 0; not-a-number where a cell is missing."""
        if not self.classes:
            return self.values
        whole = np.full(int(np.nanmax(self.values, initial=max(self.codes))) + 1, self.classes - 1)
        single = self.codes[: self.classes - bool(self.pooled)]
        whole[list(single)] = np.arange(len(single))
        return np.where(self.known, whole[np.nan_to_num(self.values).astype(np.int64)], np.nan)


def variable_of(column: Column, values: Floats, most_classes: int = MOST_CLASSES) -> Variable:
    """One column; if more than `most_classes` values of it occur, the rarest of a category are pooled."""
    if column.is_number:
        return Variable(column, values)
    found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    codes = found.astype(np.int64)
    if len(codes) <= most_classes or not column.nominal:
        return Variable(column, values, tuple(codes.tolist()))
    ranked = np.lexsort((codes, -counts))
    single, others = np.sort(codes[ranked[: most_classes - 1]]), ranked[most_classes - 1 :]
    pooled = tuple(codes[others].tolist())
    return Variable(column, values, (*single.tolist(), pooled[0]), pooled, tuple(counts[others].tolist()))


def variables_of(table: Table, rows: int | None = None, most_classes: int = MOST_CLASSES) -> list[Variable]:
    """All columns of a table besides the ids; with so many `rows`, of which those behind the table's are missing."""
    rows = table.frame.height if rows is None else rows
    found = []
    for column in learn_all(table):
        values = np.full(rows, np.nan)
        values[: table.frame.height] = encode(column, table.frame[column.name])
        found.append(variable_of(column, values, most_classes))
    return found


def matrix_of(variables: Sequence[Variable], rows: int) -> Floats:
    """Columns as numbers, side by side."""
    return np.column_stack([np.empty((rows, 0)), *(variable.values for variable in variables)])


def binned(variable: Variable, most: int = MOST_BINS) -> tuple[Ints, int]:
    """Classes as they are, numbers in bins with about equally many rows; missing cells have a class of their own."""
    known, labels = variable.known, np.nan_to_num(variable.labels)
    if variable.classes:
        codes, count = labels.astype(np.int64), variable.classes
    else:
        places = np.linspace(0, 1, most + 1)[1:-1]
        edges = np.unique(np.quantile(variable.values[known], places)) if known.any() else np.empty(0)
        codes, count = np.searchsorted(edges, labels, side="right"), len(edges) + 1
    codes[~known] = count
    return codes, count + (not known.all())


def coded(variables: Sequence[Variable], rows: int) -> tuple[Ints, tuple[int, ...]]:
    """Columns as classes or bins, side by side, and how many each has."""
    found = [binned(variable) for variable in variables]
    codes = np.column_stack([np.empty((rows, 0), np.int64), *(column for column, _ in found)])
    return codes, tuple(count for _, count in found)
