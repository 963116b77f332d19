"""What owners compare where the plan says handles, and which tables cannot take part then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from unpooled.align.handles import RowRules, as_compared, check_handles, has_only_handles
from unpooled.align.ids import advice, keys_of
from unpooled.align.normalise import IdRules
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError

HANDLES = pl.Series([f"{number:016x}" for number in (2, 10)])


class Rules(IdRules, RowRules):
    pass


BY_HANDLE = Rules.model_validate({"compare": "handles", "normalise": {"name": "digits", "length": 4}, "hash": "sha256"})
BY_ID = Rules()


def table(ids: Any, handles: pl.Series | None = None) -> Table:
    made = table_from_frame(pl.DataFrame({"id": ids, "x": range(len(ids))}), "id", "clinic")
    return replace(made, handles=handles)


def test_handles_are_compared_exactly_whatever_the_plan_says_of_ids() -> None:
    registry, clinic = table(["12", "7"], HANDLES), table(HANDLES.reverse())
    ours, rules = as_compared(registry, BY_HANDLE)
    assert (ours.id, ours.frame.columns, ours.handles, rules) == (("handle",), ["handle"], None, IdRules())
    assert keys_of(ours, rules) == keys_of(*as_compared(clinic, BY_HANDLE))[::-1]
    assert has_only_handles(clinic, BY_HANDLE)
    assert not has_only_handles(registry, BY_HANDLE)
    assert not has_only_handles(clinic, BY_ID)


def test_ids_are_compared_as_ever() -> None:
    people = table(["12", "7"])
    assert as_compared(people, BY_ID) == (people, BY_ID)
    assert as_compared(people, IdRules()) == (people, IdRules())
    for owner in (True, False):
        check_handles(people, BY_ID, owner=owner)
    check_handles(people, BY_HANDLE, owner=False)


def test_who_has_neither_handles_nor_a_file_of_them_is_refused() -> None:
    check_handles(table(HANDLES), BY_HANDLE, owner=True)
    with pytest.raises(InputError, match=r"^clinic: data frame: column 'id': row 2: not a handle.*table\.handles"):
        check_handles(table([HANDLES[0], "12"]), BY_HANDLE, owner=True)
    composite = replace(table(HANDLES), id=("id", "x"))
    with pytest.raises(InputError, match=r"^clinic: data frame: column 'id, x': handles have one column"):
        check_handles(composite, BY_HANDLE, owner=True)


def test_a_file_of_handles_that_nobody_asks_for_is_refused() -> None:
    with pytest.raises(PlanError, match=r"clinic: table\.handles: the plan compares ids"):
        check_handles(table(["1", "2"], HANDLES), BY_ID, owner=True)
    with pytest.raises(PlanError, match=r"clinic: table\.handles: the people of a seeker are compared by id"):
        check_handles(table(["1", "2"], HANDLES), BY_HANDLE, owner=False)


def test_handles_that_do_not_match_are_said_to_be_handles() -> None:
    letters = pl.Series(["00000000000000ab", "00000000000000ac"])
    assert "these look like handles" in advice(table(letters), IdRules())[0]
    assert advice(table(["1234567812345678", "1234567812345679"]), IdRules()) == []
