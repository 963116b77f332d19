"""What each method can be told. Defaults are those of the VFPU paper, where it names any, but for the order."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from unpooled.pu.ranking import Order
from unpooled.settings import Section

Fraction = Annotated[float, Field(gt=0, lt=1)]


class FoldedSettings(Section):
    """What methods have in common that leave rows out in turn, so that models score rows that they have not seen."""

    folds: int = Field(
        5, description="how many parts the unlabelled rows are divided into; each is left out once", ge=2
    )
    balanced: bool = Field(True, description="let positives and negatives weigh the same")


class NaiveSettings(FoldedSettings):
    """Unlabelled rows count as negative."""

    name: Literal["naive"] = Field("naive", description="unlabelled rows count as negative")


class TwoStepSettings(FoldedSettings):
    """Two steps, in both readings: reliable negatives first, or likely positives first."""

    name: Literal["two-step"] = Field("two-step", description="reliable rows first, then a model of these")
    first: Literal["negatives", "positives"] = Field(
        "negatives",
        description="'negatives': learn from the least likely rows as negatives; 'positives': add the likeliest to the "
        "positives",
    )
    negative_fraction: Fraction = Field(
        0.9, description="the fraction of the unlabelled rows that are reliable negatives"
    )
    positive_fraction: Fraction = Field(
        0.02, description="the fraction of the unlabelled rows that are likely positives"
    )


class BaggingSettings(Section):
    """Bags of all positives and as many random unlabelled rows; scores outside of the bag."""

    name: Literal["bagging"] = Field("bagging", description="mean over bags of random negatives")
    bags: int = Field(50, description="how many bags", ge=1)


class VfpuSettings(Section):
    """Bagging again and again; after each time the likeliest rows become positives."""

    name: Literal["vfpu"] = Field("vfpu", description="bagging, promotion of the likeliest rows, and again")
    iterations: int = Field(5, description="how often rows are promoted (M)", ge=1)
    bags: int = Field(10, description="bags of each iteration (T)", ge=1)
    fraction: Fraction = Field(0.02, description="the fraction of the unlabelled rows that each iteration promotes (θ)")
    negatives: Literal["unlabelled", "reliable"] = Field(
        "unlabelled", description="where negatives are drawn from: all unlabelled rows, or the least likely ones"
    )
    negative_fraction: Fraction = Field(
        0.9, description="the fraction of the unlabelled rows that are reliable negatives"
    )
    gamma: float = Field(0.0, description="negatives are drawn by (1 - last score)^gamma; 0: all alike", ge=0)
    order: Order = Field(
        "score",
        description="'score': by the mean over the models of all iterations, but for those that learned a row as a "
        "negative; 'promotion', as in the VFPU paper: by iteration, then by the score in it",
    )


AnyMethod = NaiveSettings | TwoStepSettings | BaggingSettings | VfpuSettings
