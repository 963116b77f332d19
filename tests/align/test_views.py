"""What each party gets to see: no more kinds of message than it must, and of sizes that say nothing of others' ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled import control
from unpooled.align import blind_rsa, ecdh, ring, ristretto, rows, same
from unpooled.align.ecdh import HiddenIds, RaisedIds
from unpooled.align.opening import Intersection, Opening
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session
from unpooled.wire import kind_of

Run = Callable[..., Any]
Frames = list[tuple[str, str, str, str, int]]

BANK = [f"c{n:02}" for n in range(20)]
TELCO = [f"c{n:02}" for n in range(10, 40)]
SHOP = [f"c{n:02}" for n in range(15)]


def kinds(*messages: type) -> set[str]:
    return {kind_of(message) for message in messages}


SAME = kinds(same.HiddenDigest, same.SameRows)


def frames(ran: Any, party: str) -> Frames:
    """A party's ledger without times and contents: which frames went to and fro, of what size."""
    entries = ran.ledgers[party].entries
    return sorted((e.way, e.peer, e.kind, e.scope, e.bytes) for e in entries if e.kind not in control.KINDS)


def test_the_coordinator_receives_openings_and_tags_alone(align: Run) -> None:
    ran = align({"bank": BANK, "telco": TELCO}, seeker=SHOP, coordinator=True)
    assert ran.kinds("coordinator", "received") == kinds(Opening, ring.Tags)
    assert ran.kinds("coordinator", "sent") == kinds(Opening, ring.CommonRows)


def test_with_blind_signatures_the_coordinator_receives_nothing(align: Run) -> None:
    ran = align({"bank": BANK, "telco": TELCO}, seeker=SHOP, coordinator=True, psi="blind-rsa")
    assert ran.kinds("coordinator", "received") == ran.kinds("coordinator", "sent") == set()


def test_a_tag_is_no_id_raised_by_fewer_than_all(align: Run) -> None:
    """What the coordinator has cannot be compared with anything that passed between the members."""
    ran = align({"bank": BANK, "telco": TELCO, "railway": BANK}, coordinator=True)
    tags = {row.tobytes() for message in ran.given("coordinator", ring.Tags) for row in message.values}
    passed = {
        row.tobytes()
        for party in ("bank", "telco", "railway")
        for message in ran.given(party, HiddenIds)
        for row in message.values
    }
    assert len(tags) == len(set(BANK) | set(TELCO))
    assert len(passed) == 2 * (2 * len(BANK) + len(TELCO))
    assert not tags & passed


def test_members_of_a_ring_receive_nothing_that_compares_two_lists(align: Run) -> None:
    ran = align({"bank": BANK, "telco": TELCO, "railway": BANK}, coordinator=True)
    for party in ("bank", "telco", "railway"):
        assert ran.kinds(party, "received") == kinds(Opening, HiddenIds, ring.CommonRows) | SAME
        # A list is raised by one more secret whenever it is passed on, so nothing is seen twice.
        seen = [row.tobytes() for message in ran.given(party, HiddenIds) for row in message.values]
        assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("psi", "asked"),
    [("ecdh", kinds(HiddenIds)), ("blind-rsa", kinds(blind_rsa.BlindedIds))],
    ids=["ecdh", "blind-rsa"],
)
def test_the_seeker_receives_nothing_that_depends_on_the_overlap(align: Run, psi: str, asked: set[str]) -> None:
    views = []
    for shop in (SHOP, [f"x{n:02}" for n in range(15)], BANK[-15:]):
        ran = align({"bank": BANK, "telco": TELCO}, seeker=shop, psi=psi)
        assert ran.kinds("shop", "received") == kinds(rows.CommonCount, Opening, rows.Enough) | asked
        views.append(frames(ran, "shop"))
        assert ran.asked_about == 10
    assert views[0] == views[1] == views[2]


