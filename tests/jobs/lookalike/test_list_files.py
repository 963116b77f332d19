"""The list that another party sends: what of it is refused, and how it stands in a file that people open."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unpooled.align.normalise import IdRules
from unpooled.data.columns import LONGEST_ID
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, ProtocolError
from unpooled.jobs.lookalike.kind import LOOKALIKE
from unpooled.jobs.lookalike.list_files import (
    Listed,
    Lookalikes,
    listed,
    message_of,
    read_list,
    write_reliable,
)
from unpooled.pu.ranking import Ranking

UNSEEN = [
    "\x1b[31m",
    "\n",
    "\t",
    "\r",
    "\0",
    "\x85",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u200b",
    "\ufeff",
    "\u2028",
    "\xad",
]
FORMULAS = ['=HYPERLINK("http://x")', "+1+1", "-2+3", "@SUM(A1)", "=", "＝1", "-a", "+a8Bc/x=", "'=1", "''@x", "=a,b"]
PLAIN = [
    "007",
    "+493012345",
    "-17",
    "+1.5",
    "-0,5",
    "o'neil",
    "'quoted'",
    "a=b",
    "1-2",
    "Émile",
    "東京",
    "x" * LONGEST_ID,
]


def table() -> Table:
    return table_from_frame(pl.DataFrame({"id": ["1"]}), "id", "shop")


def said(*ids: str, iteration: int = 1) -> Lookalikes:
    return Lookalikes(ids, np.linspace(1, 0, len(ids)), np.full(len(ids), iteration, np.int32))


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
def test_an_id_with_characters_that_nobody_sees_is_refused(unseen: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        listed(said("a", "b", f"c{unseen}d"), table(), "bank", 10, 5)
    reason = "an id holds a control or format character, which nobody sees"
    assert str(caught.value) == f"invalid Lookalikes from bank: row 3: {reason}"


def test_an_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(
        ProtocolError, match=r"^invalid Lookalikes from bank: row 2: an id is longer than 256 characters$"
    ):
        listed(said("a", "x" * (LONGEST_ID + 1)), table(), "bank", 10, 5)


def test_a_list_that_is_longer_than_it_can_be_is_refused() -> None:
    """An iteration far away would also cost memory: they are counted."""
    assert len(listed(said("a", "b"), table(), "bank", 2, 1).scores) == 2
    for most, last in ((1, 1), (2, 0)):
        with pytest.raises(ProtocolError, match="invalid Lookalikes from bank: more rows"):
            listed(said("a", "b"), table(), "bank", most, last)
    with pytest.raises(ProtocolError, match="Lookalikes from bank"):
        listed(said("a", iteration=2**31 - 1), table(), "bank", 2, 5)


@pytest.mark.parametrize("id", [*(f"a{unseen}b" for unseen in UNSEEN), "x" * (LONGEST_ID + 1)], ids=ascii)
def test_whoever_has_such_an_id_hears_of_it_when_its_table_is_read(id: str) -> None:
    with pytest.raises(InputError, match=r"^bank: data frame: column 'id': row 2: "):
        table_from_frame(pl.DataFrame({"id": ["1", id]}), "id", "bank")


def test_the_list_has_ids_as_the_active_party_writes_them_or_their_hashes() -> None:
    owner = table_from_frame(pl.DataFrame({"mail": ["Ann@X.org", "Bo@x.org", "Cy@x.org"]}), "mail", "bank")
    ranking = Ranking(np.zeros(3, bool), np.array([0.1, 0.9, 0.5]), np.zeros(3, np.int64))
    chosen = np.array([1, 2])
    assert message_of(owner, IdRules(normalise="email"), ranking, chosen).ids == ("Bo@x.org", "Cy@x.org")
    hashes = message_of(owner, IdRules(normalise="email", hash="sha256"), ranking, chosen).ids
    assert hashes == tuple(hashlib.sha256(mail).hexdigest() for mail in (b"bo@x.org", b"cy@x.org"))


def test_no_spreadsheet_finds_a_formula_and_every_id_comes_back(tmp_path: Path) -> None:
    ids = [*FORMULAS, *PLAIN]
    found = listed(said(*ids), table(), "bank", len(ids), 5)
    write_reliable(tmp_path, found)
    with (tmp_path / "reliable.csv").open(encoding="utf-8", newline="") as file:
        written = [row["id"] for row in csv.DictReader(file)]
    assert written == [*(f"'{id}" for id in FORMULAS), *PLAIN]
    assert read_list(tmp_path / "reliable.csv").ids["id"].to_list() == ids
    frame = LOOKALIKE.tables["look-alikes"].read(tmp_path, id_columns=1)
    assert frame["id"].to_list() == ids
    assert frame.drop("id", "tier").dtypes == [pl.Int64, pl.Float64, pl.Int64]


@pytest.mark.parametrize("unseen", ["\u202e", "\x1b", "\u2066"], ids=ascii)
def test_a_file_with_such_ids_is_not_shown(tmp_path: Path, unseen: str) -> None:
    path = tmp_path / "reliable.csv"
    path.write_text(f"id,rank,score,tier,iteration\n1,1,0.5,first,1\na{unseen}b,2,0.4,first,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="column 'id': row 2: "):
        read_list(path)


def test_ids_of_several_columns_are_each_looked_at(tmp_path: Path) -> None:
    ids = pl.DataFrame({"country": ["=1", "de"], "number": ["7", "@7"]})
    write_reliable(tmp_path, Listed(ids, np.array([0.5, 0.4]), np.array([1, 1])))
    assert (tmp_path / "reliable.csv").read_text().splitlines()[1:] == ["'=1,7,1,0.5,first,1", "de,'@7,2,0.4,second,1"]
    assert read_list(tmp_path / "reliable.csv").ids.equals(ids)
