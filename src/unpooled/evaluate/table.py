"""How good a completed table is, if the truth is known: cell by cell, and as a distribution.

Only cells under the mask count, where the truth is known. Numbers and dates (in days) have RMSE, MAE and R², and as a
distribution KS, Wasserstein (in standard deviations of the truth) and moments. All other types have accuracy and macro
F1, and total variation. For pairs of columns of which one was filled, the association in the completed rows is compared
with the true one: Spearman's correlation, Cramér's V between categories, and the correlation ratio of ranks between a
category and a column with an order.

>>> import polars as pl
>>> from unpooled.data.table import table_from_frame
>>> truth = table_from_frame(pl.DataFrame({"id": [1, 2, 3, 4], "age": [20, 30, 40, 50]}), "id", "telco")
>>> filled = table_from_frame(pl.DataFrame({"id": [1, 2, 3, 4], "age": [20, 30, 35, 45]}), "id", "telco")
>>> mask = np.array([[False], [False], [True], [True]])
>>> evaluate_table(filled, truth, mask).columns["age"].errors
{'r2': 0.0, 'rmse': 5.0, 'mae': 5.0}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.data.coding import check_kind, codes, is_number
from unpooled.data.columns import Kind, fault, kind_name
from unpooled.data.table import Table
from unpooled.evaluate.distribution import (
    association,
    kolmogorov_smirnov,
    macro_f1,
    moments,
    total_variation,
    wasserstein,
)
from unpooled.evaluate.metrics import accuracy, summary_of_numbers

_ROW = "\0row"


@dataclass(frozen=True)
class ColumnEvaluation:
    """One column: how many cells were compared, how many stayed missing, and how the compared ones differ.

    `moments` are those of numbers, of the truth and as completed. A metric that is undefined is left out.
    """

    kind: str
    cells: int
    missing: int
    errors: Mapping[str, float]
    distribution: Mapping[str, float]
    moments: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Pair:
    """The association of two columns in truth and as completed, between -1 and 1."""

    columns: tuple[str, str]
    truth: float
    completed: float

    @property
    def difference(self) -> float:
        """How far apart they are."""
        return abs(self.completed - self.truth)


@dataclass(frozen=True)
class TableEvaluation:
    """All columns with a cell under the mask, and the pairs of columns of which one is among them."""

    rows: int
    columns: Mapping[str, ColumnEvaluation]
    pairs: tuple[Pair, ...]

    @property
    def association(self) -> float | None:
        """The mean difference of association over all pairs."""
        return float(np.mean([pair.difference for pair in self.pairs])) if self.pairs else None


def evaluate_table(completed: Table, truth: Table, mask: Bools | None = None) -> TableEvaluation:
    """Compare a completed table with the truth, which must have its rows and columns, and may have more.

    `mask` says which cells were filled, rows × columns of the completed table besides the ids; without it all count.
    """
    for name, kind in completed.kinds.items():
        check_kind(name, kind, truth)
    truth = truth.take(matching_rows(completed, truth))
    names = list(completed.kinds)
    shape = (completed.frame.height, len(names))
    mask = np.ones(shape, np.bool_) if mask is None else mask
    if mask.shape != shape:
        raise fault(completed.party, completed.origin, f"the mask must be {shape[0]:,} rows × {shape[1]:,} columns")
    cells = {name: _coded(completed.frame[name], truth.frame[name], completed.kinds[name]) for name in names}
    filled = [name for place, name in enumerate(names) if mask[:, place].any()]
    columns = {
        name: _evaluate_column(completed.kinds[name], *cells[name], mask[:, names.index(name)]) for name in filled
    }
    rows = mask.any(axis=1)
    pairs = []
    for one, two in combinations(names, 2):
        if one in filled or two in filled:
            pairs += _pair((one, two), completed.kinds, [part[rows] for name in (one, two) for part in cells[name]])
    return TableEvaluation(int(rows.sum()), columns, tuple(pairs))


def matching_rows(table: Table, other: Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where the other table has each row of this one, by id; both must have every id once."""
    for one in (table, other):
        repeated = one.ids.is_duplicated().arg_true() + 1
        if len(repeated):
            raise fault(one.party, one.origin, "an id is repeated", ", ".join(one.id), repeated.to_list())
    renamed = other.ids.rename(dict(zip(other.id, table.id, strict=True))).with_row_index(_ROW)
    places = table.ids.join(renamed, on=list(table.id), how="left", maintain_order="left")[_ROW]
    absent = places.is_null().arg_true() + 1
    if len(absent):
        reason = f"{other.origin} has no row with this id"
        raise fault(table.party, table.origin, reason, ", ".join(table.id), absent.to_list())
    return places.cast(pl.Int64).to_numpy()


def _coded(completed: pl.Series, truth: pl.Series, kind: Kind) -> tuple[Floats, Floats]:
    """Both columns as numbers, levels by the same numbers."""
    levels = pl.concat([completed, truth]).drop_nulls().unique().sort().to_list() if kind == "category" else ()
    return codes(completed, kind, levels), codes(truth, kind, levels)


def _evaluate_column(kind: Kind, completed: Floats, truth: Floats, mask: Bools) -> ColumnEvaluation:
    asked = mask & ~np.isnan(truth)
    compared = asked & ~np.isnan(completed)
    true, found = truth[compared], completed[compared]
    errors: dict[str, float] = {}
    distribution: dict[str, float] = {}
    both: dict[str, dict[str, float]] = {}
    if len(true) and is_number(kind):
        errors = summary_of_numbers(true, found)
        distribution["ks"] = kolmogorov_smirnov(true, found)
        if true.min() < true.max():
            distribution["wasserstein"] = wasserstein(true, found) / float(true.std())
        both = {"truth": moments(true), "completed": moments(found)}
    elif len(true):
        errors = {"accuracy": accuracy(true, found), "macro_f1": macro_f1(true, found)}
        distribution["total_variation"] = total_variation(true, found)
    missing = int(asked.sum() - compared.sum())
    return ColumnEvaluation(kind_name(kind), len(true), missing, errors, distribution, both)


def _pair(names: tuple[str, str], kinds: Mapping[str, Kind], cells: list[Floats]) -> list[Pair]:
    """The pair of columns, if there are two rows in which both are known, as completed and in truth."""
    known = ~np.isnan(cells).any(axis=0)
    if known.sum() < 2:
        return []
    first, first_truth, second, second_truth = (part[known] for part in cells)
    nominal = kinds[names[0]] == "category", kinds[names[1]] == "category"
    truth, completed = (association(one, two, nominal) for one, two in ((first_truth, second_truth), (first, second)))
    return [Pair(names, truth, completed)]
