"""How an alignment opens: sizes and limits come first, and its name is one that nobody else's exchange has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from unpooled.align.opening import Intersection, Limits, Opening, open_intersection
from unpooled.errors import ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session

PARTIES = ("bank", "telco", "coordinator")


def opened(
    ids: dict[str, int], limits: dict[str, Limits] | None = None, columns: dict[str, int] | None = None
) -> dict[str, Intersection]:
    """The exchange as each party sees it; who is called coordinator has no ids."""
    parties = tuple(ids)

    def role(session: Session) -> Intersection:
        own = (limits or {}).get(session.party, Limits())
        return open_intersection(
            session, "ring", parties, ids[session.party], (columns or {}).get(session.party, 1), own, "coordinator"
        )

    return simulate_roles(dict.fromkeys(parties, role), timeout=120).results


def test_all_parties_see_the_same_exchange() -> None:
    limits = {"bank": Limits(3, 7), "telco": Limits(5, 2), "coordinator": Limits(1, 100)}
    seen = opened({"bank": 5, "telco": 3, "coordinator": 0}, limits, {"bank": 2, "telco": 2, "coordinator": 0})
    assert seen["bank"] == seen["telco"] == seen["coordinator"]
    assert seen["bank"].ids == {"bank": 5, "telco": 3}
    assert seen["bank"].overlap == 7  # the strictest owner's; who has no ids has no say


def test_no_two_exchanges_have_one_name() -> None:
    names = {opened({"bank": 5, "telco": 3})["bank"].name for _ in range(5)}
    assert len(names) == 5


@pytest.mark.parametrize("change", ["purpose", "order", "nonce", "ids", "columns", "overlap"])
def test_the_name_depends_on_everything_that_was_said(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(purpose: str, parties: tuple[str, ...], said: Opening) -> bytes:
        def bank(session: Session) -> bytes:
            monkeypatch.setattr(session.secret, "randbytes", lambda count: said.nonce)
            limits = Limits(0, said.overlap)
            return open_intersection(session, purpose, parties, said.ids, said.columns, limits).name

        def telco(session: Session) -> bytes:
            session.recv("bank", Opening)
            session.send("bank", replace(said, ids=4, nonce=b"t" * 32, overlap=0))
            return b""

        return simulate_roles({"bank": bank, "telco": telco}, timeout=120).results["bank"]

    said = Opening(b"b" * 32, 4, 1, 0)
    plain = name("pair", ("bank", "telco"), said)
    assert plain == name("pair", ("bank", "telco"), said)
    changes: dict[str, Any] = {"nonce": b"c" * 32, "ids": 5, "columns": 2, "overlap": 1}
    if change in changes:
        assert name("pair", ("bank", "telco"), replace(said, **{change: changes[change]})) != plain
    else:
        order = ("telco", "bank") if change == "order" else ("bank", "telco")
        assert name("label" if change == "purpose" else "pair", order, said) != plain


def test_too_few_ids_are_refused_without_saying_how_many() -> None:
    with pytest.raises(RefusedError) as caught:
        opened({"bank": 50, "telco": 29}, {"bank": Limits(30)})
    assert re.search(r"bank.* 30 .*policy\.minimum_peer_rows.*telco", str(caught.value))
    assert "29" not in str(caught.value)
    assert opened({"bank": 50, "telco": 30}, {"bank": Limits(30)})["bank"].ids == {"bank": 50, "telco": 30}


def test_who_brings_no_ids_is_not_measured_by_them() -> None:
    seen = opened({"bank": 50, "telco": 30, "coordinator": 0}, dict.fromkeys(("bank", "telco"), Limits(30)))
    assert seen["telco"].ids == {"bank": 50, "telco": 30}


def test_ids_of_different_numbers_of_columns_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"bank.* 1.*telco.* 2"):
        opened({"bank": 5, "telco": 5}, columns={"bank": 1, "telco": 2})


@pytest.mark.parametrize(
    "nonsense",
    [
        Opening(b"short", 5, 1, 0),
        Opening(b"n" * 33, 5, 1, 0),
        Opening(b"n" * 32, -1, 1, 0),
        Opening(b"n" * 32, 5, -1, 0),
        Opening(b"n" * 32, 5, 1, -1),
        Opening(b"n" * 32, 10**5000, 1, 0),
        Opening(b"n" * 32, 5, 10**5000, 0),
        Opening(b"n" * 32, 5, 1, 10**5000),
    ],
    ids=range(8),
)
def test_an_opening_that_makes_no_sense_is_refused(nonsense: Opening) -> None:
    def bank(session: Session) -> None:
        open_intersection(session, "pair", ("bank", "telco"), 5, 1, Limits(0, 0))

    def telco(session: Session) -> None:
        session.send("bank", nonsense)
        session.recv("bank", Opening)

    roles: dict[str, Callable[[Session], None]] = {"bank": bank, "telco": telco}
    with pytest.raises(ProtocolError, match=r"telco.*Opening|Opening.*telco"):
        simulate_roles(roles, timeout=120)
