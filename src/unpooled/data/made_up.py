"""What the makers of example tables share: checks, levels, dates, gaps, and files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.arrays import Floats, Ints
from unpooled.atomic import make_folder, replacing
from unpooled.errors import InputError

TODAY = np.datetime64("2024-12-31")


def generator(rows: int, seed: int, smallest: int, largest: int) -> np.random.Generator:
    """Where the draws come from; sizes and random seeds that make no sense are refused."""
    if not smallest <= rows <= largest:
        raise InputError(f"example: rows must be between {smallest:,} and {largest:,}, not {rows:,}")
    if seed < 0:
        raise InputError(f"example: the random seed must not be negative, but is {seed}")
    return np.random.Generator(np.random.PCG64(seed))


def levels(value: Floats, names: list[str], fractions: list[float]) -> pl.Series:
    """Cut a number into named levels, the lowest first, that hold about the given fractions of the rows."""
    bounds = np.quantile(value, np.cumsum(fractions[:-1]))
    return pl.Series(names).gather(np.searchsorted(bounds, value))


def dates(days_ago: Ints) -> pl.Series:
    """The dates so many days before `TODAY`."""
    return pl.Series(TODAY - days_ago.astype("timedelta64[D]"))


def gaps(rng: np.random.Generator, values: pl.Series | NDArray[Any], fraction: float) -> pl.Series:
    """Leave a random fraction of the cells empty."""
    return pl.Series(values).set(pl.Series(rng.random(len(values)) < fraction), None)


def write_tables(folder: Path, tables: Mapping[str, pl.DataFrame]) -> list[Path]:
    """Write each table as a CSV file of its name into `folder`, which is created if needed."""
    written = []
    try:
        make_folder(folder)
        for name, table in tables.items():
            path = folder / f"{name}.csv"
            with replacing(path) as temporary:
                table.write_csv(temporary)
            written.append(path)
    except OSError as problem:
        raise InputError(f"{folder}: the example cannot be written: {problem.strerror}") from problem
    return written
