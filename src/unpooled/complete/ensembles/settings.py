"""The settings of the ensembles: their members, and how it is learned which of them to follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.copula import CopulaSettings
from unpooled.complete.completers.hot_deck import HotDeckSettings
from unpooled.complete.completers.simple import LEFT_MISSING, MedianSettings
from unpooled.complete.completers.single import SINGLE, settings_among
from unpooled.complete.completers.smote import SmoteSettings

NAMES = ("vote", "weighted", "stacking", "dynamic")
_FILLING = tuple(completer for completer in SINGLE if completer is not LEFT_MISSING)


def _member_from(section: Any) -> Any:
    """A section of a file as the settings of a member."""
    if isinstance(section, EnsembleSettings) or (isinstance(section, Mapping) and section.get("completer") in NAMES):
        raise ValueError("an ensemble cannot be a member of another one; list its members instead")
    if isinstance(section, Mapping) and "completer" not in section:
        raise ValueError("must say which completer it is")
    return settings_among(_FILLING, section)


Member = Annotated[SerializeAsAny[CompleterSettings], BeforeValidator(_member_from)]
"""The settings of any completer that fills cells and is no ensemble."""


class EnsembleSettings(CompleterSettings):
    """What all ensembles have in common."""

    members: tuple[Member, ...] = Field(
        (CopulaSettings(), HotDeckSettings(), SmoteSettings(), MedianSettings()),
        description="the completers that are combined, at least two: a list of tables, each with a completer and its "
        "settings; their held_out is not used",
        strict=False,
    )
    member_draws: int = Field(
        5,
        description="how many draws of a member that is random make its answer: their median, or the most frequent "
        "value; 1: every draw of the ensemble combines one draw of each",
        ge=1,
    )

    @model_validator(mode="after")
    def _several(self) -> Self:
        if len(self.members) < 2:
            raise ValueError("members: an ensemble needs at least two")
        return self

    @property
    def random(self) -> bool:
        """Whether a member's draws differ."""
        return any(member.random for member in self.members)


class LearningSettings(EnsembleSettings):
    """What ensembles have in common that learn on held-out rows which members to follow."""

    quarters: int = Field(
        4,
        description="how many quarters of the rows are held out in turn, to learn which members to follow; every "
        "member is trained that often and once more on all rows: 1 is enough for large tables and members that "
        "are slow to train",
        ge=1,
        le=4,
    )
    rows: int = Field(5_000, description="the most held-out rows that are learned from, drawn at random", ge=1)


class VoteSettings(EnsembleSettings):
    """The majority of the members, or the median of their numbers."""

    completer: Literal["vote"] = Field("vote", description="the majority of several completers, or their median")


class WeightedSettings(LearningSettings):
    """Members count by how well they do on held-out rows."""

    completer: Literal["weighted"] = Field(
        "weighted", description="mean or vote of several completers, each weighted by how well it does"
    )


class StackingSettings(LearningSettings):
    """A regression of the truth on members' answers."""

    completer: Literal["stacking"] = Field(
        "stacking", description="a regression on what several completers answer, drawn towards the best of them"
    )


class DynamicSettings(LearningSettings):
    """For each cell the member that does best in similar rows."""

    completer: Literal["dynamic"] = Field(
        "dynamic", description="for each cell the one of several completers that does best in similar rows"
    )
    neighbours: int = Field(30, description="in how many nearest held-out rows members are compared", ge=1)


def members_of(settings: CompleterSettings) -> tuple[CompleterSettings, ...]:
    """The members of an ensemble; a completer that is none has itself."""
    return settings.members if isinstance(settings, EnsembleSettings) else (settings,)
