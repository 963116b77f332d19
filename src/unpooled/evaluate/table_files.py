"""A completed table and the truth from files, and a mask that says which cells were filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from unpooled.arrays import Bools
from unpooled.data.columns import Kind, fault
from unpooled.data.sources import TableSettings, column_names, load
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.evaluate.table import matching_rows
from unpooled.settings import faults

_NOT_FILLED = ("false", "0", "real")


def read_tables(
    completed: Path, truth: Path, ids: Sequence[str], categories: Sequence[str] = ()
) -> tuple[Table, Table]:
    """Both tables, with the types that the truth has; `categories` are columns whose numbers are codes."""
    names = _names(completed, ids, "completed")
    known = _names(truth, ids, "truth")
    for name in categories:
        if name not in known:
            raise fault("truth", str(truth), "declared as a category, but there is no such column", name)
    for name in names:
        if name not in known:
            raise fault("completed", str(completed), f"{truth} has no such column; it has: {', '.join(known)}", name)
    declared: dict[str, Kind] = {name: "category" for name in categories if name in names}
    true = load(_settings(truth, ids, declared, names), "truth")
    return load(_settings(completed, ids, true.kinds), "completed"), true


def read_mask(path: Path, completed: Table) -> Bools:
    """Which cells were filled, from a file with the same ids: all that are not empty, `false`, `0` or `real`.

    A column that the file does not have was not filled.
    """
    names = _names(path, completed.id, "mask")
    for name in names:
        if name not in completed.kinds:
            raise fault("mask", str(path), f"{completed.origin} has no such column", name)
    words = load(_settings(path, completed.id, dict.fromkeys(names, "category")), "mask")
    frame = words.frame[matching_rows(completed, words)]
    mask = np.zeros((completed.frame.height, len(completed.kinds)), np.bool_)
    for place, name in enumerate(completed.kinds):
        if name in names:
            mask[:, place] = ~frame[name].str.to_lowercase().is_in(_NOT_FILLED).fill_null(True).to_numpy()
    return mask


def _names(path: Path, ids: Sequence[str], party: str) -> list[str]:
    """The columns of a file besides the ids, which it must have."""
    names = column_names(_settings(path, ids), party)
    if absent := [name for name in ids if name not in names]:
        raise fault(party, str(path), f"there is no such column; there are: {', '.join(names)}", absent[0])
    return [name for name in names if name not in ids]


def _settings(
    path: Path, ids: Sequence[str], types: Mapping[str, Kind] | None = None, columns: Sequence[str] | None = None
) -> TableSettings:
    names = None if columns is None else tuple(columns)
    try:
        return TableSettings(path=path, id=tuple(ids), types=dict(types or {}), columns=names)
    except ValidationError as error:
        raise InputError(f"{path}: {'; '.join(faults(error))}") from None
