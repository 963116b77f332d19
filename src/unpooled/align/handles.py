"""Owners that compare handles instead of ids: what a plan says of it, and what each of them then compares.

Completing a table leaves every party with handles for its rows. Who has ids has a file that says which handle stands
for which id (`table.handles`). The completed table itself has handles for ids. A seeker has no handles: its people are
compared with the active party's by id.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import polars as pl
from pydantic import Field

from unpooled.align.normalise import IdRules
from unpooled.data.columns import fault
from unpooled.data.handles import HANDLE, UNFIT, unfit_handles
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.settings import Section


class RowRules(Section):
    """The part of a plan that says by what the owners of columns find the rows that they have in common."""

    compare: Literal["ids", "handles"] = Field(
        "ids",
        description="what the owners compare to find common rows: ids, or handles after completing a table; a seeker's "
        "people are compared by id",
    )


def compares_handles(rules: object) -> bool:
    """Whether a plan with these parameters says that owners compare handles."""
    return isinstance(rules, RowRules) and rules.compare == "handles"


def has_only_handles(table: Table, rules: object) -> bool:
    """Whether an owner's ids are handles themselves, so that nobody's ids can be compared with them."""
    return compares_handles(rules) and table.handles is None


def check_handles(table: Table, rules: object, *, owner: bool) -> None:
    """Refuse handles where ids are compared, and an owner's ids that are no handles where these are compared."""
    if table.handles is not None and not compares_handles(rules):
        raise PlanError(
            f"{table.party}: table.handles: the plan compares ids; agree on compare = 'handles', or remove it"
        )
    if table.handles is not None and not owner:
        raise PlanError(f"{table.party}: table.handles: the people of a seeker are compared by id; remove it")
    if not owner or not has_only_handles(table, rules):
        return
    expected = "name the file with the handles of this party's rows (table.handles), or the column that has them (id)"
    if len(table.id) > 1:
        reason = f"handles have one column (parameters.compare); {expected}"
        raise fault(table.party, table.origin, reason, ", ".join(table.id))
    if unfit := unfit_handles(table.frame[table.id[0]]):
        raise fault(table.party, table.origin, f"{UNFIT} (parameters.compare); {expected}", table.id[0], unfit)


def as_compared(table: Table, rules: IdRules) -> tuple[Table, IdRules]:
    """An owner's rows as owners compare them, and the rules: handles stand for ids, and are compared as they are."""
    if not compares_handles(rules):
        return table, rules
    if table.handles is None:
        return table, IdRules()
    frame = pl.DataFrame({HANDLE: table.handles})
    return replace(table, id=(HANDLE,), kinds={}, frame=frame, hashed=False, handles=None), IdRules()
