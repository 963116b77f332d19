"""Handles of a table's rows: random texts that stand for rows in place of ids, from a file beside the table.

Completing a table leaves such a file at each party: its id columns, and a column `handle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from unpooled.data.columns import fault
from unpooled.data.inference import Note
from unpooled.data.table import Table

HANDLE, HANDLE_DIGITS = "handle", 16
UNFIT = f"not a handle, which has {HANDLE_DIGITS} digits 0-9 or a-f"


def handle_column(ids: Sequence[str]) -> str:
    """What the column with handles is called beside id columns of these names.

    >>> handle_column(["person"]), handle_column(["handle"])
    ('handle', 'handle_')
    """
    name = HANDLE
    while name in ids:
        name += "_"
    return name


def unfit_handles(texts: pl.Series) -> list[int]:
    """The rows, from 1, that have no handle in this column, or one that cannot be one."""
    fits = texts.str.contains(f"^[0-9a-f]{{{HANDLE_DIGITS}}}$").fill_null(value=False)
    return ((~fits).arg_true() + 1).to_list()


def with_handles(table: Table, listed: pl.DataFrame, origin: str) -> Table:
    """A table with the handles of its rows; `listed` has ids as texts and, as its last column, handles.

    Rows whose id is not listed have none. An id that the table does not have is refused: the file is another's.
    """
    ids, column = list(table.id), listed.columns[-1]
    for name in ids:
        if (blank := listed[name].is_null()).any():
            raise fault(table.party, origin, "an id is missing", name, (blank.arg_true() + 1).to_list())
    if unfit := unfit_handles(listed[column]):
        raise fault(table.party, origin, UNFIT, column, unfit)
    for names, what in ((ids, "id"), ([column], "handle")):
        if (repeated := listed.select(names).is_duplicated()).any():
            rows = (repeated.arg_true() + 1).to_list()
            raise fault(table.party, origin, f"the same {what} in several rows", ", ".join(names), rows)
    strangers = listed.with_row_index("\0row", offset=1).join(table.ids, on=ids, how="anti")["\0row"].sort()
    if len(strangers):
        reason = f"{table.origin} does not have this id, so these may be the handles of another table or party"
        raise fault(table.party, origin, reason, ", ".join(ids), strangers.to_list())
    handles = table.ids.join(listed, on=ids, how="left", maintain_order="left")[column]
    notes = table.notes
    if absent := handles.null_count():
        text = f"{absent:,} of {len(handles):,} rows have no handle in {origin}, and do not take part"
        notes = (*notes, Note("", text, "warning"))
    return replace(table, handles=handles, notes=notes)