def test_the_seeker_cannot_compare_what_it_receives_with_what_it_has(
    align: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All the seeker holds: its ids raised by its secret, and the asker's by the asker's and then by both."""
    secrets: list[bytes] = []

    def new_secret() -> bytes:
        secrets.append(ristretto.new_secret())
        return secrets[-1]

    monkeypatch.setattr(ecdh, "new_secret", new_secret)
    ran = align({"bank": BANK}, seeker=BANK)
    asked = np.concatenate([message.values for message in ran.given("shop", HiddenIds)])
    own = np.concatenate([message.values for message in ran.given("bank", HiddenIds)])
    both = np.concatenate([message.values for message in ran.given("bank", RaisedIds)])
    assert len(secrets) == 2
    held = [{row.tobytes() for row in values} for values in (asked, own, both)]
    held += [
        {row.tobytes() for row in ristretto.raised(secret, "bank", own)}
        for secret in secrets
        if {row.tobytes() for row in ristretto.raised(secret, "bank", asked)} == held[2]  # the seeker's own secret
    ]
    assert len(held) == 4
    assert all(not one & other for n, one in enumerate(held) for other in held[n + 1 :])


@pytest.mark.parametrize("way", [{}, {"coordinator": True}, {"psi": "blind-rsa"}], ids=["pair", "ring", "blind-rsa"])
def test_frames_depend_on_sizes_and_not_on_ids(align: Run, way: dict[str, Any]) -> None:
    """The bank's other ids and all the seeker's are different ones; 10 are in common with the telco as before."""
    before = align({"bank": BANK, "telco": TELCO}, seeker=SHOP, **way)
    bank = [f"another customer with a long id {n}" for n in range(10)] + TELCO[-10:]
    shop = ["ü" * (n + 1) for n in range(15)]
    after = align({"bank": bank, "telco": TELCO}, seeker=shop, **way)
    assert before.ids["telco"] != after.ids["telco"]
    for party in ("telco", "shop", *(["coordinator"] if "coordinator" in way else [])):
        assert frames(before, party) == frames(after, party)


@pytest.mark.parametrize("way", [{}, {"psi": "blind-rsa"}], ids=["pair", "blind-rsa"])
def test_until_it_is_told_its_rows_a_passive_party_sees_nothing_of_the_overlap(align: Run, way: dict[str, Any]) -> None:
    told = kinds(ring.CommonRows) | SAME
    views = []
    for bank in (BANK, TELCO[:20], [f"x{n}" for n in range(20)]):
        ran = align({"bank": bank, "telco": TELCO}, **way)
        views.append([frame for frame in frames(ran, "telco") if frame[2] not in told])
    assert views[0] == views[1] == views[2]


def test_ids_are_asked_for_in_a_secret_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The asker's table is sorted. What the answerer receives is not, nor is what the asker receives."""
    used: dict[str, bytes] = {}
    keys = [f"c{n:03}".encode() for n in range(400)]
    exchange = Intersection(b"name", {"bank": len(keys), "shop": len(keys)}, 0)
    got: dict[str, list[bytes]] = {}

    def role(part: Callable[..., object], peer: str) -> Callable[[Session], None]:
        def run(session: Session) -> None:
            take = session.recv

            def recv(sender: str, *wanted: type, **limits: Any) -> Any:
                message: Any = take(sender, *wanted, **limits)
                if isinstance(message, HiddenIds):
                    got.setdefault(session.party, []).extend(row.tobytes() for row in message.values)
                return message

            session.recv = recv  # type: ignore[method-assign]
            part(session, peer, keys, exchange)

        return run

    hide = ristretto.hashed_and_raised

    def noting(secret: bytes, name: bytes, chunk: list[bytes]) -> Any:
        used[hide(secret, name, keys[:1]).tobytes().hex()] = secret
        return hide(secret, name, chunk)

    monkeypatch.setattr(ecdh, "hashed_and_raised", noting)
    simulate_roles({"bank": role(ecdh.ask, "shop"), "shop": role(ecdh.answer, "bank")}, timeout=120)
    assert len(used) == 2
    for party in ("bank", "shop"):
        (order,) = [
            [points.index(point) for point in got[party]]
            for secret in used.values()
            for points in [[row.tobytes() for row in hide(secret, b"name", keys)]]
            if set(points) == set(got[party])
        ]
        assert abs(np.corrcoef(order, np.arange(len(keys)))[0, 1]) < 0.35  # by chance once in 10^11
