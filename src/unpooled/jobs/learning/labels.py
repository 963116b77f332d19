"""The active party's target: labels as numbers, how much each row counts, and which rows are set aside as a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.data.columns import as_text, fault, kind_name
from unpooled.data.table import Table
from unpooled.jobs.private import Private

_FEWEST_OF_A_CLASS = 2
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-12, 1e12
"""Of the largest weight; far beyond, sums and products of weights become infinite or zero."""
WRONG_WEIGHT = f"a weight is missing, negative or above {LARGEST_WEIGHT:g}"
NO_WEIGHT = f"every row has weight zero, or below {LEAST_WEIGHT:g}"


@dataclass(frozen=True, eq=False)
class Labels:
    """For each row its class as a number from 0, or its number, whether that is known, and the row's weight.

    `cells` are the labels as they are written, `names` what the numbers of classes stand for; empty for numbers.
    """

    cells: pl.Series
    values: Floats
    known: Bools
    weights: Floats
    names: tuple[str, ...]


def check_columns(private: Private, table: Table, classes: int) -> None:
    """Refuse a target or weight that is not among a table's columns, or is of the wrong kind."""
    party, origin, kinds = table.party, table.origin, table.kinds
    for key, name in (("target", private.target), ("weight", private.weight)):
        if name is None:
            continue
        if name not in kinds:
            raise fault(party, origin, f"{key} names it, but it is not among the columns that are read", name)
        if kinds[name] != "number" and (key == "weight" or not classes):
            reason = "classes is 0, which asks for a number" if key == "target" else "a weight is a number"
            raise fault(party, origin, f"{reason}, but its kind is {kind_name(kinds[name])}", name)


def check_weights(table: Table, weight: str | None) -> None:
    """Refuse weights that cannot be, naming the rows of the source."""
    if weight is None or table.kinds.get(weight) != "number":
        return
    cells = table.column(weight)
    wrong = (~cells.is_between(0, LARGEST_WEIGHT).fill_null(False)).arg_true() + 1
    if len(wrong):
        raise fault(table.party, table.origin, WRONG_WEIGHT, weight, wrong.to_list())
    check_some_weigh(table, weight, cells.cast(pl.Float64).to_numpy())


def check_some_weigh(table: Table, weight: str | None, weights: Floats) -> None:
    """Refuse rows of which none weighs anything."""
    if len(weights) and none_weighs(weights):
        raise fault(table.party, table.origin, NO_WEIGHT, weight)


def none_weighs(weights: Floats) -> bool:
    """Whether the largest weight is so small that what is computed of them might be zero."""
    return not (weights >= LEAST_WEIGHT).any()


def check_target(table: Table, private: Private, classes: int) -> None:
    """Refuse, before the start, a target with fewer labels than classes, which no rows in common could have."""
    name = private.target or ""
    labels = table.column(name).drop_nulls()
    if labels.n_unique() < classes:
        reason = f"its rows have {labels.n_unique()} different labels, and parameters.model.classes is {classes}"
        raise fault(table.party, table.origin, reason, name)
    if labels.is_empty():
        raise fault(table.party, table.origin, "no row has a value", name)


def labels_of(table: Table, private: Private, classes: int) -> Labels:
    """What the active party's own columns say of the rows; classes (0: numbers) are those that are found."""
    name = private.target or ""
    names: tuple[str, ...] = ()
    if classes:
        names = tuple(as_text(table.column(name).drop_nulls().unique().sort()).to_list())
        if len(names) != classes:
            reason = f"{len(names)} different labels are in the common rows, and parameters.model.classes is {classes}"
            raise fault(table.party, table.origin, reason, name)
        counts = table.column(name).drop_nulls().value_counts(sort=True)
        if classes == 2 and counts["count"][-1] < _FEWEST_OF_A_CLASS:
            reason = f"only one common row has the label {as_text(counts[name])[-1]!r}: too few to learn and to judge"
            raise fault(table.party, table.origin, reason, name)
    elif not table.column(name).count():
        raise fault(table.party, table.origin, "no common row has a value", name)
    return known_labels(table, private, names)


def known_labels(table: Table, private: Private, names: Sequence[str]) -> Labels:
    """The same where classes are known beforehand (none: numbers); other labels count as unknown."""
    cells = table.column(private.target or "")
    if names:
        numbers = {name: float(number) for number, name in enumerate(names)}
        values = as_text(cells).replace_strict(numbers, default=None, return_dtype=pl.Float64)
    else:
        values = cells.cast(pl.Float64)
    weights = np.ones(len(cells))
    if private.weight in table.kinds:
        weights = table.column(private.weight).to_numpy()
    return Labels(cells, values.fill_null(0.0).to_numpy(), values.is_not_null().to_numpy(), weights, tuple(names))


def drawn_for_test(labels: Labels, fraction: float, rng: np.random.Generator) -> Bools:
    """A random fraction of the rows that have a label and a weight, of each class alike; one of each is left."""
    usable = labels.known & (labels.weights > 0)
    groups = [usable & (labels.values == number) for number in range(len(labels.names))] or [usable]
    test = np.zeros(len(usable), bool)
    for rows in map(np.flatnonzero, groups):
        count = min(round(fraction * len(rows)), max(len(rows) - 1, 0))
        test[rng.choice(rows, count, replace=False)] = True
    return test


def features_of(table: Table, private: Private) -> Table:
    """The table without target and weight."""
    kinds = {name: kind for name, kind in table.kinds.items() if name not in (private.target, private.weight)}
    in_memory = () if table.stored else kinds
    return replace(table, kinds=kinds, frame=table.frame.select(*table.id, *in_memory))
