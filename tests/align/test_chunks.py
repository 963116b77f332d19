"""Lists of several chunks, worked on by several processes: the same is found, in as many frames as it should take."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from unpooled import workers
from unpooled.align import blind_rsa, ecdh, ring
from unpooled.errors import ProtocolError
from unpooled.wire import kind_of

Run = Callable[..., Any]

PEOPLE = [f"customer {n}" for n in range(70)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each piece of work that was handed to a process, how many processes there are: two, whatever the machine."""
    asked: list[int] = []
    submit = workers._submit

    def noting(function: Any, item: Any, **how: bool) -> Any:
        asked.append(workers.cores())
        return submit(function, item, **how)

    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(workers, "_submit", noting)
    return asked


def tables(seed: int, *parties: str) -> dict[str, list[str]]:
    """Lists of different lengths: one has far more chunks than the other."""
    draws = random.Random(seed)
    return {party: draws.sample(PEOPLE, size) for party, size in zip(parties, (25, 60, 41, 38), strict=False)}


def check(ran: Any, owners: dict[str, list[str]], shop: list[str]) -> None:
    common = {(id,) for id in set.intersection(*map(set, owners.values()))}
    assert len(common) > 3
    assert set(ran.ids["bank"]) == common
    assert all(ids == ran.ids["bank"] for ids in ran.ids.values())
    assert ran.labels == {id: 1 if id[0] in shop else -1 for id in common}


def frames(ran: Any, party: str, peer: str, kind: type) -> int:
    entries = ran.ledgers[party].entries
    return sum(e.way == "sent" and e.peer == peer and e.kind == kind_of(kind) for e in entries)


@pytest.mark.parametrize("parties", [("bank", "telco"), ("bank", "telco", "railway", "water")])
def test_a_ring_of_many_chunks(
    align: Run, monkeypatch: pytest.MonkeyPatch, asked: list[int], parties: tuple[str, ...]
) -> None:
    monkeypatch.setattr(ring, "CHUNK", 4)
    monkeypatch.setattr(ecdh, "CHUNK", 3)
    owners, shop = tables(1, *parties), PEOPLE[:40]
    ran = align(owners, seeker=shop, coordinator=True)
    check(ran, owners, shop)
    assert frames(ran, "bank", "telco", ecdh.HiddenIds) >= 7  # the bank's own 25
    assert sum(frames(ran, party, "coordinator", ring.Tags) for party in parties) == sum(
        -(-len(ids) // 4) for ids in owners.values()
    )
    assert set(asked) == {2}


def test_a_pair_of_many_chunks(align: Run, monkeypatch: pytest.MonkeyPatch, asked: list[int]) -> None:
    monkeypatch.setattr(ecdh, "CHUNK", 3)
    for names in (("bank", "telco"), ("telco", "bank")):
        sizes = tables(2, *names)
        owners, shop = {"bank": sizes["bank"], "telco": sizes["telco"]}, PEOPLE[30:]
        ran = align(owners, seeker=shop)
        check(ran, owners, shop)
        assert frames(ran, "telco", "bank", ecdh.RaisedIds) == -(-len(owners["bank"]) // 3)
    assert set(asked) == {2}


@pytest.mark.parametrize("window", [1, 2, 3, 32])
def test_blind_signatures_of_many_chunks(
    align: Run, monkeypatch: pytest.MonkeyPatch, asked: list[int], window: int
) -> None:
    monkeypatch.setattr(blind_rsa, "CHUNK", 4)
    monkeypatch.setattr(blind_rsa, "WINDOW", window)
    owners, shop = tables(3, "bank", "telco", "railway"), PEOPLE[20:50]
    ran = align(owners, seeker=shop, psi="blind-rsa")
    check(ran, owners, shop)
    assert frames(ran, "bank", "telco", blind_rsa.BlindedIds) == 7
    assert frames(ran, "telco", "bank", blind_rsa.SignedTags) == 15
    assert set(asked) == {2}


def test_the_asker_sends_no_more_ahead_than_the_signer_may_take(
    align: Run, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    """Chunks under way, sent but not yet answered, as the asker's ledger has them."""
    monkeypatch.setattr(blind_rsa, "CHUNK", 2)
    monkeypatch.setattr(blind_rsa, "WINDOW", 3)
    ran = align({"bank": PEOPLE[:40], "telco": PEOPLE[:5]}, psi="blind-rsa")
    under_way, most = 0, 0
    for entry in ran.ledgers["bank"].entries:
        under_way += (entry.kind == kind_of(blind_rsa.BlindedIds)) - (entry.kind == kind_of(blind_rsa.Signatures))
        most = max(most, under_way)
    assert under_way == 0
    assert 0 < most <= 3


def test_a_fault_in_a_worker_names_the_sender_and_the_place(
    fail: Run, changing: Run, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    monkeypatch.setattr(ecdh, "CHUNK", 5)

    def spoil(message: ecdh.HiddenIds, number: int) -> ecdh.HiddenIds:
        values = message.values.copy()
        values[3] = 0
        return ecdh.HiddenIds(message.exchange, message.start, values) if number == 4 else message

    ran = fail({"bank": PEOPLE, "telco": PEOPLE}, meddle={"telco": changing(ecdh.HiddenIds, spoil)})
    assert isinstance(ran.error, ProtocolError)
    assert re.search(r"telco.*\b4\b", str(ran.error))
    assert asked


def test_a_party_has_processes_of_its_own(align: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is put in the processes' place here."""
    monkeypatch.setattr(ecdh, "CHUNK", 10)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    ran = align({"bank": PEOPLE[:30], "telco": PEOPLE[15:]})
    assert set(ran.ids["bank"]) == {(id,) for id in PEOPLE[15:30]}
