"""How alike two tables are whose rows do not belong to each other: generated rows and real ones.

A number or date is compared by KS, by Wasserstein (in standard deviations of the real cells) and by moments, every
other type by total variation. The association of two columns is that of `distribution.association`, over the rows that
know both. Missing cells are left out, and the difference of their fractions is given.

The differences of the moments are absolute. Those of the mean and the variance are divided by the real standard
deviation and variance, those of skewness and kurtosis by one plus the size of the real one, so that no column with a
long tail outweighs all others.

>>> from unpooled.data.table import table_from_frame
>>> real = table_from_frame(pl.DataFrame({"id": [1, 2, 3, 4], "age": [20, 30, 40, 50]}), "id", "telco")
>>> made = table_from_frame(pl.DataFrame({"id": [1, 2, 3, 4], "age": [30, 40, 50, 60]}), "id", "telco")
>>> how_alike(made, real).columns["age"]["ks"]
0.25
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from unpooled.arrays import Floats
from unpooled.data.coding import check_kind, codes, is_number
from unpooled.data.columns import Kind, fault
from unpooled.data.table import Table
from unpooled.evaluate.distribution import association, kolmogorov_smirnov, moments, total_variation, wasserstein


@dataclass(frozen=True)
class Alike:
    """Distances by column, 0 for the same distribution, and how far the association of each two columns differs.

    A distance that is undefined, for example of a column without any value, is left out.
    """

    columns: Mapping[str, Mapping[str, float]]
    pairs: Mapping[tuple[str, str], float]

    @property
    def means(self) -> dict[str, float]:
        """Each distance, the mean over the columns that have it, and `association`, the mean over pairs of columns."""
        names = dict.fromkeys(name for column in self.columns.values() for name in column)
        found = {name: np.mean([each[name] for each in self.columns.values() if name in each]) for name in names}
        if self.pairs:
            found["association"] = np.mean(list(self.pairs.values()))
        return {name: float(value) for name, value in found.items()}


def how_alike(rows: Table, real: Table) -> Alike:
    """Compare rows with real ones; the real table must have the columns of the rows, and may have more."""
    for table in (rows, real):
        if table.frame.is_empty():
            raise fault(table.party, table.origin, "there are no rows to compare")
    for name, kind in rows.kinds.items():
        check_kind(name, kind, real)
    cells = {name: _coded(kind, rows.frame[name], real.frame[name]) for name, kind in rows.kinds.items()}
    columns = {name: _distances(kind, *cells[name]) for name, kind in rows.kinds.items()}
    pairs = {}
    for one, two in combinations(rows.kinds, 2):
        nominal = rows.kinds[one] == "category", rows.kinds[two] == "category"
        both = [_associated(first, second, nominal) for first, second in zip(cells[one], cells[two], strict=True)]
        if both[0] is not None and both[1] is not None:
            pairs[one, two] = abs(both[0] - both[1])
    return Alike(columns, pairs)


def _coded(kind: Kind, rows: pl.Series, real: pl.Series) -> tuple[Floats, Floats]:
    """Both columns as numbers, levels by the same numbers."""
    levels = pl.concat([rows, real]).drop_nulls().unique().sort().to_list() if kind == "category" else ()
    return codes(rows, kind, levels), codes(real, kind, levels)


def _distances(kind: Kind, rows: Floats, real: Floats) -> dict[str, float]:
    found = {"missing": abs(float(np.isnan(rows).mean() - np.isnan(real).mean()))}
    made, true = rows[~np.isnan(rows)], real[~np.isnan(real)]
    if not len(made) or not len(true):
        return found
    if not is_number(kind):
        return found | {"total_variation": total_variation(made, true)}
    found["ks"] = kolmogorov_smirnov(made, true)
    one, two = moments(made), moments(true)
    for name in ("skewness", "kurtosis"):
        found[name] = abs(one[name] - two[name]) / (1.0 + abs(two[name]))
    if two["variance"]:
        found["wasserstein"] = wasserstein(made, true) / two["variance"] ** 0.5
        found["mean"] = abs(one["mean"] - two["mean"]) / two["variance"] ** 0.5
        found["variance"] = abs(one["variance"] / two["variance"] - 1.0)
    return found


def _associated(one: Floats, two: Floats, nominal: tuple[bool, bool]) -> float | None:
    known = ~(np.isnan(one) | np.isnan(two))
    return association(one[known], two[known], nominal) if known.sum() > 1 else None
