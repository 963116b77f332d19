"""Ids made comparable: what counts as the same id, and what is said of ids without showing one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.align.ids import advice, hint, keys_of, looks_of
from unpooled.align.normalise import IdRules, comparable
from unpooled.data.table import Table
from unpooled.errors import InputError

MakeTable = Callable[..., Table]

EXACT, CASE = IdRules(), IdRules(normalise="case")
COMPOSED, DECOMPOSED = "é", "e\u0301"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["7", "-3"], [7, -3]),
        ([COMPOSED], [DECOMPOSED]),
        (["Å"], ["\u212b"]),  # the letter, and the sign for the unit
        (["가"], ["\u1100\u1161"]),
        ([" anna", "bert\t", "\u00a0carl\u3000"], ["anna", "bert", "carl"]),
    ],
)
def test_an_id_has_one_key_however_it_is_written(
    table: MakeTable, one: Sequence[str | int], other: Sequence[str | int]
) -> None:
    assert keys_of(table("bank", one), EXACT) == keys_of(table("telco", other), EXACT)


@pytest.mark.parametrize(
    "ids",
    [
        ["7", "07", "007", "7.0", "+7"],
        ["anna", "Anna", "ANNA"],
        ["ﬁ", "fi", "ƒi"],  # compatible letters are different ids
        ["a", "a\u0301", "a-", "a b", "a  b"],
    ],
)
def test_different_ids_have_different_keys(table: MakeTable, ids: list[str]) -> None:
    assert len(set(keys_of(table("bank", ids), EXACT))) == len(ids)


@pytest.mark.parametrize(
    ("one", "other"),
    [("ANNA", "anna"), ("STRASSE", "straße"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("É", DECOMPOSED), ("E\u0301", COMPOSED)],
)
def test_case_is_ignored_where_the_plan_says_so(table: MakeTable, one: str, other: str) -> None:
    left, right = table("bank", [one]), table("telco", [other])
    assert keys_of(left, CASE) == keys_of(right, CASE)
    assert keys_of(left, EXACT) != keys_of(right, EXACT)


def test_rows_that_have_one_id_without_case_are_named_and_no_id_is_shown(table: MakeTable) -> None:
    names = table("bank", ["Straße", "anna", "bert", "STRASSE", "Anna", "ANNA", "carl"])
    assert len(set(keys_of(names, EXACT))) == 7
    with pytest.raises(InputError) as caught:
        keys_of(names, CASE)
    text = str(caught.value)
    assert text.startswith("bank: data frame: column 'id': rows 1, 2, 4, 5 and 6: rows have the same id")
    assert not any(name.casefold() in text.casefold() for name in ("straße", "strasse", "anna", "bert", "carl"))


def test_the_columns_of_an_id_do_not_run_into_each_other(table: MakeTable) -> None:
    pairs = {"branch": ["1", "12", "123 4"], "number": ["23", "3", "5"]}
    keys = keys_of(table("bank", pairs), EXACT)
    assert len(set(keys)) == 3
    swapped = {"branch": pairs["number"], "number": pairs["branch"]}
    assert not set(keys) & set(keys_of(table("bank", swapped), EXACT))


parts = st.text("a:", min_size=1, max_size=3)


@given(st.lists(st.tuples(parts, parts), min_size=1, max_size=20))
def test_keys_of_composite_ids_are_equal_exactly_if_all_parts_are(
    table: MakeTable, pairs: list[tuple[str, str]]
) -> None:
    different = set(pairs)
    first, second = zip(*different, strict=True)
    assert len(set(keys_of(table("bank", {"branch": first, "number": second}), EXACT))) == len(different)


# what ids look like

PEOPLE = ["0012", "0431", "7720"]


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        (["12", "431"], ["c12", "c431"], "all of bank's ids are whole numbers, none of telco's"),
        (["12", "c431"], ["12", "431"], "some of bank's ids are whole numbers, all of telco's"),
        (["12", "431"], PEOPLE, "ids of telco begin with zeros, which bank's may have lost"),
        (PEOPLE, ["12", "431"], "ids of bank begin with zeros, which telco's may have lost"),
        (
            ["12", "431"],
            PEOPLE,
            "bank's are 2 to 3 long, telco's 4 (normalise = {name = 'digits', length = 4} may help)",
        ),
        (["anna", "bert"], ["ANNA", "BERT"], "they differ in capital and small letters (normalise = 'case' may help)"),
        (["Ann", "Bert"], ["a" * 64, "0" * 64], "ids of telco look like SHA-256 hashes"),
        (["12-3", "45-6"], ["1234", "4567"], "all of bank's hold spaces or marks, none of telco's"),
        (["Müll", "Gold"], ["Mull", "Gold"], "some of bank's hold letters beyond ASCII, none of telco's"),
    ],
)
def test_a_hint_says_how_ids_differ(table: MakeTable, mine: list[str], theirs: list[str], words: str) -> None:
    looks = [looks_of(table("bank", mine).ids), looks_of(table("telco", theirs).ids)]
    said = hint(looks[0], looks[1], "bank", "telco", 1)
    assert any(part.startswith(words) for part in said.split("; "))
    assert not any(id in said for id in (*mine, *theirs))


def test_a_hint_names_only_causes_that_fit(table: MakeTable) -> None:
    looks = [looks_of(table(party, ids).ids) for party, ids in (("bank", ["12", "431"]), ("telco", ["0x", "A1"]))]
    said = hint(looks[0], looks[1], "bank", "telco", 1)
    assert "whole numbers" in said
    assert not any(word in said for word in ("zeros", "capital", "normalise"))


def test_ids_that_look_alike_are_said_to(table: MakeTable) -> None:
    looks = [looks_of(table(party, ids).ids) for party, ids in (("bank", ["a1", "a2"]), ("telco", ["b7", "b8"]))]
    assert hint(looks[0], looks[1], "bank", "telco", 1).startswith("the ids of bank and telco look alike")


def test_case_is_no_reason_where_it_is_ignored(table: MakeTable) -> None:
    looks = [looks_of(table(party, ids).ids) for party, ids in (("bank", ["anna"]), ("telco", ["BERT"]))]
    assert "capital" in hint(looks[0], looks[1], "bank", "telco", 1)
    folded = [looks_of(comparable(table(party, [id]), CASE)) for party, id in (("bank", "anna"), ("telco", "BERT"))]
    assert "capital" not in hint(folded[0], folded[1], "bank", "telco", 1)


def test_looks_say_none_some_or_all_and_never_how_many(table: MakeTable) -> None:
    few = looks_of(table("bank", ["0a", "B", "7"]).ids)
    many = looks_of(table("bank", ["0a", "B", "7", *(f"{n}" for n in range(10, 99))]).ids)
    assert (few.shortest, few.longest) == (1, 2)
    assert vars(few) == vars(many)
    shares = [value for name, value in vars(few).items() if name not in ("shortest", "longest")]
    assert shares == [1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("lengths", [(-1, 5), (5, 4), (0, 10**6), (10**5000, 10**5000)], ids=range(4))
def test_lengths_that_cannot_be_are_not_repeated(table: MakeTable, lengths: tuple[int, int]) -> None:
    mine = looks_of(table("bank", ["anna"]).ids)
    theirs = replace(mine, shortest=lengths[0], longest=lengths[1], digits=77)
    said = hint(mine, theirs, "bank", "telco", 1)
    assert re.search("none of bank.* some of telco", said)
    assert re.search("bank.* 4 .*telco.* unknown", said)


def test_the_columns_of_an_id_are_looked_at_together(table: MakeTable) -> None:
    looks = looks_of(table("bank", {"branch": ["12", "7"], "number": ["345", "9"]}).ids)
    assert (looks.shortest, looks.longest) == (2, 5)
    assert (looks.digits, looks.marks) == (2, 0)


def test_no_ids_have_no_looks(table: MakeTable) -> None:
    assert set(vars(looks_of(table("bank", []).ids)).values()) == {0}


# what a party is told about its own ids alone


@pytest.mark.parametrize(
    ("ids", "rules", "words"),
    [
        (["12", "431"], {}, "normalise = {name = 'digits', length = 3}"),
        (["Ann@x.org", "bob@y.org"], {}, "normalise = 'email'"),
        (["ann@x.org", "bob@y.org"], {"normalise": "email"}, "googlemail.com"),
        (["030/12 34 56", "+49 30 123457"], {}, "normalise = {name = 'phone'"),
        (["A" * 64, "b" * 64], {}, "hash = 'sha256'"),
        (["a1", "B2"], {}, "normalise = 'case'"),
        (["a 1", "b 2"], {"normalise": "case"}, "spaces"),
        (["a1", "b2"], {"hash": "sha256"}, "salt"),
    ],
)
def test_a_party_reads_which_rule_its_own_ids_suggest(
    table: MakeTable, ids: list[str], rules: dict[str, Any], words: str
) -> None:
    (text,) = advice(table("bank", ids), IdRules(**rules))
    assert words in text
    assert not any(id in text for id in ids)


@pytest.mark.parametrize(
    ("ids", "rules"),
    [
        (["123", "456"], {}),
        (["12", "345"], {"normalise": {"name": "digits", "length": 3}}),
        (["a1", "b2"], {}),
        (["A1", "b2"], {"normalise": "case"}),
    ],
)
def test_ids_that_suggest_nothing_get_no_advice(table: MakeTable, ids: list[str], rules: dict[str, Any]) -> None:
    assert advice(table("bank", ids), IdRules(**rules)) == []


def test_several_columns_are_advised_one_by_one(table: MakeTable) -> None:
    (text,) = advice(table("bank", {"branch": ["12", "34"], "mail": ["a@x.org", "b@x.org"]}), IdRules())
    assert text.startswith("column 'mail': ")
    numbers = [looks_of(table(party, {"a": ids, "b": ids}).ids) for party, ids in (("bank", ["1"]), ("telco", ["12"]))]
    assert "normalise" not in hint(numbers[0], numbers[1], "bank", "telco", 2), "columns are looked at together"
