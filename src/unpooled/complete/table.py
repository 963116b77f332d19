"""Algorithm 4-1 of the FedPSG-PUM paper, and what comes of it: a table for all rows, each cell saying where it is from.

Columns that can be predicted are predicted, by descending strength; what is left of the table is filled by a completer
at the active party alone, or stays missing. Rows are keyed by handles (`align.other_rows`).

A model that is trained on one draw learns the draw's noise too. Train one on each of several draws and one on the table
with its cells left missing, and take the mean of what they say (`training_tables`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers import filling
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.self_training import Prediction
from unpooled.data.coding import decode
from unpooled.data.table import Table
from unpooled.errors import InputError

REAL, PREDICTED, GENERATED, MISSING = "real", "predicted", "generated", "missing"
HANDLE = "handle"


@dataclass(frozen=True, eq=False)
class CompletedTable:
    """A row for each handle, in the columns' own order and types.

    `provenance` says of each cell whether it is real, predicted, generated or missing, `confidence` how sure it is: 1
    where it is real, 0 where it is missing. `draws` are further tables, in which filled cells are drawn, and
    `left_missing` is the table with real cells only.
    """

    table: pl.DataFrame
    provenance: pl.DataFrame
    confidence: pl.DataFrame
    draws: tuple[pl.DataFrame, ...]
    left_missing: pl.DataFrame

    @property
    def weights(self) -> Floats:
        """For each row the mean confidence of its cells, to be used as its weight."""
        return self.confidence.drop(HANDLE).mean_horizontal().to_numpy()

    @property
    def training_tables(self) -> tuple[pl.DataFrame, ...]:
        """Tables to train a model on each; the mean of what the models say is better than that of any one of them."""
        return (self.left_missing, *self.draws)


def complete_table(
    real: Table,
    handles: Sequence[str],
    predictions: Sequence[Prediction],
    completer: CompleterSettings | None,
    rng: np.random.Generator,
    *,
    draws: int = 0,
    fill_all: bool = False,
) -> CompletedTable:
    """Put a table together: `real` has the first rows, `predictions` what was found about some columns in all rows.

    Cells whose prediction was never confident enough stay missing, unless `fill_all` says that these are filled too.
    """
    if len(handles) < real.frame.height:
        raise InputError(f"{real.party}: {len(handles)} handles for {real.frame.height} rows")
    known = _extended(real, len(handles))
    predicted = {one.variable.name: (one, _accepted(one, fill_all)) for one in predictions}
    frame = known.frame.with_columns(
        **{name: _filled(known.frame[name], one, one.values, mask) for name, (one, mask) in predicted.items()}
    )
    tables = [
        known.frame.with_columns(
            **{name: _filled(known.frame[name], one, one.drawn(rng), mask) for name, (one, mask) in predicted.items()}
        )
        for _ in range(draws)
    ]
    rest = [name for name in known.kinds if name not in predicted]
    confidence = {name: np.where(known.frame[name].is_null(), 0.0, 1.0) for name in known.kinds}
    origin = {name: np.where(known.frame[name].is_null(), MISSING, REAL).astype(object) for name in known.kinds}
    for name, (one, mask) in predicted.items():
        confidence[name][mask] = one.confidence[mask]
        origin[name][mask] = PREDICTED
    if completer is not None and rest:
        generated = _generated(known, rest, completer, rng, max(draws, 1))
        frame = frame.with_columns(generated.table.frame.select(rest))
        tables = [
            table.with_columns(draw.frame.select(rest)) for table, draw in zip(tables, generated.draws, strict=False)
        ]
        for place, name in enumerate(generated.table.kinds):
            mask = generated.filled[:, place]
            confidence[name][mask], origin[name][mask] = generated.trust[mask, place], GENERATED
    keyed = pl.Series(HANDLE, handles)
    return CompletedTable(
        table=_keyed(keyed, frame.select(*known.kinds)),
        provenance=_keyed(keyed, pl.DataFrame({name: list(cells) for name, cells in origin.items()})),
        confidence=_keyed(keyed, pl.DataFrame(confidence)),
        draws=tuple(_keyed(keyed, table.select(*known.kinds)) for table in tables),
        left_missing=_keyed(keyed, known.frame.select(*known.kinds)),
    )


def _extended(real: Table, rows: int) -> Table:
    """The table with empty rows behind its own."""
    frame = real.frame.select(*real.kinds)
    empty = frame.clear(rows - frame.height)
    return Table(real.party, real.origin, (), real.kinds, pl.concat([frame, empty]))


def _accepted(prediction: Prediction, fill_all: bool) -> Bools:
    """Which missing cells get their prediction."""
    accepted: Bools = prediction.rounds != 0 if fill_all else prediction.rounds > 0
    return accepted


def _filled(cells: pl.Series, prediction: Prediction, values: Floats, mask: Bools) -> pl.Series:
    return decode(prediction.column.column, values).zip_with(pl.Series(mask), cells)


def _generated(
    known: Table, names: Sequence[str], completer: CompleterSettings, rng: np.random.Generator, draws: int
) -> filling.Completed:
    """The columns that are not predicted, filled at this party alone."""
    kinds: Mapping[str, object] = {name: known.kinds[name] for name in names}
    part = Table(known.party, known.origin, (), dict(kinds), known.frame.select(names))  # type: ignore[arg-type]
    return filling.complete(filling.fit(completer, part, rng), part, rng, draws=draws)


def _keyed(handles: pl.Series, frame: pl.DataFrame) -> pl.DataFrame:
    if HANDLE in frame.columns:
        raise InputError(f"column '{HANDLE}': rename it: a completed table has a column of this name")
    return frame.insert_column(0, handles)
