"""What a passive party would answer at the most in a job that grows trees, told before it starts.

For that its table is read and made ready. With the rows in common alone it is less: never more rows, values or levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from pathlib import Path

import numpy as np

from unpooled.arrays import Floats
from unpooled.data.prepare import fit, transform
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.labels import features_of
from unpooled.jobs.lookalike import job as lookalike
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.product_outline import rules_of
from unpooled.jobs.train import job as train
from unpooled.jobs.work import begin
from unpooled.pu.federated.search import bits_of, steps_of
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.trees.budget import bits_needed
from unpooled.vertical.trees.bundles import Feature, Layout


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


def answers_of(plan: Plan, party: str, private: Private) -> Answers | None:
    """What a party answers at the most; None where it lends no columns to trees."""
    parameters = parameters_of(plan)
    if plan.parties[party].role != "passive" or not isinstance(parameters, train.Parameters | lookalike.Parameters):
        return None
    model, table = parameters.model, begin(plan, parameters, party, private, Path()).table
    if isinstance(model, LinearParameters) or table is None:
        return None
    features = features_of(table, private)
    layout = _widest(transform(fit(features, private.prepare), features).matrix, model.bins)
    rows = table.frame.height
    if isinstance(parameters, lookalike.Parameters):
        steps = steps_of(parameters.method, estimate=parameters.estimate)
        bits = bits_of(rules_of(plan), model, layout, rows, steps)
    else:
        bits = bits_needed(rules_of(plan), model, layout, rows, models=1)
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
