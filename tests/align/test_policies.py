"""Limits: whoever brings too few ids is refused before anything is compared, and too small an overlap shows nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from unpooled.align import rows
from unpooled.align.ecdh import HiddenIds
from unpooled.align.ids import IdLooks, ids_of
from unpooled.align.normalise import IdRules
from unpooled.align.opening import Limits, Opening, TooFew, wait_for_the_end
from unpooled.align.ring import CommonRows, Tags
from unpooled.align.rows import CommonCount
from unpooled.align.same import HiddenDigest
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import PeerFailed, ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session
from unpooled.wire import kind_of

Run = Callable[..., Any]

WAYS = [
    pytest.param({"psi": "ecdh"}, id="pair"),
    pytest.param({"psi": "ecdh", "coordinator": True}, id="ring"),
    pytest.param({"psi": "blind-rsa"}, id="blind-rsa"),
    pytest.param({"psi": "aided", "coordinator": True}, id="aided"),
]
BANK = [f"customer-{n}" for n in range(20)]
TELCO = [f"customer-{n}" for n in range(15, 45)]
SHOP = [f"customer-{n}" for n in range(12, 18)]


def say(ran: Any, party: str) -> str:
    return str(ran.errors[party])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("strict", "other"), [("bank", "telco"), ("telco", "bank")])
def test_who_brings_too_few_ids_is_refused_before_any_id_leaves(
    fail: Run, way: dict[str, Any], strict: str, other: str
) -> None:
    tables = {"bank": BANK, "telco": BANK}
    ran = fail(tables, limits={strict: Limits(21, 1)}, **way)
    assert isinstance(ran.error, RefusedError)
    assert re.search(rf"{strict}.* 21 .*policy\.minimum_peer_rows.*{other}", str(ran.error))
    assert ran.kinds(strict, "sent") == {kind_of(Opening)}
    assert ran.ids == {}
    for party in ran.errors.keys() - {strict}:
        assert str(ran.error) in say(ran, party)


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa"])
def test_a_seeker_is_not_probed_with_few_ids(fail: Run, psi: str) -> None:
    """What counts is how many rows the active party asks about, not how many it has."""
    ran = fail({"bank": BANK, "telco": TELCO}, seeker=SHOP, psi=psi, limits={"shop": Limits(6, 1)})
    assert re.search(r"shop.* 6 .*policy\.minimum_peer_rows", str(ran.error))
    assert ran.kinds("shop", "sent") == {kind_of(Opening)}
    assert ran.labels == {}


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa"])
def test_as_many_ids_as_demanded_are_enough(align: Run, psi: str) -> None:
    limits = {"shop": Limits(5, 3), "bank": Limits(6, 3), "telco": Limits(20, 5)}
    ran = align({"bank": BANK, "telco": TELCO}, seeker=SHOP, psi=psi, limits=limits)
    assert ran.asked_about == 5
    assert sum(value == 1 for value in ran.labels.values()) == 3


def test_a_ring_is_refused_for_any_of_its_members(fail: Run) -> None:
    owners = {"bank": BANK, "telco": TELCO, "railway": BANK[:5]}
    ran = fail(owners, coordinator=True, limits={"telco": Limits(10, 1)})
    assert re.search(r"telco.* 10 .*policy\.minimum_peer_rows.*railway", str(ran.error))
    assert ran.kinds("telco", "sent") == {kind_of(Opening)}
    assert kind_of(HiddenIds) not in ran.kinds("railway", "received")
    assert ran.kinds("coordinator", "received") <= {kind_of(Opening)}


# too many ids


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("strict", "other"), [("bank", "telco"), ("telco", "bank")])
def test_who_brings_too_many_ids_is_refused_before_any_id_leaves(
    fail: Run, way: dict[str, Any], strict: str, other: str
) -> None:
    ran = fail({"bank": BANK, "telco": BANK}, limits={strict: Limits(1, 1, 19)}, **way)
    assert isinstance(ran.error, RefusedError)
    assert re.search(rf"{strict}.* 19 .*policy\.maximum_peer_rows.*{other}", str(ran.error))
    assert ran.kinds(strict, "sent") == {kind_of(Opening)}


def test_the_coordinator_takes_no_longer_lists_than_it_agreed_to(fail: Run) -> None:
    ran = fail({"bank": BANK, "telco": TELCO}, coordinator=True, limits={"coordinator": Limits(1, 1, 29)})
    assert re.search(r"coordinator.* 29 .*policy\.maximum_peer_rows", str(ran.error))
    assert ran.given("coordinator", Tags) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("asked", [BANK, [f"made-up-{n}" for n in range(6)], BANK[15:19]], ids=["all", "more", "fewer"])
def test_a_seeker_is_asked_about_as_many_ids_as_are_in_common(
    fail: Run, monkeypatch: pytest.MonkeyPatch, way: dict[str, Any], asked: list[str]
) -> None:
    """Five are in common. The active party asks about others instead, as if the seeker could not know how many."""
    honest = ids_of

    def ids(table: Table, rules: IdRules) -> pl.DataFrame:
        instead = table_from_frame(pl.DataFrame({"id": asked}), "id", "bank")
        common = table.party == "bank" and table.frame.height == 5
        return honest(instead if common else table, rules)

    monkeypatch.setattr(rows, "ids_of", ids)
    ran = fail({"bank": BANK, "telco": TELCO}, seeker=SHOP, **way)
    assert isinstance(ran.error, RefusedError)
    assert re.search("bank.*shop.*telco", str(ran.error))
    assert ran.kinds("shop", "sent") == {kind_of(Opening)}


@pytest.mark.parametrize("told", [-1, 4, 6, 10**30])
def test_a_passive_party_cannot_make_a_seeker_answer_more(fail: Run, changing: Run, told: int) -> None:
    meddle = {"telco": changing(CommonCount, lambda message, number: CommonCount(told))}
    ran = fail({"bank": BANK, "telco": TELCO, "railway": TELCO}, seeker=SHOP, coordinator=True, meddle=meddle)
    assert isinstance(ran.error, RefusedError)
    assert "telco" in str(ran.error)
    assert ran.kinds("shop", "sent") == {kind_of(Opening)}


# too small an overlap


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strict", ["bank", "telco"])
def test_with_too_small_an_overlap_nobody_has_rows_and_all_hear_why(
    fail: Run, way: dict[str, Any], strict: str
) -> None:
    owners = {"bank": BANK, "telco": [id.upper() for id in TELCO[5:]] + TELCO[:5]}
    ran = fail(owners, limits={strict: Limits(1, 6)}, **way)
    assert isinstance(ran.error, RefusedError)
    text = str(ran.error)
    assert re.search(r" 6 .*bank and telco.*policy\.minimum_overlap.*normalise = 'case'", text)
    assert ran.ids == {}
    for party in ran.errors.keys() - {"bank"}:
        assert isinstance(ran.errors[party], PeerFailed)
        assert text in say(ran, party)
    for party in ran.errors:
        assert kind_of(CommonRows) not in ran.kinds(party, "received") | ran.kinds(party, "sent")
        assert kind_of(HiddenDigest) not in ran.kinds(party, "received")


@pytest.mark.parametrize("way", WAYS)
def test_an_overlap_that_suffices_for_all_is_found(align: Run, way: dict[str, Any]) -> None:
    limits = {"bank": Limits(1, 5), "telco": Limits(1, 5)}
    assert len(align({"bank": BANK, "telco": TELCO}, limits=limits, **way).ids["telco"]) == 5


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa"])
@pytest.mark.parametrize("strict", ["bank", "shop"])
def test_with_too_few_positives_there_are_no_labels(fail: Run, psi: str, strict: str) -> None:
    ran = fail({"bank": BANK, "telco": TELCO}, seeker=SHOP, psi=psi, limits={strict: Limits(1, 4)})
    assert re.search(r" 4 .*bank and shop.*policy\.minimum_overlap", str(ran.error))
    assert ran.labels == {}
    assert "policy.minimum_overlap" in say(ran, "shop")
    assert [type(message) for _, message in ran.received["shop"]][-1] is TooFew


@pytest.mark.parametrize(
    ("bank", "telco", "why"),
    [
        ([f"{n}" for n in range(100, 140)], [f"{n:06}" for n in range(100, 140)], "zeros"),
        ([f"{n}" for n in range(100, 140)], [f"{n:06}" for n in range(100, 140)], r"bank\b.* 3 .*telco\b.* 6"),
        ([f"{n}" for n in range(100, 140)], [f"k{n}" for n in range(100, 140)], "bank.*whole numbers"),
        ([f"ab{n}" for n in range(9)], [f"AB{n}" for n in range(9)], "normalise = 'case'"),
        ([f"ab{n}" for n in range(9)], [f"xy{n}" for n in range(9)], "alike"),
    ],
)
def test_a_hint_says_why_ids_may_not_match_and_shows_none(
    fail: Run, bank: list[str], telco: list[str], why: str
) -> None:
    ran = fail({"bank": bank, "telco": telco}, coordinator=True, limits={"bank": Limits(1, 1)})
    for party in ("bank", "telco", "coordinator"):
        assert re.search(why, say(ran, party))
        assert not any(id in say(ran, party) for id in (*bank, *telco))
    assert [type(message) for _, message in ran.received["bank"]][-1] is IdLooks
    assert kind_of(IdLooks) not in ran.kinds("coordinator", "received") | ran.kinds("telco", "received")


def test_what_a_party_sees_in_its_own_ids_stays_in_its_log(fail: Run, caplog: pytest.LogCaptureFixture) -> None:
    bank, telco = [f"{n}" for n in range(5, 40)], [f"person{n}@x.org" for n in range(40)]
    with caplog.at_level("WARNING", "unpooled.align"):
        ran = fail({"bank": bank, "telco": telco}, coordinator=True, limits={"bank": Limits(1, 1)})
    logged = sorted(record.getMessage() for record in caplog.records)
    assert [text.split(":")[0] for text in logged] == ["bank", "telco"]
    assert "length = 2" in logged[0]
    assert "normalise = 'email'" in logged[1]
    assert not any("email" in say(ran, party) for party in ran.errors)


def test_several_passive_parties_are_each_compared_in_the_hint(fail: Run) -> None:
    owners = {"bank": BANK, "telco": TELCO, "railway": [f"{n}" for n in range(100, 130)]}
    for way in ({"coordinator": True}, {"psi": "blind-rsa"}):
        ran = fail(owners, limits={"railway": Limits(1, 1)}, **way)
        hints = str(ran.error).split(";")[1:]
        assert [name for name in ("telco", "railway") if any(name in hint for hint in hints)] == ["telco", "railway"]
        for party in ("telco", "railway"):
            assert hints[-1] in say(ran, party)


def test_who_is_told_another_thing_than_the_others_is_noticed(fail: Run, changing: Run) -> None:
    meddle = {"coordinator": changing(CommonRows, lambda told, number: TooFew(), to="telco")}
    ran = fail({"bank": BANK, "telco": BANK}, coordinator=True, meddle=meddle)
    assert isinstance(ran.error, ProtocolError)
    assert "HiddenDigest" in str(ran.error)
    assert ran.ids == {}


def test_an_active_party_cannot_go_on_after_too_few_were_in_common() -> None:
    def bank(session: Session) -> None:
        session.send("telco", TooFew())

    with pytest.raises(ProtocolError, match="bank"):
        simulate_roles({"bank": bank, "telco": lambda session: wait_for_the_end(session, "bank")}, timeout=120)
