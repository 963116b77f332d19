"""What a linear learner leaves: each party its own weights, as a JSON file; the active party also the intercept."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from unpooled.vertical.linear_parameters import LinearParameters, outputs_of

_Frozen = ConfigDict(frozen=True, extra="forbid")


class LinearPart(BaseModel):
    """One party's columns and their weights, columns × outputs; values beyond the limit count as the limit."""

    model_config = _Frozen

    format: Literal[1] = 1
    name: str = Field(pattern="^[0-9a-f]{32}$")
    party: str
    columns: tuple[str, ...]
    limit: FiniteFloat
    weights: tuple[tuple[FiniteFloat, ...], ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.columns) != len(self.weights) or len({len(row) for row in self.weights}) > 1:
            raise ValueError("weights: not one row for each column, of the same length")
        return self


class LinearModel(BaseModel):
    """The active party's part; a number is centre + scale × score."""

    model_config = _Frozen

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
        if self.part.party not in self.owners or len(self.intercept) != outputs_of(self.parameters):
            raise ValueError("owners or intercept do not fit the rest")
        return self
