"""Owners make sure that they hold the same rows, and whoever tells a wrong position has nothing to try ids on."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from unpooled.align import ristretto, rows, same
from unpooled.align.ecdh import HiddenIds, RaisedIds
from unpooled.align.ring import CommonRows
from unpooled.align.same import HiddenDigest, SameRows, require_same_rows
from unpooled.errors import ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session
from unpooled.wire import kind_of

Run = Callable[..., Any]

OWNERS = ("bank", "telco", "railway")
COMMON = [f"common-{n}" for n in range(29)]
OTHER = "0177-4711"
CANDIDATES = [f"0177-{n}" for n in range(4700, 4720)]
"""What a dictionary has: the id that is not in common is among them."""


def holding(digest: str) -> Callable[[Session], None]:
    return lambda session: require_same_rows(session, OWNERS, digest)


def test_owners_of_the_same_rows_find_that_out() -> None:
    simulate_roles(dict.fromkeys(OWNERS, holding("same")), timeout=120)


@pytest.mark.parametrize("odd", OWNERS)
def test_other_rows_are_refused_whoever_has_them(odd: str) -> None:
    with pytest.raises(ProtocolError, match="same rows") as caught:
        simulate_roles({party: holding("other" if party == odd else "same") for party in OWNERS}, timeout=120)
    assert odd in str(caught.value)


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (b"", "HiddenDigest.*telco.*32"),
        (bytes(64), "HiddenDigest.*telco.*64.*32"),
        (bytes(32), "telco"),
        (bytes(31) + b"\x80", "telco"),
    ],
)
def test_what_is_no_point_is_refused(point: bytes, reason: str) -> None:
    def telco(session: Session) -> None:
        session.send("bank", HiddenDigest(point))
        session.recv("bank", SameRows)

    with pytest.raises(ProtocolError, match=reason):
        simulate_roles({"bank": lambda session: require_same_rows(session, ("bank", "telco"), "d"), "telco": telco})


def test_what_one_owner_said_cannot_be_handed_on_as_ones_own() -> None:
    """The telco, which does not know the rows, hands on what the bank and the railway say."""
    everybody: dict[str, Callable[[Session], None]] = {
        "bank": lambda session: require_same_rows(session, ("bank", "telco"), "d"),
        "railway": lambda session: require_same_rows(session, ("telco", "railway"), "d"),
    }

    def telco(session: Session) -> None:
        for kind in (HiddenDigest, SameRows):
            session.send("railway", session.recv("bank", kind))
            session.send("bank", session.recv("railway", kind))

    with pytest.raises(ProtocolError, match=r"telco.*same rows"):
        simulate_roles({**everybody, "telco": telco}, timeout=120)


# attacks: the attacker makes an owner take a row for common that is not, and tries out candidates for its id

ONE = (1).to_bytes(32, "little")


class Attack:
    """An attacker that knows all ids of the victim's list but one, and compares digests with a point of its choice.

    That point is made from `guess`, which stands for the unknown id, and from a secret that the attacker keeps.
    """

    def __init__(self, attacker: str, victim: str, deviates: Callable[[Session], None], changing: Run, guess: str):
        self.attacker, self.victim, self.guess = attacker, victim, guess
        self.secret = ristretto.new_secret()
        self.hashed, self.list, self.salt = threading.Event(), list[bytes](), b""
        send_point = changing(HiddenDigest, lambda told, number: HiddenDigest(self.point(self.guess)), to=victim)

        def meddle(session: Session) -> None:
            deviates(session)
            send_point(session)

        self.meddle = {attacker: meddle}

    def noting(self, keys: Iterable[bytes], salt: bytes) -> str:
        """In place of the digest's function: the victim's list, of which the attacker takes all ids but one."""
        hashed = list(keys)
        if key_of(OTHER) in hashed:
            self.list, self.salt = hashed, salt
            self.hashed.set()
        return DIGEST_OF(hashed, salt)

    def digest(self, candidate: str) -> str:
        assert self.hashed.wait(120)
        return DIGEST_OF([key_of(candidate) if key == key_of(OTHER) else key for key in self.list], self.salt)

    def point(self, candidate: str) -> bytes:
        return ristretto.hashed_and_raised(self.secret, same._POINT, [self.digest(candidate).encode()]).tobytes()

    def confirmed(self, ran: Any) -> list[str]:
        """The candidates that anything confirms which the attacker received."""
        received = [message for _, message in ran.received[self.attacker]]
        values = {getattr(message, field.name) for message in received for field in fields(message) if simple(field)}
        values |= {row.tobytes() for message in received if hasattr(message, "values") for row in message.values}
        found = []
        for candidate in CANDIDATES:
            digest = self.digest(candidate)
            plain = ristretto.hashed_and_raised(ONE, same._POINT, [digest.encode()]).tobytes()
            if values & {digest, digest.encode(), bytes.fromhex(digest), plain, self.point(candidate)}:
                found.append(candidate)
        return found

    def one_try(self, ran: Any) -> bool:
        """Whether the victim's proof is the one that goes with the attacker's point."""
        ((_, theirs),) = [told for told in ran.received[self.attacker] if told[0] == self.victim and is_point(told[1])]
        proofs = [told.proof for peer, told in ran.received[self.attacker] if isinstance(told, SameRows)]
        key = ristretto.raised(self.secret, "", np.frombuffer(theirs.point, np.uint8).reshape(1, -1)).tobytes()
        shared = same._Shared((self.victim, self.attacker), (theirs.point, self.point(self.guess)), key)
        return shared.proof(same._ASKS) in proofs


def after_the_attacker(meddle: dict[str, Callable[[Session], None]], honest: str) -> dict[str, Any]:
    """Let an honest owner look at proofs, and so end it all, only when the attacker has one."""
    ((attacker, deviates),) = meddle.items()
    arrived = threading.Event()

    def noting(session: Session) -> None:
        deviates(session)
        take = session.recv

        def recv(peer: str, *kinds: type, **limits: Any) -> Any:
            message = take(peer, *kinds, **limits)
            if isinstance(message, SameRows):
                arrived.set()
            return message

        session.recv = recv  # type: ignore[method-assign]

    def waiting(session: Session) -> None:
        take = session.recv

        def recv(peer: str, *kinds: type, **limits: Any) -> Any:
            if SameRows in kinds:
                assert arrived.wait(120)
            return take(peer, *kinds, **limits)

        session.recv = recv  # type: ignore[method-assign]

    return {attacker: noting, honest: waiting}


DIGEST_OF = rows._digest_of


def key_of(id: str) -> bytes:
    return len(id).to_bytes(4, "little") + id.encode()


def simple(field: Any) -> bool:
    return field.type in ("bytes", "str")


def is_point(message: object) -> bool:
    return isinstance(message, HiddenDigest)


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa"])
def test_an_active_party_that_tells_a_position_too_many_learns_nothing_of_it(
    fail: Run, changing: Run, monkeypatch: pytest.MonkeyPatch, psi: str
) -> None:
    """29 true positions and one other; the telco's answer is one random point, and its refusal."""

    def one_more(told: CommonRows, number: int) -> CommonRows:
        (left,) = set(range(30)) - set(told.positions.tolist())
        return replace(told, positions=np.append(told.positions, left))

    attack = Attack("bank", "telco", changing(CommonRows, one_more), changing, CANDIDATES[0])
    monkeypatch.setattr(rows, "_digest_of", attack.noting)
    tables = {"bank": [*COMMON, "x"], "telco": [*COMMON, OTHER]}
    ran = fail(tables, psi=psi, meddle=attack.meddle)
    assert re.search("telco and bank.*same rows", str(ran.errors["telco"]))
    assert kind_of(SameRows) not in ran.kinds("telco", "sent")
    assert len(ran.given("bank", HiddenDigest)) == 1
    assert attack.confirmed(ran) == []


