"""What a passive party would answer at the most in a job that learns, told before it starts.

For that its table is read and made ready. With the rows in common alone it is less: never more rows, values or levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from unpooled.data.prepare import fit, transform
from unpooled.jobs.learning.common import rules_of
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.work import CheckedJob, cleaned, with_table
from unpooled.vertical.inputs import Columns
from unpooled.vertical.stages import Stage, table_limits_of

P = TypeVar("P", bound=BaseModel)


@dataclass(frozen=True)
class Answers:
    """The most bits that a party answers about its rows, by the plan and its policy; and how many its table has."""

    active: str
    rows: int
    bits: int
    table_bits: int

    def __str__(self) -> str:
        if self.bits >= self.table_bits:
            return (
                f"if it deviated, {self.active} could learn all of these {self.rows:,} rows as they are in bins, "
                f"{self.table_bits / self.rows:,.0f} bits for each; policy.maximum_bits_per_row can limit that"
            )
        return (
            f"{self.active} could learn at most {self.bits:,} bits about these {self.rows:,} rows if it deviated, "
            f"{self.bits / self.rows:,.0f} for each; in bins the table has {self.table_bits / self.rows:,.0f} for each"
        )


def answers_of(job: CheckedJob[P], stages: Sequence[Stage]) -> Answers | None:
    """What a party answers at the most in all stages of learning.

    None where it lends no columns, or its learner cannot tell beforehand.
    """
    plan, private = job.plan, job.private
    if plan.parties[job.party].role != "passive":
        return None
    table, *_ = cleaned(with_table(job, private.table))
    if table is None:
        return None
    features = features_of(table, private)
    prepared = transform(fit(features, private.prepare), features)
    columns = Columns(prepared.matrix, prepared.names)
    found = table_limits_of(rules_of(plan), stages, columns)
    if found is None:
        return None
    (bits, table_bits), rows, own = found, table.frame.height, private.policy.maximum_bits_per_row
    return Answers(plan.active, rows, bits if own is None else min(bits, int(own * rows)), table_bits)
