"""How good generated rows are: beside the rows that were learned from, and beside rows that were held out from that.

Every distance is to the rows that were learned from (`evaluate.alike`). The same distance of the held-out rows, which
are real, says how small it can be expected to get; both are of equally many rows. Nearness to single rows says whether
rows were memorised (`evaluate.closest`): equally many rows that were learned from and that were held out are compared.
Of large tables a sample is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import polars as pl

from unpooled.arrays import Floats
from unpooled.data.coding import Column, encode, encode_all, learn_all
from unpooled.data.columns import kind_name
from unpooled.data.table import Table
from unpooled.evaluate.alike import how_alike
from unpooled.evaluate.closest import closest_record, nearest_distances
from unpooled.evaluate.distribution import association
from unpooled.evaluate.side_by_side import SideBySide, side_by_side

MOST_COLUMNS = 30
"""Associations are those of so many columns, the first ones."""
_ROWS, _PAIRED_ROWS = 50_000, 5_000
_NEAR_ROWS, _OTHER_ROWS = 1_000, 10_000

DISTANCES = ("ks", "total_variation", "wasserstein")


@dataclass(frozen=True)
class GeneratedColumn:
    """One column: its distances from the rows that were learned from, and those of held-out rows, if there are any.

    `missing` are the fractions of missing cells, learned from and generated, `cells` the numbers of known ones.
    """

    name: str
    kind: str
    distances: Mapping[str, float]
    held_out: Mapping[str, float]
    missing: tuple[float, float]
    cells: tuple[int, int]
    distribution: SideBySide | None


@dataclass(frozen=True)
class Associations:
    """Of each two columns, as symmetric matrices with 1 on the diagonal; `held_out` is empty if no row was."""

    columns: tuple[str, ...]
    real: tuple[tuple[float, ...], ...]
    generated: tuple[tuple[float, ...], ...]
    held_out: tuple[tuple[float, ...], ...]

    @property
    def difference(self) -> tuple[tuple[float, ...], ...]:
        """Generated less real."""
        return tuple(
            tuple(one - two for one, two in zip(*lines, strict=True))
            for lines in zip(self.generated, self.real, strict=True)
        )

    def apart(self, which: Sequence[Sequence[float]]) -> float | None:
        """The mean difference from the real ones over pairs of columns; None if there is no pair."""
        places = np.triu_indices(len(self.columns), 1)
        if not len(which) or not len(places[0]):
            return None
        return float(np.abs(np.array(which) - np.array(self.real))[places].mean())


@dataclass(frozen=True)
class NearestRows:
    """Of so many generated `rows`, the fraction that is nearer to a row learned from than to any held-out row.

    There are equally many of both, `others`, so it is about a half if nothing was memorised; ties count half. The
    medians are of distances to the nearest row: of generated rows, and of held-out rows to rows learned from.
    """

    rows: int
    others: int
    nearer_to_training: float
    median_to_training: float
    median_to_held_out: float
    held_out_median: float


@dataclass(frozen=True)
class GeneratedRows:
    """All that was found; distances are those of so many rows that were `compared`, of both kinds.

    `copies` are rows equal to one that was learned from, generated and held-out ones.
    """

    rows: int
    training: int
    held_out: int
    compared: int
    columns: tuple[GeneratedColumn, ...]
    associations: Associations
    copies: int
    held_out_copies: int
    nearest: NearestRows | None

    @property
    def means(self) -> dict[str, tuple[float, float | None]]:
        """Each distance, the mean over the columns that have it, and `association`: of generated and held-out rows."""
        found: dict[str, tuple[float, float | None]] = {}
        for name in DISTANCES:
            having = [one for one in self.columns if name in one.distances]
            floors = [one.held_out[name] for one in having if name in one.held_out]
            if having:
                mean = float(np.mean([one.distances[name] for one in having]))
                found[name] = mean, float(np.mean(floors)) if floors else None
        if (apart := self.associations.apart(self.associations.generated)) is not None:
            found["association"] = apart, self.associations.apart(self.associations.held_out)
        return found


def judge_generated(
    generated: Table, training: Table, held_out: Table | None, rng: np.random.Generator
) -> GeneratedRows:
    """Compare generated rows with those learned from, and both with held-out ones; all have the same columns."""
    others = training.take(np.arange(0)) if held_out is None else held_out
    frames = [part.frame.select(*training.kinds) for part in (training, generated, others)]
    columns = learn_all(replace(training, frame=pl.concat(frames)))
    made, real, floor = (_some(part, _ROWS, rng) for part in (generated, training, others))
    equal = min(made.frame.height, floor.frame.height or made.frame.height)
    made, floor = _some(made, equal, rng), _some(floor, equal, rng)
    parts = [_some(part, min(equal, _PAIRED_ROWS), rng) for part in (real, made, floor)]
    found = [_column(column, generated, training, (made, floor, real)) for column in columns]
    return GeneratedRows(
        rows=generated.frame.height,
        training=training.frame.height,
        held_out=others.frame.height,
        compared=equal,
        columns=tuple(found),
        associations=_associations(columns[:MOST_COLUMNS], parts),
        copies=_copies(generated, training),
        held_out_copies=_copies(others, training),
        nearest=_nearest(columns, generated, training, others, rng) if others.frame.height else None,
    )


def _some(table: Table, most: int, rng: np.random.Generator) -> Table:
    rows = table.frame.height
    return table if rows <= most else table.take(np.sort(rng.permutation(rows)[:most]))


def _column(column: Column, generated: Table, training: Table, compared: tuple[Table, Table, Table]) -> GeneratedColumn:
    made, floor, real = (_only(column.name, part) for part in compared)
    cells = [encode(column, part.frame[column.name]) for part in (training, generated)]
    known = [part[~np.isnan(part)] for part in cells]
    both = all(len(part) for part in known)
    return GeneratedColumn(
        name=column.name,
        kind=kind_name(column.kind),
        distances=_distances(made, real),
        held_out=_distances(floor, real) if floor.frame.height else {},
        missing=(float(np.isnan(cells[0]).mean()), float(np.isnan(cells[1]).mean())),
        cells=(len(known[0]), len(known[1])),
        distribution=side_by_side(column, known[0], known[1], cut=True) if both else None,
    )


def _only(name: str, table: Table) -> Table:
    return replace(table, kinds={name: table.kinds[name]}, frame=table.frame.select(name))


def _distances(rows: Table, real: Table) -> dict[str, float]:
    (found,) = how_alike(rows, real).columns.values()
    return {name: found[name] for name in DISTANCES if name in found}


def _associations(columns: Sequence[Column], parts: Sequence[Table]) -> Associations:
    real, made, floor = (_matrix(columns, part) if part.frame.height else () for part in parts)
    return Associations(tuple(column.name for column in columns), real, made, floor)


def _matrix(columns: Sequence[Column], table: Table) -> tuple[tuple[float, ...], ...]:
    """Associations of each two columns, 0 where fewer than two rows know both."""
    values = [encode(column, table.frame[column.name]) for column in columns]
    found: Floats = np.eye(len(columns))
    for one, two in combinations(range(len(columns)), 2):
        known = ~(np.isnan(values[one]) | np.isnan(values[two]))
        if known.sum() > 1:
            nominal = columns[one].nominal, columns[two].nominal
            found[one, two] = found[two, one] = association(values[one][known], values[two][known], nominal)
    return tuple(tuple(line) for line in found.tolist())


def _copies(rows: Table, training: Table) -> int:
    """How many rows are equal to one of the others in all columns, missing cells included."""
    names = list(training.kinds)
    known = training.frame.select(names).unique()
    return rows.frame.select(names).join(known, on=names, how="semi", nulls_equal=True).height


def _nearest(
    columns: Sequence[Column], generated: Table, training: Table, held_out: Table, rng: np.random.Generator
) -> NearestRows:
    count = min(training.frame.height, held_out.frame.height, _OTHER_ROWS)
    learned, others = _some(training, count, rng), _some(held_out, count, rng)
    rows = _some(generated, _NEAR_ROWS, rng)
    found = closest_record(rows, learned, others, columns)
    real, near = (encode_all(columns, part) for part in (_some(others, _NEAR_ROWS, rng), learned))
    return NearestRows(
        rows=rows.frame.height,
        others=count,
        nearer_to_training=found.nearer_to_training,
        median_to_training=found.median_to_training,
        median_to_held_out=found.median_to_held_out,
        held_out_median=float(np.median(nearest_distances(columns, real, near))),
    )
