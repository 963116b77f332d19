"""Generated tables from data frames, for use from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from unpooled.complete.completers import files
from unpooled.complete.completers.filling import Fitted
from unpooled.complete.generators.sampling import (
    fit_generator,
    load_generator,
    sample_table,
    sampler_settings,
    without_ids,
)
from unpooled.data.columns import Kind
from unpooled.data.table import table_from_frame

if TYPE_CHECKING:
    from unpooled.networks.training import Watch

_PARTY = "this table"


@dataclass(frozen=True, eq=False)
class TableGenerator:
    """A model that has learned a table and draws rows like its own: `fit` or `load` it, then `sample`.

    `left_out` are the columns that were not learned because they are ids.
    """

    fitted: Fitted
    left_out: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        frame: Any,
        model: str = "tvae",
        *,
        id: str | Sequence[str] = (),
        types: Mapping[str, Kind] | None = None,
        seed: int | None = None,
        watch: Watch | None = None,
        **settings: Any,
    ) -> TableGenerator:
        """Learn a polars or pandas data frame; `settings` are the model's own, such as `epochs` or `preset`.

        Columns named in `id`, and texts that differ in nearly every row, are left out. `watch` is called after each
        epoch.
        """
        chosen = sampler_settings(model, settings)
        table, left_out = without_ids(table_from_frame(frame, id, _PARTY, types))
        return cls(fit_generator(chosen, table, np.random.default_rng(seed), watch), left_out)

    def sample(self, rows: int, *, seed: int | None = None) -> pl.DataFrame:
        """So many rows, with the columns in the types of the data frame that was learned."""
        return sample_table(self.fitted, rows, np.random.default_rng(seed))

    def save(self, path: Path | str) -> None:
        """Write the model to one .npz file, for its owner alone: it holds values of the table."""
        files.save(self.fitted, Path(path))

    @classmethod
    def load(cls, path: Path | str) -> TableGenerator:
        """Read what `save` wrote, and check it."""
        return cls(load_generator(Path(path)))


def generate_table(
    frame: Any,
    model: str = "tvae",
    rows: int | None = None,
    *,
    id: str | Sequence[str] = (),
    types: Mapping[str, Kind] | None = None,
    seed: int | None = None,
    **settings: Any,
) -> pl.DataFrame:
    """A data frame of generated rows like those of `frame`, as many as it has unless told otherwise.

    The same seed gives the same rows. Generated rows are not anonymous by themselves: a model may repeat what it saw.
    """
    learned = TableGenerator.fit(frame, model, id=id, types=types, seed=seed, **settings)
    later = None if seed is None else seed + 1  # so that rows are not drawn with the numbers that were learned with
    return learned.sample(len(frame) if rows is None else rows, seed=later)
