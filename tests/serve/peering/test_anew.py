"""A service whose state is older than it was, after a restore, or which has removed and added a peer, goes on."""

from __future__ import annotations

import pytest
from peering_services import Cut, Party, Say, between

from unpooled.errors import ProtocolError
from unpooled.serve.peering.post import Post, begin_anew
from unpooled.serve.state import audit_log


@pytest.fixture
def pair(bank: Party, telco: Party) -> tuple[Party, Party]:
    bank.knows(telco)
    telco.knows(bank)
    return bank, telco


def restore(party: Party, sent: int = 1, received: int = 1) -> None:
    """Let a party's counts be older than they were, with a letter that waits and was delivered since."""
    with party.database.transaction() as connection:
        connection.execute("UPDATE exchanged SET sent = ?, received = ?", (sent, received))
        connection.execute("DELETE FROM outbox")
    party.tell("bank", "of the backup")
    with party.database.transaction() as connection:
        begin_anew(connection)


@pytest.mark.parametrize("restored_calls", [True, False])
def test_both_count_from_one_again(pair: tuple[Party, Party], restored_calls: bool) -> None:
    bank, telco = pair
    for text in ("one", "two", "three"):
        bank.tell(telco, text)
        telco.tell(bank, text)
        between(bank, telco)
    restore(telco)
    bank.tell(telco, "for the state that is gone")
    telco.tell(bank, "four")
    between(telco, bank) if restored_calls else between(bank, telco)
    bank.tell(telco, "five")
    for _ in range(2):
        between(bank, telco)
    assert bank.heard == ["telco: one", "telco: two", "telco: three", "telco: four"]
    assert telco.heard == ["bank: one", "bank: two", "bank: three", "bank: five"]
    assert (bank.pending(), telco.pending()) == (0, 0)
    noted = [(act.who, act.what) for act in audit_log.acts(bank.database)]
    assert noted == [("peer telco", "began to count its letters anew")]
    assert audit_log.acts(telco.database) == []


@pytest.mark.parametrize("side", [0, 1], ids=["caller", "acceptor"])
def test_a_side_killed_at_any_point_handles_nothing_twice(pair: tuple[Party, Party], side: int) -> None:
    bank, telco = pair
    between(bank, telco)
    heard: dict[str, list[str]] = {"bank": [], "telco": []}
    point, ends = 0, list[object]([Cut, Cut])
    while ends[side] is Cut:
        restore(telco, 0, 0)
        telco.tell(bank, f"to the bank {point}")
        bank.tell(telco, f"lost {point}")
        ends, _ = between(bank, telco, cut=(point, None) if side == 0 else (None, point))
        between(bank, telco)
        bank.tell(telco, f"to the telco {point}")
        between(bank, telco)
        heard["bank"].append(f"telco: to the bank {point}")
        heard["telco"].append(f"bank: to the telco {point}")
        assert bank.heard == heard["bank"]
        assert telco.heard == heard["telco"]
        assert (bank.pending(), telco.pending()) == (0, 0)
        point += 1
    assert point > 10


def test_a_peer_that_was_removed_and_added_again(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    bank.tell(telco, "one", "two")
    between(bank, telco)
    with telco.database.transaction() as connection:
        connection.execute("DELETE FROM exchanged")
    bank.tell(telco, "lost")
    between(bank, telco)
    bank.tell(telco, "three")
    between(bank, telco)
    assert telco.heard == ["bank: one", "bank: two", "bank: three"]


def test_what_follows_happens_in_the_same_transaction(pair: tuple[Party, Party]) -> None:
    bank, _ = pair
    seen = list[str]()
    letters = Post(bank.database, (Say,), lambda *_: None, begun_anew=lambda _, peer: seen.append(peer))
    letters.meet("telco", "1" * 32)
    letters.meet("telco", "1" * 32)
    assert seen == [], "the first epoch is just noted"
    letters.meet("telco", "2" * 32)
    assert seen == ["telco"]

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Post(bank.database, (Say,), lambda *_: None, begun_anew=fail).meet("telco", "3" * 32)
    assert letters.waiting("telco").known == "2" * 32
    for nonsense in ("", "x" * 32, "1" * 33, "1" * 31):
        with pytest.raises(ProtocolError, match="no valid epoch"):
            letters.meet("telco", nonsense)
