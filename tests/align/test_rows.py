"""The two steps of an alignment: the same rows in the same order for all owners, and labels for the active party."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.align.ring import CommonRows
from unpooled.align.rows import Method, Places, label
from unpooled.errors import ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session

Run = Callable[..., Any]

OWNERS = ("bank", "telco", "railway", "water")
WAYS = [
    pytest.param({"psi": "ecdh"}, id="pair"),
    pytest.param({"psi": "ecdh", "coordinator": True}, id="ring"),
    pytest.param({"psi": "blind-rsa"}, id="blind-rsa"),
]


def random_ids(seed: int, *parties: str) -> dict[str, list[str]]:
    """Each party has about two thirds of 60 ids, in an order of its own."""
    draws = random.Random(seed)
    return {party: draws.sample([f"c{n:03}" for n in range(60)], 40) for party in parties}


def expected(tables: dict[str, list[str]]) -> set[tuple[str]]:
    return {(id,) for id in set.intersection(*map(set, tables.values()))}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("way", [{"coordinator": True}, {"psi": "blind-rsa"}], ids=["ring", "blind-rsa"])
def test_several_owners_find_what_all_have(align: Run, count: int, way: dict[str, Any]) -> None:
    tables = random_ids(count, *OWNERS[:count])
    ran = align(tables, **way)
    assert set(ran.ids["bank"]) == expected(tables)
    for party, ids in tables.items():
        assert ran.ids[party] == ran.ids["bank"]
        assert [(ids[row],) for row in ran.rows[party]] == ran.ids["bank"]
    assert len(set(ran.digests.values())) == 1


@pytest.mark.parametrize("way", WAYS)
def test_labels_say_whom_the_seeker_has_and_only_the_active_party_has_them(align: Run, way: dict[str, Any]) -> None:
    tables = random_ids(7, "bank", "telco", "shop")
    shop = tables.pop("shop")
    ran = align(tables, seeker=shop, **way)
    assert ran.labels == {id: 1 if id[0] in shop else -1 for id in expected(tables)}
    assert set(ran.labels.values()) == {1, -1}
    assert ran.asked_about == len(ran.labels)


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa"])
@pytest.mark.parametrize("coordinator", [False, True])
def test_an_active_party_alone_has_its_rows_labelled(align: Run, psi: str, coordinator: bool) -> None:
    ran = align({"bank": ["a", "b", "c"]}, seeker=["c", "x", "a"], psi=psi, coordinator=coordinator)
    assert ran.labels == {("a",): 1, ("b",): -1, ("c",): 1}
    assert sorted(ran.rows["bank"]) == [0, 1, 2]


def test_without_a_seeker_there_are_no_labels(align: Run) -> None:
    def bank(session: Session) -> None:
        label(session, Places("bank", ("telco",)), *[None] * 2, Method("ecdh", 1024), None)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="seeker"):
        simulate_roles({"bank": bank, "telco": lambda session: None}, timeout=120)


@pytest.mark.parametrize("way", WAYS)
def test_composite_ids_are_compared_as_wholes(align: Run, way: dict[str, Any]) -> None:
    bank = {"branch": ["1", "1", "2", "12"], "number": [1, 2, 1, 3]}
    telco = {"office": [1, 2, 1], "customer": ["23", "1", "1"]}
    ran = align({"bank": bank, "telco": telco}, seeker={"a": ["2"], "b": ["1"]}, **way)
    assert ran.labels == {("1", "1"): -1, ("2", "1"): 1}
    assert ran.ids["telco"] == ran.ids["bank"]


def test_the_parties_must_identify_rows_by_as_many_columns(fail: Run) -> None:
    ran = fail({"bank": {"a": ["1"], "b": ["1"]}, "telco": ["1"]})
    assert isinstance(ran.error, ProtocolError)
    assert re.search("bank.* 2.*telco.* 1", str(ran.error))


@pytest.mark.parametrize("way", WAYS)
def test_whole_numbers_and_texts_meet(align: Run, way: dict[str, Any]) -> None:
    ran = align({"bank": [3, 4, -5, 70], "telco": ["70", "-5", "03", "4.0"]}, seeker=[70, 71], **way)
    assert ran.labels == {("70",): 1, ("-5",): -1}


@pytest.mark.parametrize("way", WAYS)
def test_case_may_be_ignored(align: Run, way: dict[str, Any]) -> None:
    owners, shop = {"bank": ["Anna", "BERT", "straße"], "telco": ["ANNA", "Strasse", "carl"]}, ["STRASSE", "bert"]
    assert align(owners, seeker=shop, **way).labels == {}
    ran = align(owners, seeker=shop, normalise="case", **way)
    assert ran.labels == {("Anna",): -1, ("straße",): 1}
    assert sorted(ran.ids["telco"]) == [("ANNA",), ("Strasse",)]
    assert len(set(ran.digests.values())) == 1


# order and digest


def rank_correlation(ids: list[tuple[str, ...]]) -> float:
    ranks = np.argsort(np.argsort([id[0] for id in ids]))
    return float(np.corrcoef(ranks, np.arange(len(ids)))[0, 1])


@pytest.mark.parametrize("way", [*WAYS, pytest.param({"alone": True}, id="alone")])
def test_the_order_of_rows_says_nothing_of_ids_or_tables(align: Run, way: dict[str, Any]) -> None:
    """All tables are sorted by id; with 500 rows a correlation beyond 0.3 comes by chance once in 10^10."""
    ids = [f"c{n:04}" for n in range(500)]
    alone = way.get("alone", False)
    owners = {"bank": ids} if alone else {"bank": ids, "telco": ids[::-1]}
    settings = {"seeker": ids[:30]} if alone else way
    orders = [align(owners, **settings).ids["bank"] for _ in range(2)]
    assert abs(rank_correlation(orders[0])) < 0.3
    ranks = {id: rank for rank, id in enumerate(orders[0])}
    between = np.corrcoef([ranks[id] for id in orders[1]], np.arange(500))[0, 1]
    assert abs(between) < 0.3


@pytest.mark.parametrize("way", WAYS)
def test_digests_are_the_same_for_all_owners_and_others_in_every_run(align: Run, way: dict[str, Any]) -> None:
    digests = [align(random_ids(1, "bank", "telco"), **way).digests for _ in range(3)]
    assert all(found["bank"] == found["telco"] for found in digests)
    assert len({found["bank"] for found in digests}) == 3


LIES: dict[str, Callable[[Any], Any]] = {
    "two swapped": lambda rows: np.concatenate([rows[1::-1], rows[2:]]),
    "one left out": lambda rows: rows[1:],
    "none": lambda rows: rows[:0],
    "another row": lambda rows: np.array([min(set(range(40)) - set(rows.tolist())), *rows[1:]]),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(
    ("liar", "way"), [("coordinator", {"coordinator": True}), ("bank", {}), ("bank", {"psi": "blind-rsa"})]
)
def test_who_lies_to_one_owner_about_its_rows_is_found_out(
    fail: Run, changing: Run, liar: str, way: dict[str, Any], lie: str
) -> None:
    def change(told: CommonRows, number: int) -> CommonRows:
        return replace(told, positions=LIES[lie](told.positions))

    ran = fail(random_ids(1, "bank", "telco"), meddle={liar: changing(CommonRows, change, to="telco")}, **way)
    assert isinstance(ran.error, ProtocolError)
    assert "same rows" in str(ran.error)
    assert ran.ids == {}


def test_another_salt_for_one_owner_is_found_out(fail: Run, changing: Run) -> None:
    def change(told: CommonRows, number: int) -> CommonRows:
        return replace(told, salt=b"s" * 32)

    meddle = {"coordinator": changing(CommonRows, change, to="telco")}
    ran = fail(random_ids(1, "bank", "telco"), coordinator=True, meddle=meddle)
    assert "same rows" in str(ran.error)
