"""What a linear learner leaves: each party its own weights, as a JSON file; the active party also the intercept."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from unpooled.vertical.linear.parameters import LinearParameters, outputs_of
from unpooled.vertical.model_file import Saved

Rows = tuple[tuple[FiniteFloat, ...], ...]


class OptimiserState(Saved):
    """What an optimiser remembers, so that a descent can go on as if it had not stopped."""

    optimiser: str
    steps: int = Field(ge=0)
    velocity: Rows
    squares: Rows


class LinearPart(Saved):
    """One party's columns and their weights, columns × outputs; values beyond the limit count as the limit."""

    format: Literal[1] = 1
    name: str = Field(pattern="^[0-9a-f]{32}$")
    party: str
    columns: tuple[str, ...]
    outputs: int = Field(ge=1)
    limit: FiniteFloat
    weights: Rows
    means: tuple[FiniteFloat, ...] = Field((), exclude_if=lambda means: not means)
    """Of each column over the training rows, which files of older versions do not have."""
    pace: OptimiserState | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.columns) != len(self.weights) or any(len(row) != self.outputs for row in self.weights):
            raise ValueError("weights: not one for each column and output")
        if len(self.means) not in (0, len(self.columns)):
            raise ValueError("means: not one for each column")
        return self

    @property
    def importance(self) -> dict[str, float]:
        """For each column how far one step of it moves the scores: the mean of |weight| over the outputs.

        Columns are compared fairly if they are standardised.
        """
        sizes = [sum(abs(weight) for weight in row) / self.outputs for row in self.weights]
        return dict(zip(self.columns, sizes, strict=True))


class LinearModel(Saved):
    """The active party's part; a number is centre + scale × score."""

    format: Literal[1] = 1
    part: LinearPart
    owners: tuple[str, ...]
    parameters: LinearParameters
    classes: tuple[str, ...]
    intercept: tuple[FiniteFloat, ...]
    centre: FiniteFloat
    scale: FiniteFloat

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.part.party not in self.owners:
            raise ValueError("owners: the active party is not among them")
        if not len(self.intercept) == self.part.outputs == outputs_of(self.parameters):
            raise ValueError("intercept: not one for each output")
        if len(self.classes) != self.parameters.classes:
            raise ValueError("classes: not as many names as classes")
        return self


class LinearParts(Saved):
    """One party's weights of several models of the same columns, whose mean counts."""

    format: Literal[2] = 2
    learner: Literal["linear"] = "linear"
    parts: Annotated[tuple[LinearPart, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len({(part.party, part.columns, part.outputs, part.limit) for part in self.parts}) > 1:
            raise ValueError("parts: they are of different parties, columns or limits")
        return self

    @property
    def party(self) -> str:
        return self.parts[0].party

    @property
    def columns(self) -> tuple[str, ...]:
        return self.parts[0].columns

    @property
    def importance(self) -> dict[str, float]:
        """For each column the mean over the models."""
        each = [part.importance for part in self.parts]
        return {name: sum(one[name] for one in each) / len(each) for name in self.columns}


class LinearModels(Saved):
    """The active party's part of several models, whose mean counts."""

    format: Literal[2] = 2
    learner: Literal["linear"] = "linear"
    models: Annotated[tuple[LinearModel, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len({(model.owners, model.parameters, model.classes) for model in self.models}) > 1:
            raise ValueError("models: they are of different owners, parameters or classes")
        LinearParts(parts=tuple(model.part for model in self.models))
        return self

    @property
    def part(self) -> LinearParts:
        return LinearParts(parts=tuple(model.part for model in self.models))

    @property
    def owners(self) -> tuple[str, ...]:
        return self.models[0].owners

    @property
    def parameters(self) -> LinearParameters:
        return self.models[0].parameters

    @property
    def classes(self) -> tuple[str, ...]:
        return self.models[0].classes
