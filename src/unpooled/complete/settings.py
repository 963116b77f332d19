"""What the active party alone decides about its completed table: the `[generate]` section of its private file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.completers import AnyCompleter, settings_from
from unpooled.complete.completers.neural import NeuralSettings
from unpooled.complete.completers.simple import MarginalSettings
from unpooled.complete.ensembles.settings import EnsembleSettings, members_of
from unpooled.settings import Section


class GroupSettings(Section):
    """Columns that one completer fills together, so that what goes with each other stays together."""

    columns: tuple[str, ...] = Field(description="the columns", min_length=1, strict=False)
    completer: AnyCompleter = Field(settings_from({}), description="the completer and its settings")


class GenerateSettings(Section):
    """How columns are filled that are not predicted, and what the completed table looks like."""

    completer: AnyCompleter = Field(
        settings_from({}),
        description="what fills the columns that are not predicted: copula, hot-deck, smote, marginal, median, "
        "iterative, knn; an adversarial imputer, gain, vgain; a generator, vae, tvae, ctgan, tablegan, ctab-gan, "
        "tabddpm; an ensemble of these, vote, weighted, stacking, dynamic; or missing, which leaves them empty",
    )
    groups: tuple[GroupSettings, ...] = Field(
        (),
        description="columns with a completer of their own: a list of tables with columns and completer",
        strict=False,
    )
    draws: int = Field(
        0, description="how many further tables are written in which filled cells are drawn, to train on", ge=0, le=1000
    )
    least_confidence: float = Field(
        0.0, description="predicted cells that are less sure than this are not filled", ge=0, le=1
    )
    weight: str | None = Field(
        None, description="the name of a further column with the mean confidence of each row, to be used as its weight"
    )
    format: Literal["parquet", "csv"] = Field("parquet", description="how tables are written: parquet or csv")
    screening: Path | None = Field(
        None,
        description="a screening.json of an earlier run, if the plan says measure = 'list'",
        strict=False,
    )

    @property
    def networks(self) -> tuple[str, ...]:
        """The names of neural networks, whose training takes longer than all else at this party."""
        chosen = (self.completer, *(group.completer for group in self.groups))
        single = (one for each in chosen for one in members_of(each))
        return tuple(dict.fromkeys(one.completer for one in single if isinstance(one, NeuralSettings)))

    def untrained(self) -> GenerateSettings:
        """The same with draws from columns in the place of neural networks."""

        def plain(settings: CompleterSettings) -> CompleterSettings:
            if isinstance(settings, EnsembleSettings):
                return settings.model_copy(update={"members": tuple(map(plain, settings.members))})
            return MarginalSettings() if isinstance(settings, NeuralSettings) else settings

        groups = tuple(group.model_copy(update={"completer": plain(group.completer)}) for group in self.groups)
        return self.model_copy(update={"completer": plain(self.completer), "groups": groups})

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        counts = Counter(name for group in self.groups for name in group.columns)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"groups: column '{twice[0]}' is named twice")
        return self
