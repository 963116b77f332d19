"""Files of a completed table are read as they were written."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl

from unpooled.jobs.complete.table_files import FrameFile


def test_a_csv_file_has_the_types_that_all_its_cells_have(tmp_path: Path) -> None:
    late = [None] * 150
    frame = pl.DataFrame(
        {
            "handle": [str(number) for number in range(152)],
            "code": ["003", "12", *late],
            "ward": [*map(str, range(150)), "north", None],
            "whole": [1, -2, *late],
            "lab": [*range(150), None, 0.5],
            "smokes": [True, False, *late],
            "since": [date(2024, 2, 29), date(2020, 1, 1), *late],
            "day": ["2024-02-29", "soon", *late],
        },
        strict=False,
    )
    frame.write_csv(tmp_path / "completed.csv")
    found = FrameFile("completed").read(tmp_path, 0)
    assert found is not None
    assert found.schema == frame.schema
    assert found.equals(frame)
    assert FrameFile("draws").read(tmp_path, 0) is None
