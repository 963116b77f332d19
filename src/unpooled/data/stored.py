"""Columns of a table on disk, of which one at a time is in memory.

They lie in one file, which has no name and so ends with the process. Rows arrive in batches, and are kept as pieces of
their columns. A selection of rows is made when a column is read.

>>> stored = Stored(None)
>>> for batch in (pl.DataFrame({"age": [30, 50]}), pl.DataFrame({"age": [40]})):
...     stored.append(batch)
>>> stored.take(np.array([2, 0]))["age"].to_list()
[40, 30]
"""

from __future__ import annotations

import copy
import io
import tempfile
import weakref
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled import atomic


class _Column(NamedTuple):
    """Where the pieces of a column are in the file, with their lengths, and which of its rows are meant, if not all."""

    pieces: tuple[tuple[int, int], ...]
    rows: NDArray[np.integer] | None


class _File:
    """A file without a name, which is closed when nobody needs it any more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with atomic.naming(folder, "written to"):
            atomic.make_folder(folder)
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def write(self, content: memoryview) -> int:
        """Add something at the end; where it begins."""
        with atomic.naming(self._folder, "written to"):
            begin = self._file.seek(0, io.SEEK_END)
            self._file.write(content)
        return begin

    def read(self, begin: int, length: int) -> bytes:
        with atomic.naming(self._folder, "read from"):
            self._file.seek(begin)
            return self._file.read(length)


class Stored:
    """Columns on disk, by name; `take` and `with_column` give others that share the file."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._columns: dict[str, _Column] = {}
        self._file = _File(self._folder)

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> pl.Series:
        """A column, in memory."""
        pieces, rows = self._columns[name]
        cells = pl.concat([pl.read_ipc(io.BytesIO(self._file.read(*place))).to_series() for place in pieces])
        return cells if rows is None else cells.gather(rows)

    def append(self, batch: pl.DataFrame) -> None:
        """Keep the next rows of all columns."""
        for cells in batch.iter_columns():
            before = self._columns.get(cells.name, _Column((), None))
            self._columns[cells.name] = before._replace(pieces=(*before.pieces, self._written(cells)))

    def with_column(self, cells: pl.Series) -> Stored:
        """The same with this column, in the place of the one of its name if there is one."""
        return self._with(self._columns | {cells.name: _Column((self._written(cells),), None)})

    def take(self, rows: NDArray[np.integer]) -> Stored:
        """The rows at these positions (from 0), in this order."""
        taken = {id(before): rows if before is None else before[rows] for _, before in self._columns.values()}
        return self._with({name: _Column(pieces, taken[id(of)]) for name, (pieces, of) in self._columns.items()})

    def _with(self, columns: dict[str, _Column]) -> Stored:
        other = copy.copy(self)
        other._columns = columns
        return other

    def _written(self, cells: pl.Series) -> tuple[int, int]:
        buffer = io.BytesIO()
        cells.to_frame().write_ipc(buffer)
        return self._file.write(buffer.getbuffer()), len(buffer.getbuffer())
