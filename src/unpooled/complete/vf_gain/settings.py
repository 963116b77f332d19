"""What the parties agree on before activations leave a passive party."""

from __future__ import annotations

from pydantic import Field

from unpooled.settings import Section

MOST_EPSILON = 8.0


class VfGainSettings(Section):
    """How much activations may tell, and how they are made."""

    epsilon: float = Field(
        MOST_EPSILON,
        description="how much the activations of a row may tell about it in all (local differential privacy): the "
        "smaller, the less",
        gt=0,
    )
    delta: float = Field(
        1e-5, description="the chance with which that may fail; with few units it never does", gt=0, lt=0.1
    )
    units: int = Field(1, description="how many numbers a passive party sends for each row", ge=1, le=64)
    column_limit: float = Field(
        0.094,
        description="the fraction of the variance of any one column of a passive party that its activations may "
        "explain; 1: no limit besides epsilon",
        gt=0,
        le=1,
    )
    hidden: int = Field(150, description="hidden units of a passive party's network", ge=0, le=1000)
    directions: int = Field(8, description="the most columns of a gradient", ge=1, le=64)
