"""What the linear learner can be told, and the VFPU paper's settings as presets.

The mean loss over the rows plus ½ l2 |w|² is made small; the intercept is not penalised. scikit-learn's
LogisticRegression adds ½ |w|² to C times the *sum* of the losses, so its C is 1 / (rows · l2).
"""

from __future__ import annotations

from math import ceil
from typing import Literal, Self

from pydantic import Field, model_validator

from unpooled.errors import InputError, PlanError
from unpooled.vertical.learner import LearnerParameters

SAFE_ROWS = 1_000
SAFE_ROWS_PER_COLUMN = 20
MOST_EPOCHS, LEAST_EPOCHS, ENOUGH_STEPS = 100, 5, 300
"""Where a plan names no epochs: the most, and for `reveal = "final"`, where no loss says when it is enough, as many as
make so many steps. `make bench-linear` shows that these are enough."""
_WITH_GRADIENTS = (
    "With reveal = 'gradients' it works, but each party is shown the gradients of its own columns in every step, from "
    "which labels can be guessed (docs/linear.md)"
)


class LinearParameters(LearnerParameters):
    """Logistic regression, or for a number linear regression, by gradient descent on fixed batches."""

    learner: Literal["linear"] = Field("linear", description="logistic regression; for a number linear regression")
    several: Literal["softmax", "one-versus-rest"] = Field(
        "softmax", description="with more than two classes: softmax, or one model for each class, normalised"
    )
    epochs: int | None = Field(
        None,
        description="passes over all rows; without it as many as make 300 steps, 5 at least and 100 at most. With "
        "gradients the most passes, 100 without it",
        ge=1,
    )
    tolerance: float = Field(
        0.0001, description="with gradients: the loss falls if it falls by this fraction at least", ge=0
    )
    patience: int = Field(
        3, description="with gradients: stop when the loss has not fallen for so many epochs, and 30 steps", ge=1
    )
    learning_rate: float = Field(0.1, description="the step along the gradient; for a number a quarter of it", gt=0)
    optimiser: Literal["momentum", "adam", "plain"] = Field("momentum", description="how steps follow from gradients")
    l2: float = Field(0.0001, description="½ l2 |w|² is added to the mean loss", ge=0)
    batch_rows: int | None = Field(
        None,
        description="rows of a batch; without it 20 for each column of the party with most, and 1000 at least",
        ge=1,
    )
    insecure_batch: bool = Field(
        False, description="allow batches so small that labels can be worked out from gradients; never for real data"
    )
    limit: float = Field(4.0, description="values further from zero than this count as this", gt=0, le=8)
    validation_fraction: float = Field(0.0, description="the fraction of rows that only judge the loss", ge=0, lt=1)
    balanced: bool = Field(False, description="weigh rows so that all classes weigh the same")
    hide_bags: bool = Field(
        True, description="let rows of weight zero come along, so that nobody sees which; if not, they are left out"
    )
    show_weights: bool = Field(
        False,
        description="tell the passive parties the rows' weights; with paillier, weights and several passive parties "
        "it is needed",
    )
    reveal: Literal["final", "gradients"] = Field(
        "final",
        description="show each party nothing but its own weights, at the end; or the gradients of its own columns in "
        "every step, from which labels can be guessed, and the active party the loss: paillier, adam and a "
        "validation_fraction need that",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.classes == 1:
            raise ValueError("classes: must be 2 or more, or 0 for a number")
        if self.reveal == "final" and (self.optimiser == "adam" or self.validation_fraction):
            raise ValueError(
                "reveal: 'final', the default, works with neither 'adam' nor a validation_fraction, since no gradient "
                f"and no loss is shown. {_WITH_GRADIENTS}"
            )
        return self


PAPER_PRESETS = {
    name: LinearParameters(
        l2=l2,
        learning_rate=rate,
        batch_rows=batch_rows,
        insecure_batch=True,
        optimiser="plain",
        epochs=100,
        tolerance=0,
        reveal="gradients",
    )
    for name, l2, rate, batch_rows in (("experiments 1 and 2", 0.8, 0.001, 64), ("experiment 3", 0.4, 0.0002, 32))
}
"""The VFPU paper's settings. Their batches are so small that gradients give labels away: hence `insecure_batch`."""


def check_plan(
    parameters: LinearParameters,
    engine: str,
    passive: int,
    *,
    weighted: bool = False,
    columns: int = 0,
    missing: bool = False,
) -> None:
    """Refuse, before anything starts, what so many passive parties cannot fit with an engine.

    `weighted` says that row weights differ, as far as that is known; `columns` is how many columns this party has, and
    `missing` whether values are missing in them.
    """
    check_engine(parameters, engine, passive, weighted=weighted or (parameters.balanced and parameters.classes > 0))
    least = max(SAFE_ROWS, SAFE_ROWS_PER_COLUMN * columns)
    shown = passive and parameters.reveal == "gradients" and not parameters.insecure_batch
    if shown and parameters.batch_rows and 2 * parameters.batch_rows <= least:  # a batch has fewer than twice as many
        raise PlanError(
            f"parameters.model.batch_rows: {parameters.batch_rows} rows are too few, {least} are needed: gradients of "
            "smaller batches give labels away (insecure_batch allows it)"
        )
    if missing:
        raise InputError("prepare.missing: a linear model needs a number in each cell; take missing = 'impute'")


def check_engine(parameters: LinearParameters, engine: str, passive: int, *, weighted: bool) -> None:
    """Refuse what takes shares with an engine that has none."""
    if engine != "paillier":
        return
    if parameters.reveal == "final":
        raise PlanError(
            "parameters.model.reveal: 'final', the default, needs engine = 'shares', since it keeps weights as secret "
            f"shares; paillier has none. {_WITH_GRADIENTS}"
        )
    if weighted and passive > 1 and not parameters.show_weights:
        raise PlanError(
            "parameters.model.show_weights: to keep row weights secret from several passive parties takes engine = "
            "'shares'; with paillier take show_weights = true, or hide_bags = false if rows are only left out"
        )


def outputs_of(parameters: LinearParameters) -> int:
    """How many scores a row has."""
    return parameters.classes if parameters.classes > 2 else 1


def rate_of(parameters: LinearParameters) -> float:
    """The step along the gradient: a number's loss is four times as curved as that of two classes."""
    return parameters.learning_rate if parameters.classes else parameters.learning_rate / 4


def epochs_of(parameters: LinearParameters, steps: int) -> int:
    """How many passes over all rows a fit makes, each of so many steps; with gradients at the most."""
    if parameters.epochs is not None:
        return parameters.epochs
    if parameters.reveal == "gradients":
        return MOST_EPOCHS
    return min(max(ceil(ENOUGH_STEPS / steps), LEAST_EPOCHS), MOST_EPOCHS)