@pytest.mark.parametrize("guess", [CANDIDATES[0], OTHER], ids=["wrong", "right"])
def test_an_answerer_that_mixes_up_what_it_raised_has_one_try(
    fail: Run, changing: Run, monkeypatch: pytest.MonkeyPatch, guess: str
) -> None:
    """The bank takes a row of its own for common that the telco does not have."""
    mixed = changing(RaisedIds, lambda told, number: replace(told, values=np.roll(told.values, 1, axis=0)))
    attack = Attack("telco", "bank", mixed, changing, guess)
    monkeypatch.setattr(rows, "_digest_of", attack.noting)
    ran = fail({"bank": [*COMMON, OTHER], "telco": COMMON}, meddle=attack.meddle)
    assert attack.confirmed(ran) == []
    assert attack.one_try(ran) == (guess == OTHER)


@pytest.mark.parametrize("guess", [CANDIDATES[0], OTHER], ids=["wrong", "right"])
def test_a_member_of_the_ring_that_mixes_up_a_list_has_one_try(
    fail: Run, changing: Run, monkeypatch: pytest.MonkeyPatch, guess: str
) -> None:
    """The telco passes the bank's list on in another order, and the coordinator tells positions by that."""

    def mixed(told: HiddenIds, number: int) -> HiddenIds:
        return replace(told, values=np.roll(told.values, 1, axis=0)) if number == 2 else told

    attack = Attack("telco", "bank", changing(HiddenIds, mixed), changing, guess)
    monkeypatch.setattr(rows, "_digest_of", attack.noting)
    tables = {"bank": [*COMMON, OTHER], "telco": COMMON, "railway": COMMON}
    ran = fail(tables, coordinator=True, meddle=after_the_attacker(attack.meddle, "railway"))
    assert attack.confirmed(ran) == []
    assert attack.one_try(ran) == (guess == OTHER)


def test_a_hidden_digest_is_another_point_each_time_and_for_each_peer() -> None:
    seen: list[bytes] = []

    def role(session: Session) -> None:
        take = session.recv

        def recv(peer: str, *kinds: type) -> Any:
            message = take(peer, *kinds)
            if isinstance(message, HiddenDigest):
                seen.append(message.point)
            return message

        session.recv = recv  # type: ignore[method-assign]
        require_same_rows(session, OWNERS, "same")

    for _ in range(3):
        simulate_roles(dict.fromkeys(OWNERS, role), timeout=120)
    assert len(set(seen)) == len(seen) == 18
