"""A party's part of a model, as an object to look at, to keep, and to predict with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import polars as pl

from unpooled import atomic
from unpooled.data.columns import Kind
from unpooled.data.prepare import Preparation
from unpooled.jobs.learning import model_files
from unpooled.vertical.learner import Model, Part
from unpooled.vertical.learners import learner_named


@dataclass(frozen=True, eq=False, repr=False)
class ModelPart:
    """What one owner keeps of a model: of use only together with the other owners' parts.

    `kept` is the learner's own object, and `preparation` how the owner's table became numbers.
    """

    kept: Model | Part
    preparation: Preparation

    def __repr__(self) -> str:
        return f"<ModelPart of {self.party}: {self.learner}, {len(self.columns)} columns>"

    @property
    def is_active(self) -> bool:
        """Whether this is the active party's part, which knows what was learned, and from whom."""
        return self._whole is not None

    @property
    def party(self) -> str:
        """Whose part it is."""
        return self._own.party

    @property
    def learner(self) -> str:
        """What has made it: `trees` or `linear`."""
        return self.kept.learner

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the learner was given: those of the table, or one for each level, such as `tariff=basic`."""
        return tuple(self._own.columns)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The columns of the party's table that new rows must have, and their types."""
        return dict(self.preparation.kinds)

    @property
    def importance(self) -> pl.DataFrame:
        """A row for each column and how much the model uses it, the most important first.

        Of trees how many nodes a column `splits` and how many `rows` these had, of linear models the mean of |weight|.
        """
        told = learner_named(self.learner).importance(self._own)["importance"]
        return pl.DataFrame(told, infer_schema_length=None)

    @property
    def owners(self) -> tuple[str, ...]:
        """Whose columns the model needs; only the active party's part says that."""
        return self._whole.owners if self._whole else ()

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that it tells apart, at the active party; none for a number."""
        return self._whole.classes if self._whole else ()

    @property
    def parameters(self) -> dict[str, Any]:
        """All settings that it was learned with, at the active party."""
        return self._whole.parameters.model_dump(mode="json") if self._whole else {}

    def save(self, folder: str | Path) -> Path:
        """Write it as the files that a `predict` job reads (`model` in a private file), for their owner alone."""
        folder = Path(folder)
        atomic.make_folder(folder)
        model_files.save(self.kept, self.preparation, folder)
        return folder

    @property
    def _whole(self) -> Model | None:
        return cast("Model", self.kept) if hasattr(self.kept, "part") else None

    @property
    def _own(self) -> Part:
        return self._whole.part if self._whole else cast("Part", self.kept)


def load_model(folder: str | Path) -> ModelPart:
    """A party's part of a model, from the folder of the run that trained it or one where it was saved."""
    return ModelPart(*model_files.load_any(Path(folder)))
