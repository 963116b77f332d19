"""What a search over settings can be told; a kind of job adds what it measures by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from unpooled.settings import Section

Value = bool | int | float | str
Settings = Mapping[str, Value]

MOST_CANDIDATES = 1_000
"""A plan's parameters are read often, and nobody tries as many."""


class TuningSettings(Section):
    """Which settings of the learner are tried; without any, the learner has those of the plan."""

    settings: dict[str, list[Value]] = Field(
        {},
        description="settings of the model and the values to try of each, in all combinations: "
        "{depth = [4, 6], learning_rate = [0.05, 0.1]}; without any nothing is tuned",
    )
    folds: int = Field(5, description="how many parts the rows are divided into; each is left out once", ge=2, le=100)
    repeats: int = Field(1, description="how often rows are divided anew, for means that chance moves less", ge=1)
    draws: int | None = Field(
        None, description="try only so many of the combinations, drawn alike at all parties", ge=1
    )
    seed: int = Field(
        1, description="the random seed of that draw, which everybody knows; another number gives another", ge=0
    )


Measure = Literal["auc", "average_precision", "macro_auc", "accuracy", "f1", "log_loss", "r2", "rmse", "mae"]


class ModelTuning(TuningSettings):
    """The same where labels are known."""

    measure: Measure | None = Field(
        None,
        description="by what the best is chosen: auc, average_precision, accuracy, f1 or log_loss of two classes, "
        "macro_auc, accuracy or log_loss of several, r2, rmse or mae of numbers; by default auc, log_loss or rmse",
    )


class ListTuning(TuningSettings):
    """The same where positives alone are known: by those of them that were held out."""

    measure: Literal["auc", "recall"] = Field(
        "auc",
        description="by what the best is chosen: the chance that somebody known, held out, is ranked above an unknown "
        "one; or 'recall', the fraction of those held out that a list as long as top or fraction says would have",
    )
    bags: int = Field(2, description="bags of each fold, with a method that has bags", ge=1)
