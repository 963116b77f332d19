"""Rows whose columns different parties hold.

>>> import polars as pl
>>> rows = Apart({"telco": pl.DataFrame({"calls": [3, 1, 2]}), "bank": pl.DataFrame({"balance": [10, 30, 20]})})
>>> rows.shape, rows[[2, 0]].frames["bank"]["balance"].to_list()
((3, 2), [20, 10])
>>> dealt(pl.DataFrame({"calls": [3], "age": [40], "balance": [10]}), {"telco": ["calls"], "bank": [1, 2]}).names
('telco.calls', 'bank.age', 'bank.balance')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from unpooled.errors import InputError
from unpooled.transport.trust import PARTY_NAME

COORDINATOR = "coordinator"
"""The party that deals random numbers or holds a key, if the engine needs one."""

Split: TypeAlias = Mapping[str, Sequence[str | int]] | int
"""By party the columns that it holds, by name or place; or into how many parts columns are divided in their order."""


class Apart:
    """Data frames of several parties, polars or pandas, with a row for each person: the same ones in the same order.

    It can be indexed by rows as one table, so that scikit-learn can divide it. A frame without columns stands for a
    party that has the labels alone.
    """

    def __init__(self, frames: Mapping[str, Any]) -> None:
        self.frames = dict(frames)
        check_names(tuple(self.frames))
        for party, frame in self.frames.items():
            if not is_frame(frame):
                raise InputError(f"{party}: its table is a {type(frame).__name__}, not a polars or pandas data frame")
            _check_unique(party, frame)
        rows = {party: len(frame) for party, frame in self.frames.items() if len(frame.columns)}
        if not rows:
            raise InputError("no party holds any column")
        if len(set(rows.values())) > 1:
            told = ", ".join(f"{party} {count}" for party, count in rows.items())
            raise InputError(
                f"the parties' tables differ in their rows ({told}); they must have the same people in the same order: "
                "to find these by ids, use unpooled.simulate"
            )
        self._rows = next(iter(rows.values()))

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.frames)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, each behind its party's name."""
        return tuple(f"{party}.{column}" for party, frame in self.frames.items() for column in frame.columns)

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, sum(len(frame.columns) for frame in self.frames.values())

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: Any) -> Apart:
        """The rows at these places, or where this is true; also as scikit-learn asks an array, `[rows, ...]`."""
        first = rows[0] if isinstance(rows, tuple) else rows
        places = np.atleast_1d(np.arange(self._rows)[first])
        return Apart({party: _taken(frame, places) for party, frame in self.frames.items()})

    def __repr__(self) -> str:
        held = ", ".join(f"{party}: {len(frame.columns)} columns" for party, frame in self.frames.items())
        return f"Apart({self._rows} rows; {held})"


def dealt(frame: Any, split: Split | None) -> Apart:
    """One polars or pandas data frame, its columns dealt to parties; those that no party gets are left out."""
    _check_unique("X", frame)
    columns = list(frame.columns)
    if isinstance(split, int):
        split = _even(len(columns), split)
    if not isinstance(split, Mapping):
        raise InputError("split: say by party which columns it holds, such as {'telco': ['calls'], 'bank': ['age']}")
    holders: dict[str, str] = {}
    held = dict[str, list[str]]()
    for party, wanted in split.items():
        if isinstance(wanted, str):
            raise InputError(f"split: {party}: give a list of columns")
        held[party] = [_column(party, column, columns) for column in wanted]
        for name in held[party]:
            if name in holders:
                raise InputError(f"split: column '{name}' is given to {holders[name]} and to {party}")
            holders[name] = party
    return Apart({party: select(frame, names) for party, names in held.items()})


def select(frame: Any, names: Sequence[Any]) -> Any:
    """Some columns of a polars or pandas data frame; polars would take no names for no rows."""
    return frame.select(names) if isinstance(frame, pl.DataFrame) else frame[list(names)]


def is_frame(table: Any) -> bool:
    """Whether this is a polars or pandas data frame."""
    return isinstance(table, pl.DataFrame) or (hasattr(table, "iloc") and hasattr(table, "columns"))


def check_names(parties: Sequence[str]) -> None:
    """Refuse parties that no plan could have."""
    for name in parties:
        if not isinstance(name, str) or not PARTY_NAME.fullmatch(name):
            raise InputError(
                f"{name!r} is not a valid name of a party: use a-z, 0-9 and hyphens, and begin with a letter"
            )
    if COORDINATOR in parties:
        raise InputError(f"'{COORDINATOR}' is the party that has no data: give the one with columns another name")
    if len(parties) < 2:
        raise InputError("there must be two parties at least, of which one may have the labels alone")


def _even(columns: int, parties: int) -> dict[str, list[int]]:
    parts = np.array_split(np.arange(columns), max(parties, 1))
    return {f"party-{number}": places.tolist() for number, places in enumerate(parts, start=1)}


def _column(party: str, wanted: str | int, columns: Sequence[Any]) -> Any:
    """The name of a column that is given by name or place."""
    if wanted in columns:
        return wanted
    if isinstance(wanted, int) and 0 <= wanted < len(columns):
        return columns[wanted]
    there = f"the columns are: {', '.join(map(str, columns))}"
    raise InputError(f"split: {party}: there is no column {wanted!r}; {there}")


def _check_unique(party: str, frame: Any) -> None:
    columns = list(map(str, frame.columns))
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise InputError(f"{party}: column '{twice}' is there twice")


def _taken(frame: Any, places: Any) -> Any:
    if not len(frame.columns):
        return frame
    return frame[places] if isinstance(frame, pl.DataFrame) else frame.iloc[places]
