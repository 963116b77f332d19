"""People that a party leaves out by a file of its own, such as opt-outs or its customers; the file is never sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import ValidationError

from unpooled.align.ids import row_keys
from unpooled.arrays import Ints
from unpooled.data.columns import fault
from unpooled.data.sources import TableSettings, load, schema
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.settings import faults


def check_excluded(path: Path, ids: tuple[str, ...], party: str) -> None:
    """Refuse, before the start, a file that is not there or has not the ids of the party's table."""
    schema(_settings(path, ids, party), party)


def rows_left(table: Table, path: Path | None, *, ignore_case: bool = False) -> Ints:
    """The rows whose ids are not in a file, in their order; ids compare as in an alignment."""
    if path is None:
        return np.arange(table.frame.height)
    excluded = load(_settings(path, table.id, table.party), table.party)
    for name in table.id:
        if (blank := excluded.frame[name].is_null()).any():
            raise fault(table.party, str(path), "an id is missing", name, (blank.arg_true() + 1).to_list())
    keys = set(row_keys(excluded, ignore_case=ignore_case))
    return np.flatnonzero([key not in keys for key in row_keys(table, ignore_case=ignore_case)])


def _settings(path: Path, ids: tuple[str, ...], party: str) -> TableSettings:
    try:
        return TableSettings(path=path, id=ids, columns=())
    except ValidationError as error:
        raise InputError(f"{party}: exclude: {path}: {'; '.join(faults(error))}") from None
