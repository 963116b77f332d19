"""Tables with columns of every type that depend on each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Bools, Floats
from unpooled.data.table import Table, table_from_frame

SIZES = ("small", "middle", "large")


def mixed_table(rows: int, seed: int = 1) -> Table:
    """Columns of every type, all of which follow from one hidden number, with some noise."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal(rows)

    def noisy() -> Floats:
        return hidden + 0.4 * rng.standard_normal(rows)

    frame = pl.DataFrame(
        {
            "id": range(rows),
            "income": np.exp(noisy()),
            "children": np.clip(np.rint(noisy() + 1), 0, 6).astype(np.int64),
            "tariff": np.array(["basic", "family", "plus"])[np.digitize(noisy(), [-0.5, 0.5])],
            "since": pl.Series((19000 + 300 * noisy()).astype(np.int32)).cast(pl.Date),
            "paper": noisy() > 0.3,
            "size": np.array(SIZES)[np.digitize(noisy(), [-0.3, 0.9])],
        }
    )
    return table_from_frame(frame, "id", "telco", {"size": SIZES})


@pytest.fixture
def mixed() -> Callable[[int], Table]:
    return mixed_table


@pytest.fixture
def scattered() -> Callable[[Table], Bools]:
    """Makes a mask of cells drawn at random, three of ten."""
    rng = np.random.default_rng(2)
    return lambda table: rng.random((table.frame.height, len(table.kinds))) < 0.3
