"""The seeker's list of look-alikes, read back from its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from unpooled.data.columns import rows_named, unfit_ids
from unpooled.errors import InputError
from unpooled.jobs.lookalike.list_files import TIERS, as_sent

_ADDED = ("rank", "score", "tier", "iteration")
"""What stands behind the ids; a name that an id column has already comes with something after it."""


@dataclass(frozen=True, eq=False)
class ListFile:
    """The ids, and for each rank, score (null if it has none), tier and iteration."""

    ids: pl.DataFrame
    lines: pl.DataFrame


def read_list(path: Path, first: int | None = None) -> ListFile:
    """The whole list, or the first few rows of it; InputError if the file is not one."""
    try:
        cells = pl.read_csv(path, infer_schema=False, n_rows=first, glob=False)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except (OSError, pl.exceptions.PolarsError):
        raise InputError(f"{path}: cannot be read as a list of look-alikes") from None
    ids, added = cells.columns[: -len(_ADDED)], cells.columns[-len(_ADDED) :]
    if not ids or tuple(name.rstrip("_") for name in added) != _ADDED:
        raise InputError(f"{path}: its columns are not ids followed by {', '.join(_ADDED)}")
    rank, score, tier, iteration = (cells[name] for name in added)
    lines = pl.DataFrame(
        {
            "rank": rank.cast(pl.UInt32, strict=False),
            "score": score.cast(pl.Float64, strict=False),
            "tier": tier,
            "iteration": iteration.cast(pl.UInt32, strict=False),
        }
    )
    wrong = {
        rank.name: lines["rank"].is_null(),
        score.name: lines["score"].is_null() & score.is_not_null(),
        tier.name: ~tier.is_in(TIERS).fill_null(value=False),
        iteration.name: lines["iteration"].is_null(),
    }
    for name, rows in wrong.items():
        if rows.any():
            numbers = (rows.arg_true() + 1).to_list()
            raise InputError(
                f"{path}: column '{name}': {rows_named(numbers)}: not what a list of look-alikes has there"
            )
    names = as_sent(cells.select(ids))
    for column in names:
        if unfit := unfit_ids(column):
            raise InputError(f"{path}: column '{column.name}': {rows_named(unfit[1])}: {unfit[0]}")
    return ListFile(names, lines)
