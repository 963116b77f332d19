"""A public data set dealt for a look-alike search: who holds which columns, who is known, and rows to test on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings, clean, transform
from unpooled.data.prepare import fit as learn_preparation
from unpooled.data.sources import TableSettings
from unpooled.data.table import Table, table_from_frame
from unpooled.vertical.inputs import Columns

ROLES = {"a": "seeker", "b": "passive", "c": "active", "coordinator": "coordinator"}
OWNERS = ("b", "c")
SETS = ("bank", "credit", "census")


@dataclass(frozen=True, eq=False)
class Dealt:
    """The parties' tables, and what they hold as one: pooled `columns` of the training rows, `test` of the others.

    Rows are in the order of their ids, as parties have them after an alignment.
    """

    name: str
    tables: Mapping[str, pl.DataFrame]
    test_tables: Mapping[str, pl.DataFrame]
    columns: Columns
    test: Floats
    known: Bools
    positive: Bools
    test_positive: Bools
    ids: pl.Series
    test_ids: pl.Series

    def table(self, party: str, *, test: bool = False) -> Table:
        """A party's table, as its part of a job reads it."""
        return _table(self.name, party, (self.test_tables if test else self.tables)[party])

    def written(self, party: str, folder: Path, *, test: bool = False) -> TableSettings:
        """A party's table as a file, for a party that is a process of its own."""
        frame = (self.test_tables if test else self.tables)[party]
        path = folder / f"{party}{'-test' if test else ''}.csv"
        frame.write_csv(path)
        types = _types(self.name, frame)
        settings = {"path": str(path), "id": "id", "types": types, "missing": ("", *datasets.MISSING[self.name])}
        return TableSettings.model_validate(settings)


@lru_cache(maxsize=2)
def deal(
    name: str, seed: int, *, train: float, known: float, labelling: datasets.Labelling = "random", without: str = ""
) -> Dealt:
    """Deal a data set: a fraction of the rows to `train` on, of whose positives a fraction is `known`."""
    dealt = datasets.scenario(
        name,
        known_fraction=known,
        labelling=labelling,
        train_fraction=train,
        without=(without,) if without else (),
        seed=seed,
    )
    blocks, tests, names = [], [], list[str]()
    for party in OWNERS:
        table, _ = clean(_table(name, party, dealt.tables[party]), PrepareSettings())
        preparation = learn_preparation(table, PrepareSettings())
        prepared = transform(preparation, table)
        blocks.append(prepared.matrix)
        held_out = dealt.test_tables[party]
        none = np.empty((0, prepared.matrix.shape[1]))
        tests.append(transform(preparation, _table(name, party, held_out)).matrix if held_out.height else none)
        names += prepared.names
    ids = dealt.truth["id"]
    return Dealt(
        name=name,
        tables=dealt.tables,
        test_tables=dealt.test_tables,
        columns=Columns(np.hstack(blocks), tuple(names), tuple(block.shape[1] for block in blocks), OWNERS.index("c")),
        test=np.hstack(tests),
        known=ids.is_in(dealt.tables[datasets.SEEKER]["id"].implode()).to_numpy(),
        positive=dealt.truth["positive"].to_numpy(),
        test_positive=dealt.test_truth["positive"].to_numpy(),
        ids=ids,
        test_ids=dealt.test_truth["id"],
    )


def _table(name: str, party: str, frame: pl.DataFrame) -> Table:
    return table_from_frame(frame, "id", party, _types(name, frame), ("", *datasets.MISSING[name]))  # type: ignore[arg-type]


def _types(name: str, frame: pl.DataFrame) -> dict[str, str]:
    return {column: kind for column, kind in datasets.TYPES[name].items() if column in frame.columns}
