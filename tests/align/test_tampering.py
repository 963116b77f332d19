"""Parties that follow the protocol but for one message: whatever they send instead is refused, and nobody has rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.align import blind_rsa, ecdh, ring, ristretto, rsa
from unpooled.align.blind_rsa import BlindedIds, Signatures, SignedTags, SigningKey
from unpooled.align.ecdh import HiddenIds, RaisedIds
from unpooled.align.opening import Intersection, Limits, Opening
from unpooled.align.ring import CommonRows, Tags, told_common
from unpooled.arrays import Bytes
from unpooled.errors import PeerLost, ProtocolError, RefusedError, UnpooledError, WireError
from unpooled.session import Session
from unpooled.wire import Frame, encode, kind_of, read_body, read_header

Run = Callable[..., Any]

BANK = [f"c{n}" for n in range(12)]
TELCO = [f"c{n}" for n in range(6, 18)]
OWNERS = {"bank": BANK, "telco": TELCO}
CHUNK = 4
KEY_BITS = 1024

WAYS: dict[str, dict[str, Any]] = {
    "pair": {"psi": "ecdh"},
    "ring": {"psi": "ecdh", "coordinator": True},
    "blind-rsa": {"psi": "blind-rsa"},
}

LISTS = [
    pytest.param("pair", "bank", HiddenIds, id="pair-asker's points"),
    pytest.param("pair", "telco", HiddenIds, id="pair-answerer's points"),
    pytest.param("pair", "telco", RaisedIds, id="pair-raised points"),
    pytest.param("ring", "bank", HiddenIds, id="ring-bank's points"),
    pytest.param("ring", "telco", Tags, id="ring-tags"),
    pytest.param("blind-rsa", "telco", SignedTags, id="rsa-tags"),
    pytest.param("blind-rsa", "bank", BlindedIds, id="rsa-blinded ids"),
    pytest.param("blind-rsa", "telco", Signatures, id="rsa-signatures"),
]
"""Every list that travels: the way, who sends it, in which messages."""


def make_chunks_small(patch: pytest.MonkeyPatch) -> None:
    """Three chunks a list, worked on here: what is tried is not the workers."""
    for module in (ecdh, ring, blind_rsa):
        patch.setattr(module, "CHUNK", CHUNK)
    patch.setattr("unpooled.workers.cores", lambda: 1)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    make_chunks_small(monkeypatch)


def second(change: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    """Change the second message of a kind only."""
    return lambda message, number: change(message) if number == 2 else message


def with_first_row(values: Bytes, row: bytes) -> Bytes:
    changed = values.copy()
    changed[0] = np.frombuffer(row, np.uint8)
    return changed


def check_refused(ran: Any, *named: str, kind: type[UnpooledError] = ProtocolError) -> None:
    """Refused, with an error that names these, and no id; nobody has rows."""
    assert isinstance(ran.error, kind), ran.error
    assert not [name for name in named if name not in str(ran.error)], ran.error
    assert ran.ids == {}
    assert not any(re.search(r"\bc\d", str(error)) for error in ran.errors.values())


IN_A_LIST: list[tuple[str, Callable[[Any], Any], str]] = [
    ("of another exchange", lambda m: replace(m, exchange=b"x" * 32), "exchange"),
    ("again from the start", lambda m: replace(m, start=0), "position 0"),
    ("further on", lambda m: replace(m, start=8), "position 8"),
    ("sent twice", lambda m: [m, m], "position 4"),
    ("left out", lambda m: [], "position 8"),
    ("none", lambda m: replace(m, values=m.values[:0]), "(0, "),
    ("too narrow", lambda m: replace(m, values=m.values[:, :-1].copy()), "(4, "),
    ("flat", lambda m: replace(m, values=m.values.ravel()), ",)"),
]
"""What may be wrong with a piece; `test_lists` has all of it, and more, for the function that receives all lists."""


@pytest.mark.parametrize(
    ("way", "sender", "kind", "tamper", "wrong"),
    [
        pytest.param(*place.values, tamper, wrong, id=f"{place.id}, {what}")
        for place, (what, tamper, wrong) in zip(LISTS, IN_A_LIST, strict=True)
    ],
)
def test_a_piece_that_does_not_belong_there_is_refused(
    fail: Run, changing: Run, way: str, sender: str, kind: type, tamper: Callable[[Any], Any], wrong: str
) -> None:
    """Another fault for each list: that it comes through the function which finds them all is what is tried."""
    ran = fail(OWNERS, meddle={sender: changing(kind, second(tamper))}, **WAYS[way])
    check_refused(ran, sender, kind.__name__, wrong)


@pytest.mark.parametrize(("way", "sender", "kind"), LISTS)
def test_a_list_that_goes_on_after_its_end_is_refused(
    fail: Run, changing: Run, way: str, sender: str, kind: type
) -> None:
    ran = fail(OWNERS, meddle={sender: changing(kind, lambda m, number: [m, m] if number == 3 else m)}, **WAYS[way])
    assert isinstance(ran.error, ProtocolError)
    assert kind.__name__ in str(ran.error)


@pytest.fixture(scope="module")
def earlier(align: Run, changing: Run) -> dict[tuple[str, str, type], list[Any]]:
    """The messages of every list, as they were sent in an alignment that is over."""
    said: dict[tuple[str, str, type], list[Any]] = {}

    def keep(place: tuple[str, str, type]) -> Callable[[Any, int], Any]:
        return lambda message, number: said.setdefault(place, []).append(message) or message

    def meddle(way: str, sender: str) -> Callable[[Session], None]:
        kinds = [p.values[2] for p in LISTS if p.values[:2] == (way, sender)]

        def keep_all(session: Session) -> None:
            for kind in kinds:
                changing(kind, keep((way, sender, kind)))(session)

        return keep_all

    with pytest.MonkeyPatch.context() as patch:
        make_chunks_small(patch)
        for way, settings in WAYS.items():
            align(OWNERS, meddle={sender: meddle(way, sender) for sender in OWNERS}, **settings)
    return said


@pytest.mark.parametrize(("way", "sender", "kind"), LISTS)
def test_what_was_said_in_an_earlier_exchange_is_refused(
    fail: Run, changing: Run, earlier: dict[tuple[str, str, type], list[Any]], way: str, sender: str, kind: type
) -> None:
    again = earlier[way, sender, kind]
    assert len(again) >= 3
    ran = fail(OWNERS, meddle={sender: changing(kind, lambda m, number: again[number - 1])}, **WAYS[way])
    check_refused(ran, sender, kind.__name__, "exchange")


def test_a_truncated_frame_is_refused_naming_its_sender(fail: Run) -> None:
    def meddle(session: Session) -> None:
        leave = session._transport.send

        def send(peer: str, frame: Frame, **how: Any) -> None:
            data = frame.joined()
            if read_header(data).kind == kind_of(HiddenIds):
                data = data[:-1]
            leave(peer, Frame((data,), len(data)), **how)

        session._transport.send = send  # type: ignore[method-assign]

    ran = fail(OWNERS, meddle={"telco": meddle})
    check_refused(ran, "telco", "scope 'common", kind=WireError)


@pytest.mark.parametrize(
    "whole",
    [
        HiddenIds(b"name", 4, np.zeros((2, 32), np.uint8)),
        BlindedIds(b"name", 4, np.zeros((1, 128), np.uint8)),
        SigningKey(b"name", 2**1023, np.zeros((8, 128), np.uint8)),
        CommonRows(b"name", b"salt", np.arange(3)),
        Opening(b"n" * 32, 5, 1, 0),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_frame_cut_anywhere_is_no_message(whole: object) -> None:
    data = encode(whole, "common/hide").joined()
    for length in range(len(data)):
        with pytest.raises(WireError):
            read_body(read_header(data[:length]), type(whole))
    with pytest.raises(WireError):
        read_body(read_header(data + b"\0"), type(whole))


# points: `test_ristretto` has all that is no point


@pytest.mark.parametrize(
    ("way", "sender", "kind", "bad"),
    [
        ("pair", "bank", HiddenIds, "00" * 32),
        ("pair", "telco", HiddenIds, "01" + "00" * 31),
        ("ring", "bank", HiddenIds, "ff" * 32),
        ("ring", "telco", HiddenIds, "00" * 32),
        ("pair", "telco", RaisedIds, "00" * 32),
        ("ring", "bank", Tags, "ff" * 32),
    ],
)
def test_what_is_no_point_is_refused(fail: Run, changing: Run, way: str, sender: str, kind: type, bad: str) -> None:
    """Also where points are only compared."""
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, bytes.fromhex(bad))))
    ran = fail(OWNERS, meddle={sender: changing(kind, tamper)}, **WAYS[way])
    check_refused(ran, sender, "point", " 1 ")


@pytest.mark.parametrize(
    ("way", "sender", "kind"),
    [
        ("pair", "telco", RaisedIds),
        ("ring", "bank", Tags),
        ("blind-rsa", "telco", SignedTags),
        ("pair", "telco", HiddenIds),
        ("ring", "bank", HiddenIds),
    ],
)
def test_one_value_for_several_ids_is_refused(fail: Run, changing: Run, way: str, sender: str, kind: type) -> None:
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, m.values[1].tobytes())))
    ran = fail(OWNERS, meddle={sender: changing(kind, tamper)}, **WAYS[way])
    check_refused(ran, "twice")


# keys and signatures


@pytest.mark.parametrize(
    ("tamper", "wrong"),
    [
        (lambda m: replace(m, exchange=b"x" * 32), "exchange"),
        (lambda m: replace(m, modulus=2**1023 + 1), "primes"),
    ],
    ids=["another exchange", "no key"],
)
def test_a_wrong_key_is_refused(fail: Run, changing: Run, tamper: Callable[[Any], Any], wrong: str) -> None:
    """`test_rsa` has all keys that are refused."""
    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(SigningKey, lambda m, number: tamper(m))})
    check_refused(ran, "telco", wrong)
    assert kind_of(BlindedIds) not in ran.kinds("bank", "sent")


def test_signatures_made_with_another_key_than_was_sent_are_refused(fail: Run, changing: Run) -> None:
    def other(message: SigningKey, number: int) -> SigningKey:
        another = rsa.make_key(KEY_BITS)
        return replace(message, modulus=another.n, proof=rsa.proof_of(another, message.exchange))

    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(SigningKey, other)})
    assert isinstance(ran.error, ProtocolError)


def test_a_wrong_signature_is_refused(fail: Run, changing: Run) -> None:
    tamper = second(lambda m: replace(m, values=m.values[::-1].copy()))
    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(Signatures, tamper)})
    check_refused(ran, "telco", "signature", " 1 ")


def test_a_value_that_no_honest_asker_sends_is_not_signed(fail: Run, changing: Run) -> None:
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, (1).to_bytes(128, "big"))))
    ran = fail(OWNERS, psi="blind-rsa", meddle={"bank": changing(BlindedIds, tamper)})
    check_refused(ran, "bank", " 1 ")


def test_signatures_in_other_pieces_than_were_asked_for_are_refused(fail: Run, changing: Run) -> None:
    def halves(message: Signatures, number: int) -> list[Signatures]:
        return [
            replace(message, values=message.values[:2]),
            replace(message, start=message.start + 2, values=message.values[2:]),
        ]

    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(Signatures, halves)})
    check_refused(ran, "telco", "Signatures", "(2, 128)")


def test_no_more_is_signed_than_was_announced(fail: Run, changing: Run) -> None:
    """The asker announces 11 ids and sends 12: the last chunk is refused as a whole."""

    def fewer(message: Opening, number: int) -> Opening:
        return replace(message, ids=11)

    ran = fail(OWNERS, psi="blind-rsa", meddle={"bank": changing(Opening, fewer)})
    assert isinstance(ran.error, ProtocolError)
    assert sum(entry.kind == kind_of(Signatures) for entry in ran.ledgers["telco"].entries) <= 2


# positions


class Told:
    """Enough of a session to be told which rows are in common."""

    def __init__(self, message: CommonRows) -> None:
        self.message = message

    def recv(self, peer: str, *kinds: type, at_most: int) -> CommonRows:
        return self.message


@pytest.mark.parametrize(
    "change",
    [
        {"exchange": b"x" * 32},
        {"salt": b"s" * 31},
        {"positions": np.array([2, 12, 0])},
        {"positions": np.array([2, -1, 0])},
        {"positions": np.array([2, 0, 0])},
        {"positions": np.array(3)},
        {"positions": np.array([[2, 1, 0]])},
        {"positions": np.array([2, 1])},
    ],
    ids=["another exchange", "salt", "too high", "negative", "twice", "a number", "a table", "too few"],
)
def test_positions_that_cannot_be_are_refused(change: dict[str, Any]) -> None:
    exchange, order = Intersection(b"name", {"bank": 12, "telco": 12}, 3), np.arange(12)[::-1]
    good = CommonRows(b"name", b"s" * 32, np.array([2, 1, 0]))
    told = told_common(Told(good), "bank", exchange, order)  # type: ignore[arg-type]
    assert told is not None
    assert told.rows.tolist() == [9, 10, 11]
    with pytest.raises(ProtocolError, match="bank"):
        told_common(Told(replace(good, **change)), "bank", exchange, order)  # type: ignore[arg-type]


@pytest.mark.parametrize(("way", "teller"), [("ring", "coordinator"), ("pair", "bank"), ("blind-rsa", "bank")])
def test_everybody_checks_the_positions_it_is_told(fail: Run, changing: Run, way: str, teller: str) -> None:
    beyond = changing(CommonRows, lambda m, number: replace(m, positions=m.positions + 100), to="telco")
    check_refused(fail(OWNERS, meddle={teller: beyond}, **WAYS[way]), teller, "12")


def test_a_party_that_leaves_in_the_middle_is_missed(fail: Run) -> None:
    """It says goodbye as if its part were done."""

    class Leaves(Exception):
        pass

    def meddle(session: Session) -> None:
        leave = session.send

        def send(peer: str, message: object, **how: Any) -> None:
            if isinstance(message, RaisedIds):
                session.finish()
                raise Leaves
            leave(peer, message, **how)

        session.send = send  # type: ignore[method-assign]

    ran = fail(OWNERS, meddle={"telco": meddle})
    assert isinstance(ran.errors["bank"], PeerLost)
    assert re.search("telco.*bank.*RaisedIds", str(ran.errors["bank"]))
    assert ran.ids == {}


def test_a_man_in_the_middle_who_answers_with_a_secret_of_his_own_finds_nothing(fail: Run, changing: Run) -> None:
    """Points raised by another secret are points, so nothing is refused; but nothing matches either."""

    def elsewhere(message: HiddenIds, number: int) -> HiddenIds:
        return replace(message, values=ristretto.raised(ristretto.new_secret(), "nobody", message.values))

    ran = fail(OWNERS, meddle={"telco": changing(HiddenIds, elsewhere)}, limits={"bank": Limits(1, 1)})
    assert isinstance(ran.error, RefusedError)
    assert "policy.minimum_overlap" in str(ran.error)
