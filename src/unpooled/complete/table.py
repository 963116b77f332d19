"""Algorithm 4-1 of the FedPSG-PUM paper, and what comes of it: a table for all rows, each cell saying where it is from.

Columns that can be predicted are predicted, by descending strength; what is left of the table is filled by a completer
at the active party alone, perhaps with further columns beside its own, or stays missing. Rows are keyed by handles
(`align.other_rows`).

A model that is trained on one draw learns the draw's noise too. Train one on each of several draws and one on the table
with its cells left missing, and take the mean of what they say (`training_tables`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.beside import fill
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.filling import Completed, HeldOut
from unpooled.complete.self_training import Prediction
from unpooled.data.coding import decode
from unpooled.data.handles import HANDLE
from unpooled.data.table import Table
from unpooled.errors import InputError

REAL, PREDICTED, GENERATED, NOT_FILLED = "real", "predicted", "generated", "not filled"


@dataclass(frozen=True, eq=False)
class CompletedTable:
    """A row for each handle, in the columns' own order and types.

    `provenance` says of each cell whether it is real, predicted, generated or not filled, `confidence` how sure it is:
    1 where it is real, 0 where it is not filled. `draws` are further tables, in which filled cells are drawn, and
    `left_missing` is the table with real cells only. `held_out` has, of each column that a completer filled, known
    cells and what it made of them when they were hidden.
    """

    table: pl.DataFrame
    provenance: pl.DataFrame
    confidence: pl.DataFrame
    draws: tuple[pl.DataFrame, ...]
    left_missing: pl.DataFrame
    held_out: Mapping[str, HeldOut]

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
    groups: Sequence[tuple[Sequence[str], CompleterSettings]] = (),
    draws: int = 0,
    least_confidence: float | None = None,
    further: Floats | None = None,
) -> CompletedTable:
    """Put a table together: `real` has the first rows, `predictions` what was found about some columns in all rows.

    Of predicted cells those are filled that have at least `least_confidence`; without it those that became values in
    the course of self-training. Each of the `groups` of columns that are not predicted has a completer of its own, all
    others have `completer`, or stay missing without one. Completers see `further` columns too, rows × columns of
    numbers that are known in every row.
    """
    if len(handles) < real.frame.height:
        raise InputError(f"{real.party}: {len(handles)} handles for {real.frame.height} rows")
    if further is not None and len(further) != len(handles):
        raise InputError(f"{real.party}: further columns of {len(further)} rows for {len(handles)} handles")
    known = _extended(real, len(handles))
    predicted = {one.variable.name: (one, _accepted(one, least_confidence)) for one in predictions}
    frame = known.frame.with_columns(
        [_filled(known.frame[name], one, one.values, mask) for name, (one, mask) in predicted.items()]
    )
    tables = [
        known.frame.with_columns(
            [_filled(known.frame[name], one, one.drawn(rng), mask) for name, (one, mask) in predicted.items()]
        )
        for _ in range(draws)
    ]
    confidence = {name: np.where(known.frame[name].is_null(), 0.0, 1.0) for name in known.kinds}
    origin = {name: np.where(known.frame[name].is_null(), NOT_FILLED, REAL).astype(object) for name in known.kinds}
    for name, (one, mask) in predicted.items():
        confidence[name][mask], origin[name][mask] = one.confidence[mask], PREDICTED
    held_out: dict[str, HeldOut] = {}
    for names, settings in _groups(known, predicted, groups, completer):
        generated, judged = _generated(known, names, settings, rng, draws + 1, further)
        held_out |= judged
        first, *others = (draw.frame.select(names) for draw in generated.draws)
        frame = frame.with_columns(first)  # not what draws agree on: that would have less spread, and other frequencies
        tables = [table.with_columns(draw) for table, draw in zip(tables, others, strict=True)]
        for place, name in enumerate(generated.table.kinds):
            mask = generated.filled[:, place]
            confidence[name][mask], origin[name][mask] = generated.trust[mask, place], GENERATED
    keyed, kinds = pl.Series(HANDLE, handles), list(known.kinds)
    return CompletedTable(
        table=_keyed(keyed, frame.select(kinds)),
        provenance=_keyed(keyed, pl.DataFrame({name: _named(cells) for name, cells in origin.items()})),
        confidence=_keyed(keyed, pl.DataFrame(confidence)),
        draws=tuple(_keyed(keyed, table.select(kinds)) for table in tables),
        left_missing=_keyed(keyed, known.frame.select(kinds)),
        held_out=held_out,
    )


def _extended(real: Table, rows: int) -> Table:
    """The table with empty rows behind its own."""
    frame = real.frame.select(*real.kinds)
    empty = frame.clear(rows - frame.height)
    return Table(real.party, real.origin, (), real.kinds, pl.concat([frame, empty]))


def _accepted(prediction: Prediction, least_confidence: float | None) -> Bools:
    """Which missing cells get their prediction."""
    if least_confidence is None:
        accepted: Bools = prediction.rounds > 0
        return accepted
    return ~prediction.known & (prediction.confidence >= least_confidence)


def _filled(cells: pl.Series, prediction: Prediction, values: Floats, mask: Bools) -> pl.Series:
    return decode(prediction.column.column, values).zip_with(pl.Series(mask), cells).alias(cells.name)


def _named(origins: NDArray[np.object_]) -> pl.Series:
    return pl.Series(origins.tolist(), dtype=pl.Enum([REAL, PREDICTED, GENERATED, NOT_FILLED]))


def _groups(
    known: Table,
    predicted: Collection[str],
    groups: Sequence[tuple[Sequence[str], CompleterSettings]],
    completer: CompleterSettings | None,
) -> Iterator[tuple[list[str], CompleterSettings]]:
    """The columns that are not predicted, by completer; each in the table's order."""
    grouped = {name: place for place, (names, _) in enumerate(groups) for name in names}
    rest = [name for name in known.kinds if name not in predicted]
    for place, (_, settings) in enumerate(groups):
        if names := [name for name in rest if grouped.get(name) == place]:
            yield names, settings
    if completer is not None and (names := [name for name in rest if name not in grouped]):
        yield names, completer


def _generated(
    known: Table,
    names: Sequence[str],
    completer: CompleterSettings,
    rng: np.random.Generator,
    draws: int,
    further: Floats | None,
) -> tuple[Completed, Mapping[str, HeldOut]]:
    """Columns that are not predicted, filled at this party alone."""
    kinds = {name: known.kinds[name] for name in names}
    part = Table(known.party, known.origin, (), kinds, known.frame.select(names))
    return fill(completer, part, rng, further=further, draws=draws)


def _keyed(handles: pl.Series, frame: pl.DataFrame) -> pl.DataFrame:
    if HANDLE in frame.columns:
        raise InputError(f"column '{HANDLE}': rename it: a completed table has a column of this name")
    return frame.insert_column(0, handles)
