"""What a search for look-alikes can be told, and what is learned for it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from unpooled.align.handles import RowRules
from unpooled.jobs.align import job as align
from unpooled.jobs.learning.explaining import ExplainRules
from unpooled.jobs.row_weights import WeightRules
from unpooled.pu.federated import search
from unpooled.pu.settings import BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings
from unpooled.settings import tag_by
from unpooled.tuning.candidates import Candidate, candidates_of, stages_of
from unpooled.tuning.settings import ListTuning
from unpooled.tuning.unlabelled import bags_of
from unpooled.vertical.learners import AnyParameters, begun_secret, default_parameters
from unpooled.vertical.stages import Stage, models_in


def _named(method: Any) -> Any:
    """A method's name alone stands for the method with its defaults."""
    return {"name": method} if isinstance(method, str) else method


def _who_describes(value: Any) -> Any:
    """A list as it stands in a file."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError("must be true, false or a list of parties")


AnyMethod = Annotated[
    Annotated[VfpuSettings, Tag("[vfpu]")]
    | Annotated[BaggingSettings, Tag("[bagging]")]
    | Annotated[TwoStepSettings, Tag("[two-step]")]
    | Annotated[NaiveSettings, Tag("[naive]")],
    Discriminator(
        tag_by("name", default="vfpu"),
        custom_error_type="method",
        custom_error_message="must be 'vfpu', 'bagging', 'two-step' or 'naive', or a table with one of these as name",
    ),
    BeforeValidator(_named),
]


class Parameters(align.Parameters, RowRules, WeightRules, ExplainRules):
    """What a search for look-alikes can be told."""

    top: int | None = Field(None, description="how many look-alikes the seeker receives", ge=1)
    fraction: float | None = Field(
        None,
        description="the same as a fraction of the rows that the seeker does not know; with neither, as many as "
        "were promoted, or without promotions as many as the estimated fraction of positives suggests",
        gt=0,
        le=1,
    )
    estimate: bool = Field(
        True, description="learn five models more, to estimate how many there are and whether the seeker's are typical"
    )
    advice: bool = Field(
        False,
        description="the active party also tells the seeker what to expect of lists of several lengths, if it agrees "
        "to that; needs estimate",
    )
    describe: Annotated[bool | tuple[str, ...], BeforeValidator(_who_describes)] = Field(
        False,
        description="all owners, or those in a list, also tell the seeker what look-alikes have in common, each in "
        "those of its columns that it agrees to describe",
    )
    stop: bool = Field(
        False,
        description="with vfpu: hide a fifth of the seeker's people among the others, and stop when promotions hold "
        "far fewer of them than before",
    )
    method: AnyMethod = Field(
        VfpuSettings(),
        description="how they are found: vfpu, with what is below; bagging, which has bags; two-step, which has first, "
        "folds, balanced and fractions; or naive, which has folds and balanced",
    )
    model: Annotated[AnyParameters, BeforeValidator(begun_secret)] = Field(
        default_parameters(bags=True, secret_labels=True),
        description="the learner and its settings: gbdt with small trees, since bags are small, and what is below; or "
        "xgb, lgb or rf as for train, or linear with l2 = 0.01; of all trees the nodes are hidden, and passive "
        "parties' columns have 9 bins, unless hide_nodes and lent_bins say otherwise",
    )
    tuning: ListTuning = Field(
        ListTuning(),
        description="settings of the model chosen by trying: for each candidate a part of the seeker's people is held "
        "out, fold by fold, and the one whose models rank them highest among the unknown does the search",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.top is not None and self.fraction is not None:
            raise ValueError("top and fraction: give one of them")
        if self.advice and not self.estimate:
            raise ValueError("advice: it comes from estimates, so estimate must be true")
        promotes = isinstance(self.method, VfpuSettings)
        if self.stop and not promotes:
            raise ValueError("stop: only vfpu has promotions to stop after")
        if not (promotes or self.estimate or self.top or self.fraction):
            raise ValueError("estimate: without it, and without promotions, say how many with top or fraction")
        if self.model.classes != 2:
            raise ValueError("model.classes: two are told apart here, positive and other")
        if self.candidates and self.tuning.measure == "recall" and not (self.top or self.fraction):
            raise ValueError("tuning.measure: recall is that of a list, so say how long with top or fraction")
        return self

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """What is tried; empty if nothing is tuned."""
        return candidates_of(self.model, self.tuning)

    @property
    def models_each(self) -> int:
        """How many models a candidate takes."""
        return bags_of(self.method, self.tuning)

    @property
    def stages(self) -> list[Stage]:
        """All that is learned, at the most: models of each candidate, then those of the search."""
        searched = search.groups_of(self.method, estimate=self.estimate)
        return stages_of(self.model, self.candidates, self.models_each, searched)


def groups_of(parameters: Parameters) -> list[int]:
    """How many models are learned together, step by step, at the most."""
    return models_in(parameters.stages)


def fewer_bags(_parameters: Parameters, encrypted: bool) -> dict[str, Any]:
    """What is learned in a rehearsal: under encryption a few bags only."""
    few = {"name": "bagging", "bags": 5}
    nothing_else = {"estimate": False, "advice": False, "stop": False, "top": 10, "fraction": None}
    return {**nothing_else, "method": few} if encrypted else {}
