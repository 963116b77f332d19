"""People that a party leaves out by a file of its own, such as opt-outs or its customers; the file is never sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import ValidationError

from unpooled.align.normalise import IdRules, comparable
from unpooled.arrays import Ints
from unpooled.data.columns import fault
from unpooled.data.sources import TableSettings, load, schema
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.settings import faults


def check_excluded(path: Path, ids: tuple[str, ...], party: str) -> None:
    """Refuse, before the start, a file that is not there or has not the ids of the party's table."""
    schema(_settings(path, ids, party, hashed=False), party)


def rows_left(table: Table, path: Path | None, rules: IdRules, *, hashed: bool) -> Ints:
    """The rows whose ids are not in a file, in their order; `hashed` says that the file's ids are hashes already."""
    if path is None:
        return np.arange(table.frame.height)
    excluded = load(_settings(path, table.id, table.party, hashed=hashed), table.party)
    for name in table.id:
        if (blank := excluded.frame[name].is_null()).any():
            raise fault(table.party, str(path), "an id is missing", name, (blank.arg_true() + 1).to_list())
    people = set(comparable(excluded, rules).rows())
    return np.flatnonzero([person not in people for person in comparable(table, rules).rows()])


def _settings(path: Path, ids: tuple[str, ...], party: str, *, hashed: bool) -> TableSettings:
    try:
        return TableSettings(path=path, id=ids, columns=(), hashed=hashed)
    except ValidationError as error:
        raise InputError(f"{party}: exclude: {path}: {'; '.join(faults(error))}") from None
