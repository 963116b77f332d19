"""The files of a completed table: the table, where each cell is from, how sure it is, draws, and handles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from unpooled import atomic
from unpooled.complete import screening
from unpooled.complete.settings import GenerateSettings
from unpooled.complete.table import CompletedTable
from unpooled.data.coding import learn
from unpooled.data.columns import ISO_DATE, fault
from unpooled.data.handles import HANDLE
from unpooled.data.restore import restored
from unpooled.data.table import Table
from unpooled.jobs.learning.scores import inferred, write_rows

COMPLETED, PROVENANCE, CONFIDENCE, DRAWS = "completed", "provenance", "confidence", "draws"
HANDLES = "handles.csv"
DRAW = "draw"

Format = Literal["parquet", "csv"]


def write(folder: Path, real: Table, done: CompletedTable, settings: GenerateSettings) -> dict[str, Any]:
    """Write what the active party has of a completed table, in the types that its own table had; the files' names."""
    whole = {name: learn(name, kind, real.frame[name]).whole for name, kind in real.kinds.items()}

    def as_before(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(
            restored(frame[name], kind, real.dtypes.get(name), whole=whole[name]) for name, kind in real.kinds.items()
        )

    table = as_before(done.table)
    if settings.weight:
        table = table.with_columns(pl.Series(settings.weight, done.weights))
    frames = {COMPLETED: table, PROVENANCE: done.provenance, CONFIDENCE: done.confidence}
    if done.draws:
        numbered = [
            as_before(draw).insert_column(0, pl.lit(number + 1).alias(DRAW)) for number, draw in enumerate(done.draws)
        ]
        frames[DRAWS] = pl.concat(numbered)
    for name, frame in frames.items():
        write_frame(folder / f"{name}.{settings.format}", frame, settings.format)
    return {"file": f"{COMPLETED}.{settings.format}", "files": [f"{name}.{settings.format}" for name in frames]}


def write_handles(folder: Path, ids: pl.DataFrame, handles: list[str]) -> None:
    """Write which handle stands for which of a party's own rows."""
    write_rows(folder / HANDLES, ids, {HANDLE: pl.Series(handles)})


def write_frame(path: Path, frame: pl.DataFrame, format: Format) -> None:
    """Write a frame whole or not at all, for its owner alone."""
    with atomic.naming(path), atomic.replacing(path) as temporary:
        if format == "csv":
            frame.write_csv(temporary)
        else:
            frame.write_parquet(temporary)


@dataclass(frozen=True)
class FrameFile:
    """A file of `write`, in either format."""

    name: str

    def read(self, folder: Path, _id_columns: int) -> pl.DataFrame | None:
        """The frame; None if this party has none."""
        if (path := folder / f"{self.name}.parquet").exists():
            return pl.read_parquet(path)
        path = folder / f"{self.name}.csv"
        if not path.exists():
            return None
        texts = pl.read_csv(path, infer_schema=False, glob=False)
        return texts.with_columns(_with_type(cells) for cells in texts if cells.name != HANDLE)


def _with_type(texts: pl.Series) -> pl.Series:
    """A column of a CSV file in the type that all its cells have; codes that begin with 0 stay texts."""
    dates = texts.str.to_date(ISO_DATE, strict=False)
    return dates if 0 < dates.count() == texts.count() else inferred(texts)


@dataclass(frozen=True)
class ScreeningFile:
    """The list of a screening."""

    name: str

    def read(self, folder: Path, _id_columns: int) -> pl.DataFrame | None:
        """A row for each column, the strongest first; None if this party has no list."""
        if not (path := folder / self.name).exists():
            return None
        return pl.DataFrame([one.model_dump() for one in screening.load(path).columns])


def check_names(table: Table, settings: GenerateSettings) -> None:
    """Refuse columns whose names a completed table needs itself, and a weight that would take another's place."""
    taken = [name for name in (HANDLE, DRAW) if name in table.kinds]
    if taken:
        reason = "rename it: a completed table has a column of this name"
        raise fault(table.party, table.origin, reason, taken[0])
    if settings.weight in (HANDLE, DRAW, *table.kinds):
        reason = "generate.weight needs another name: there is a column of this one"
        raise fault(table.party, table.origin, reason, settings.weight)
