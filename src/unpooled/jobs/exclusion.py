"""People that a party leaves out by a file of its own, such as opt-outs or its customers; the file is never sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import ValidationError

from unpooled.align.normalise import IdRules, comparable
from unpooled.arrays import Ints
from unpooled.data.columns import fault
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.settings import faults


def rows_left(table: Table, path: Path | None, rules: IdRules, *, hashed: bool) -> Ints:
    """The rows whose ids are not in a file, in their order; `hashed` says that the file's ids are hashes already."""
    if path is None:
        return np.arange(table.frame.height)
    people = excluded_people(path, table.id, table.party, rules, hashed=hashed)
    return np.flatnonzero([person not in people for person in comparable(table, rules).rows()])


def excluded_people(
    path: Path, ids: tuple[str, ...], party: str, rules: IdRules, *, hashed: bool
) -> set[tuple[str, ...]]:
    """The ids in a file as they are compared; one that is missing, or does not fit the rules, is refused."""
    excluded = load(_settings(path, ids, party, hashed=hashed), party)
    for name in ids:
        if (blank := excluded.frame[name].is_null()).any():
            raise fault(party, str(path), "an id is missing", name, (blank.arg_true() + 1).to_list())
    return set(comparable(excluded, rules).rows())


def _settings(path: Path, ids: tuple[str, ...], party: str, *, hashed: bool) -> TableSettings:
    try:
        return TableSettings(path=path, id=ids, columns=(), hashed=hashed)
    except ValidationError as error:
        raise InputError(f"{party}: exclude: {path}: {'; '.join(faults(error))}") from None
