"""What completing a table can be told by the plan."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from unpooled.complete.federated import with_classes
from unpooled.complete.screening import GAIN_SETTINGS, AssociationMeasure, Screening
from unpooled.complete.self_training import SelfTrainingSettings
from unpooled.complete.variables import MOST_BINS
from unpooled.complete.vf_gain.settings import VfGainSettings
from unpooled.jobs.align import job as align
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import AnyParameters, begun_small, default_parameters

SCREENED_CLASSES = 5
"""The most classes of a column in a screening: whether it can be predicted shows in its frequent ones."""


class Parameters(align.Parameters):
    """What completing a table can be told."""

    columns: tuple[str, ...] | None = Field(
        None,
        description="columns of the active party to predict, without a screening; all parties read these names",
        strict=False,
    )
    measure: Literal["mean", "max", "cramer", "gain", "list"] = Field(
        "gain",
        description="how columns are screened: gain, how much better small models predict a column than its own "
        "distribution does; mean or max of the rank correlations; cramer, the largest Cramér's V; or list, a list of "
        "an earlier run that the active party has",
    )
    threshold: float | None = Field(
        None,
        description="columns of more than this strength are predicted, between 0 and 1; without it those whose "
        "strength is significant",
        ge=0,
        le=1,
    )
    associations: bool = Field(
        False,
        description="the active party also learns the rank correlation of each of its columns with each of the others' "
        "columns, which have no names, for its report",
    )
    most_columns: int = Field(
        50, description="the most columns that the active party's table has, or that are predicted", ge=1, le=1000
    )
    most_classes: int = Field(
        10,
        description="the most classes that a column is predicted in; rarer categories are pooled",
        ge=2,
        le=256,
    )
    activations: VfGainSettings | None = Field(
        None,
        description="a table: passive parties send a few numbers for each row, with noise, as further columns for what "
        "fills the columns that are not predicted; its keys are epsilon, delta, units, column_limit, hidden and "
        "directions, and {} takes their defaults",
    )
    predict: SelfTrainingSettings = Field(SelfTrainingSettings(), description="how columns are predicted")
    model: Annotated[AnyParameters, BeforeValidator(begun_small)] = Field(
        default_parameters(bags=True),
        description="the learner and its settings: gbdt with small trees and what is below; or xgb, lgb, rf or linear, "
        "as for train; classes follow from the columns",
    )
    _decided: tuple[str, ...] | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.columns is not None and (not self.columns or len(set(self.columns)) < len(self.columns)):
            raise ValueError("columns: name at least one column, each once, or leave it out")
        if self.columns is not None and len(self.columns) > self.most_columns:
            raise ValueError(f"columns: these are more than most_columns, which is {self.most_columns}")
        return self

    def deciding(self, columns: tuple[str, ...]) -> Self:
        """The same for a rehearsal: columns are screened, and then these are predicted, whatever was found."""
        changed = self.model_copy()
        changed._decided = columns
        return changed

    def chosen(self, found: Screening) -> tuple[str, ...]:
        """The columns that are predicted after a screening."""
        return found.chosen(self.threshold) if self._decided is None else self._decided

    @property
    def screens_by_gain(self) -> bool:
        """Whether models are learned to screen columns by."""
        return self.columns is None and self.measure == "gain"

    @property
    def association(self) -> AssociationMeasure | None:
        """The associations that are computed: those that columns are screened by, or those of the report."""
        if self.columns is None and self.measure in ("mean", "max", "cramer"):
            return self.measure
        return "max" if self.associations else None

    @property
    def most_predicted(self) -> int:
        """How many columns are predicted at the most: those of the plan, if it names some."""
        return self.most_columns if self.columns is None else len(self.columns)

    @property
    def most_asked(self) -> int:
        """For how many columns associations are asked at the most; for Cramér's V, classes and bins of all columns."""
        each = max(self.most_classes, MOST_BINS) + 1 if self.association == "cramer" else 1  # missing cells are a class
        return self.most_columns * each

    @property
    def widest(self) -> LearnerParameters:
        """The learner as it asks most of a passive party."""
        return with_classes(self.model, self.most_classes)


def groups_of(parameters: Parameters) -> list[int]:
    """How many models are learned together, step by step, at the most."""
    return screening_groups(parameters) + predicting_groups(parameters)


def screening_groups(parameters: Parameters) -> list[int]:
    """The same of a screening by gain, which is about the common rows."""
    return [GAIN_SETTINGS.folds * parameters.most_columns] if parameters.screens_by_gain else []


def predicting_groups(parameters: Parameters) -> list[int]:
    """The same of the prediction, which is about all rows."""
    settings = parameters.predict
    return [settings.folds * parameters.most_predicted] * settings.rounds * len(settings.learned(0))
