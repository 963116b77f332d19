"""Limits over all runs with a table, as the `[policy]` of a private file has them."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from unpooled.settings import Section

Amount = Literal["questions", "bits_per_row", "splits", "epsilon"]
"""What is added up over all runs and has one limit for all peers."""

AMOUNTS: tuple[Amount, ...] = get_args(Amount)
WORDS: dict[Amount, str] = {
    "questions": "questions",
    "bits_per_row": "bits per row",
    "splits": "splits",
    "epsilon": "epsilon of activations",
}
SAID: dict[Amount, str] = {
    what: f"{words} {'sent' if what == 'epsilon' else 'answered'}" for what, words in WORDS.items()
}

Result = Literal["thresholds", "listed"]
"""What a run's result says at its end; it is added up and has no limit."""

RESULTS: dict[Result, str] = {
    "thresholds": "thresholds revealed, distinct in each run",
    "listed": "people listed for seekers",
}


class OverRuns(Section):
    """Limits over all runs in a table's book; those about a peer hold for each peer."""

    maximum_alignments: int | None = Field(
        50, description="over all runs: the most times that the same party may compare ids with this table", ge=0
    )
    minimum_change: int = Field(
        10,
        description="over all runs: the fewest people by which a later comparison of ids with the same parties may "
        "differ from an earlier one, if at all; with fewer, the difference would tell about them. 1 allows every "
        "change",
        ge=1,
    )
    maximum_linear_fits: int | None = Field(
        3,
        description="over all runs: the most fits of linear models of which the same party is shown gradients; with "
        "reveal = 'final' none are shown",
        ge=0,
    )
    maximum_total_questions: int | None = Field(
        None, description="over all runs: the most columns of sums that others may ask for", ge=0
    )
    maximum_total_bits_per_row: float | None = Field(
        None, description="over all runs: the most bits that others may learn, per row", ge=0
    )
    maximum_total_splits: int | None = Field(
        None, description="over all runs: the most splits of trees that this party reveals", ge=0
    )

    maximum_total_epsilon: float | None = Field(
        8.0,
        description="over all runs: the most epsilon of activations, added up; a run whose plan would exceed it is "
        "refused",
        ge=0,
    )

    def total(self, what: Amount) -> float | None:
        """The limit of what is added up; None if there is none."""
        limits: dict[Amount, float | None] = {
            "questions": self.maximum_total_questions,
            "bits_per_row": self.maximum_total_bits_per_row,
            "splits": self.maximum_total_splits,
            "epsilon": self.maximum_total_epsilon,
        }
        return limits[what]
