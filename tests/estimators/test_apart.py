"""Rows whose columns different parties hold: dealt, divided by rows as scikit-learn does it, refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from unpooled.errors import InputError
from unpooled.estimators.apart import Apart, dealt

TELCO = pl.DataFrame({"calls": [3, 1, 2, 5], "tariff": ["a", "b", "a", None]})
BANK = pd.DataFrame({"age": [30, 40, 50, 60]}, index=[9, 8, 7, 6])
ROWS = Apart({"telco": TELCO, "bank": BANK})


@pytest.mark.parametrize(
    "chosen", [[2, 0], np.array([2, 0]), np.array([True, False, True, False]), slice(0, 2)], ids=str
)
def test_rows_are_the_same_at_all_parties(chosen: Any) -> None:
    for found in (ROWS[chosen], _safe_indexing(ROWS, chosen)):
        places = np.arange(4)[chosen]
        assert found.frames["telco"]["calls"].to_list() == TELCO["calls"].to_numpy()[places].tolist()
        assert found.frames["bank"]["age"].tolist() == BANK["age"].to_numpy()[places].tolist()
        assert len(found) == len(places)


def test_scikit_learn_can_divide_them() -> None:
    some, others, _, labels = train_test_split(ROWS, np.arange(4), test_size=1, random_state=0)
    assert (some.shape, others.shape) == ((3, 3), (1, 3))
    assert others.frames["bank"]["age"].iloc[0] == 30 + 10 * labels[0]
    assert repr(some) == "Apart(3 rows; telco: 2 columns, bank: 1 columns)"


def test_a_party_may_have_the_labels_alone() -> None:
    for nothing in (pl.DataFrame(), pd.DataFrame(), BANK[[]]):
        assert Apart({"telco": TELCO, "bank": nothing})[[1, 2]].shape == (2, 2)
    assert dealt(TELCO, {"telco": ["calls"], "bank": []}).names == ("telco.calls",)


def test_columns_are_dealt_by_name_or_place_or_evenly() -> None:
    frame = pl.DataFrame({name: [1.0] for name in "abcde"})
    wanted = {"telco": ("telco.e", "telco.b"), "bank": ("bank.a",)}
    for table in (frame, pd.DataFrame(frame.to_dict(as_series=False))):
        found = dealt(table, {"telco": ["e", 1], "bank": ["a"]})
        assert found.names == wanted["telco"] + wanted["bank"]
    assert dealt(frame, 2).names == ("party-1.a", "party-1.b", "party-1.c", "party-2.d", "party-2.e")
    numbered = pd.DataFrame(np.ones((2, 3)))
    assert dealt(numbered, {"telco": [2, 0], "bank": [1]}).names == ("telco.2", "telco.0", "bank.1")


@pytest.mark.parametrize(
    ("split", "text"),
    [
        (None, "split: say by party"),
        (
            {"telco": ["calls"], "bank": ["age"]},
            r"split: bank: there is no column 'age'; the columns are: calls, tariff",
        ),
        ({"telco": ["calls"], "bank": [2]}, "split: bank: there is no column 2"),
        ({"telco": ["calls"], "bank": [0]}, "split: column 'calls' is given to telco and to bank"),
        ({"telco": "calls", "bank": ["tariff"]}, "split: telco: give a list of columns"),
        ({"Telco": ["calls"], "bank": ["tariff"]}, "'Telco' is not a valid name of a party"),
        ({"telco": ["calls"], "coordinator": ["tariff"]}, "'coordinator' is the party that has no data"),
        ({"telco": ["calls"]}, "two parties at least"),
        (0, "two parties at least"),
        ({"telco": [], "bank": []}, "no party holds any column"),
    ],
    ids=str,
)
def test_what_cannot_be_dealt_is_named(split: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        dealt(TELCO, split)


def test_tables_that_do_not_belong_together_are_named() -> None:
    with pytest.raises(InputError, match=r"differ in their rows \(telco 4, bank 3\).*unpooled\.simulate"):
        Apart({"telco": TELCO, "bank": BANK.head(3)})
    with pytest.raises(InputError, match="bank: its table is a ndarray"):
        Apart({"telco": TELCO, "bank": np.ones((4, 1))})
    twice = pd.DataFrame(np.ones((4, 2)), columns=["a", "a"])
    with pytest.raises(InputError, match="bank: column 'a' is there twice"):
        Apart({"telco": TELCO, "bank": twice})
