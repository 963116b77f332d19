"""What a passive party would answer at the most in a job that grows trees, told before it starts.

For that its table is read and made ready. With the rows in common alone it is less: never more rows, values or levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from unpooled.arrays import Floats
from unpooled.data.prepare import fit, transform
from unpooled.jobs.labels import features_of
from unpooled.jobs.product_outline import rules_of
from unpooled.jobs.work import CheckedJob, begin
from unpooled.secure.engine import Rules
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.parameters import AnyTrees

P = TypeVar("P", bound=BaseModel)


@dataclass(frozen=True)
class Answers:
    """The most bits that a party answers about its rows, by the plan and its policy; and how many its table has."""

    active: str
    rows: int
    bits: int
    table_bits: int

    def __str__(self) -> str:
        return (
            f"{self.active} could learn at most {self.bits:,} bits about these {self.rows:,} rows if it deviated, "
            f"{self.bits / self.rows:,.0f} for each; in bins the table has {self.table_bits / self.rows:,.0f} for each"
        )


def answers_of(
    job: CheckedJob[P], model: AnyTrees | LinearParameters, most_bits: Callable[[Rules, AnyTrees, Layout, int], int]
) -> Answers | None:
    """What a party answers at the most; None where it lends no columns to trees."""
    plan, private = job.plan, job.private
    if plan.parties[job.party].role != "passive" or isinstance(model, LinearParameters):
        return None
    table = begin(job, private.table, Path()).table
    if table is None:
        return None
    features = features_of(table, private)
    layout = _widest(transform(fit(features, private.prepare), features).matrix, model.bins)
    rows = table.frame.height
    bits = most_bits(rules_of(plan), model, layout, rows)
    own = private.policy.maximum_bits_per_row
    most = bits if own is None else min(bits, int(own * rows))
    return Answers(plan.active, rows, most, round(rows * sum(log2(feature.size) for feature in layout.features)))


def _widest(matrix: Floats, bins: int) -> Layout:
    """A layout with as many bins as these columns, or some of their rows, can have."""
    features = []
    for column in matrix.T:
        missing = np.isnan(column)
        values = len(np.unique(column[~missing]))
        features.append(Feature(max(min(values, bins), 1), bool(missing.any()), 0))
    return Layout(tuple(features), tuple((number,) for number in range(len(features))))
