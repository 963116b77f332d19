"""How far a search is can be seen at every party, also at those who only wait or serve."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unpooled.errors import ProtocolError
from unpooled.run.progress import Progress, nested
from unpooled.secure.engine import HowFar, follow
from unpooled.session import Session

PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True, "estimate": False}
LINEAR = {"model": {"learner": "linear", "epochs": 3, "insecure_batch": True}}
Told = dict[str, list[tuple[str, int, int]]]


def of_learning(told: Told, party: str) -> list[tuple[str, int, int]]:
    """What was told of groups of models and of trees, not of alignment and single products."""
    return [each for each in told[party] if each[0].startswith("find") and "product" not in each[0]]


@pytest.mark.parametrize("settings", [{}, PAILLIER], ids=["shares", "paillier"])
def test_who_waits_sees_what_the_active_party_sees(seeking: Any, told: Told, settings: dict[str, Any]) -> None:
    seeking.run(seeking.plan(**settings))
    active = of_learning(told, "bank")
    last = "find/iteration 2 of 2, trees of 2 bags"
    assert ("find", 1, 2) in active
    most = 2 * 2  # trees, each in a group of its own
    assert [each for each in active if each[0] == last] == [(last, done, most) for done in range(most)]
    assert of_learning(told, "shop") == active
    assert [each for each in told["coordinator"] if each[0].startswith("find")] == active
    assert of_learning(told, "telco")[-1] == (last, most, most)


@pytest.mark.parametrize("settings", [{}, LINEAR], ids=["trees", "linear"])
def test_the_share_that_is_done_only_rises(seeking: Any, told: Told, settings: dict[str, Any]) -> None:
    seeking.run(seeking.plan(**settings))
    for party in ("shop", "telco", "bank", "coordinator"):
        shown: list[Progress] = []
        tell = nested(shown.append, lambda: SimpleNamespace(sent=0, weights={}))
        for each in of_learning(told, party):
            tell(*each)
        shares = [each.fraction for each in shown]
        assert shares == sorted(shares), party
        assert {each.step for each in shown} == {"find"}, party
        assert 0.5 < shares[-1] <= 1
    if settings:
        totals = {total for where, _, total in of_learning(told, "shop") if where != "find"}
        assert totals == {3}, "epochs, not batches: it does not depend on the rows"


class Shown:
    """A session that only shows what it follows."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def follow(self, where: str, done: int, total: int) -> None:
        self.seen.append((where, done, total))


@pytest.mark.parametrize(("done", "total"), [(-1, 3), (4, 3), (1, 2**31), (2**1100, 2**1100)])
def test_numbers_that_cannot_be_are_refused(done: int, total: int) -> None:
    shown: Any = Shown()
    follow(shown, "bank", HowFar("find", 3, 3))
    with pytest.raises(ProtocolError, match=r"HowFar from bank"):
        follow(shown, "bank", HowFar("find", done, total))
    assert shown.seen == [("find", 3, 3)]


@pytest.mark.parametrize("party", ["shop", "coordinator"])
def test_who_waits_refuses_them(seeking: Any, monkeypatch: pytest.MonkeyPatch, party: str) -> None:
    send = Session.send

    def lying(self: Session, peer: str, message: object, **how: Any) -> None:
        lies = isinstance(message, HowFar) and peer == party
        send(self, peer, HowFar("find", 4, 3) if lies else message, **how)

    monkeypatch.setattr(Session, "send", lying)
    with pytest.raises(ProtocolError, match=r"HowFar from bank"):
        seeking.run(seeking.plan(estimate=False))


def test_what_a_peer_calls_its_steps_is_fit_to_be_shown(
    seeking: Any, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Session.send

    def shouting(self: Session, peer: str, message: object, **how: Any) -> None:
        told_otherwise = isinstance(message, HowFar)
        send(self, peer, HowFar("find\n\x1b[2J" + "!" * 10_000, 1, 3) if told_otherwise else message, **how)

    monkeypatch.setattr(Session, "send", shouting)
    seeking.run(seeking.plan())
    shown = {where for where, _, _ in told["shop"] if where.startswith("find")}
    assert shown
    assert all(where.isprintable() and len(where) <= 500 for where in shown)


def test_one_who_serves_nothing_is_told_nothing(seeking: Any, told: Told) -> None:
    seeking.run(seeking.plan(engine="plain"))
    assert not [each for each in told.get("coordinator", []) if each[0].startswith("find")]
    assert of_learning(told, "shop") == of_learning(told, "bank")
