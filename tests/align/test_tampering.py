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
from unpooled.align.opening import Limits, Opening
from unpooled.align.ring import CommonRows, Tags
from unpooled.arrays import Bytes
from unpooled.errors import PeerLost, ProtocolError, UnpooledError, WireError
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


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three chunks a list, worked on here: what is tried is not the workers."""
    for module in (ecdh, ring, blind_rsa):
        monkeypatch.setattr(module, "CHUNK", CHUNK)
    monkeypatch.setattr("unpooled.workers.cores", lambda: 1)


def second(change: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    """Change the second message of a kind only."""
    return lambda message, number: change(message) if number == 2 else message


def with_first_row(values: Bytes, row: bytes) -> Bytes:
    changed = values.copy()
    changed[0] = np.frombuffer(row, np.uint8)
    return changed


def check_refused(ran: Any, reason: str, kind: type[UnpooledError] = ProtocolError) -> None:
    assert isinstance(ran.error, kind), ran.error
    assert reason in str(ran.error)
    assert ran.ids == {}
    assert not any(re.search(r"\bc\d", str(error)) for error in ran.errors.values())


IN_A_LIST: dict[str, tuple[Callable[[Any], Any], str]] = {
    "of another exchange": (lambda m: replace(m, exchange=b"x" * 32), "belongs to another exchange"),
    "again from the start": (lambda m: replace(m, start=0), "from position 0, expected 4"),
    "further on": (lambda m: replace(m, start=8), "from position 8, expected 4"),
    "sent twice": (lambda m: [m, m], "from position 4, expected 8"),
    "too many": (lambda m: replace(m, values=np.concatenate([m.values] * 3)), "of the wrong shape"),
    "none": (lambda m: replace(m, values=m.values[:0]), "of the wrong shape"),
    "too narrow": (lambda m: replace(m, values=m.values[:, :-1].copy()), "of the wrong shape"),
    "flat": (lambda m: replace(m, values=m.values.ravel()), "of the wrong shape"),
}


@pytest.mark.parametrize("change", IN_A_LIST)
@pytest.mark.parametrize(("way", "sender", "kind"), LISTS)
def test_a_piece_that_does_not_belong_there_is_refused(
    fail: Run, changing: Run, way: str, sender: str, kind: type, change: str
) -> None:
    tamper, reason = IN_A_LIST[change]
    ran = fail(OWNERS, meddle={sender: changing(kind, second(tamper))}, **WAYS[way])
    check_refused(ran, reason)
    assert f"{sender} sent {kind.__name__}" in str(ran.error)


@pytest.mark.parametrize(("way", "sender", "kind"), LISTS)
def test_a_list_that_goes_on_after_its_end_is_refused(
    fail: Run, changing: Run, way: str, sender: str, kind: type
) -> None:
    ran = fail(OWNERS, meddle={sender: changing(kind, lambda m, number: [m, m] if number == 3 else m)}, **WAYS[way])
    assert isinstance(ran.error, ProtocolError)
    assert kind_of(kind) in str(ran.error) or "expected" in str(ran.error)


@pytest.mark.parametrize(("way", "sender", "kind"), LISTS)
def test_a_message_that_is_left_out_is_missed(fail: Run, changing: Run, way: str, sender: str, kind: type) -> None:
    ran = fail(OWNERS, meddle={sender: changing(kind, second(lambda m: []))}, **WAYS[way])
    check_refused(ran, "from position 8, expected 4")


@pytest.mark.parametrize(("way", "sender", "kind"), LISTS)
def test_what_was_said_in_an_earlier_exchange_is_refused(
    fail: Run, align: Run, changing: Run, way: str, sender: str, kind: type
) -> None:
    earlier: list[Any] = []

    def keep(message: Any, number: int) -> Any:
        earlier.append(message)
        return message

    align(OWNERS, meddle={sender: changing(kind, keep)}, **WAYS[way])
    assert len(earlier) >= 3
    ran = fail(OWNERS, meddle={sender: changing(kind, lambda m, number: earlier[number - 1])}, **WAYS[way])
    check_refused(ran, "belongs to another exchange")


@pytest.mark.parametrize(("way", "sender", "kind"), LISTS)
def test_a_truncated_frame_is_refused_naming_its_sender(fail: Run, way: str, sender: str, kind: type) -> None:
    def meddle(session: Session) -> None:
        leave = session._transport.send

        def send(peer: str, frame: Frame) -> None:
            data = frame.joined()
            if read_header(data).kind == kind_of(kind):
                data = data[:-1]
            leave(peer, Frame((data,), len(data)))

        session._transport.send = send  # type: ignore[method-assign]

    ran = fail(OWNERS, meddle={sender: meddle}, **WAYS[way])
    check_refused(ran, f"{sender} sent a damaged message (scope 'common", WireError)


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


# points


@pytest.mark.parametrize("bad", ["00" * 32, "01" + "00" * 31, "ff" * 32], ids=["identity", "negative", "not canonical"])
@pytest.mark.parametrize(("way", "sender"), [("pair", "bank"), ("pair", "telco"), ("ring", "bank"), ("ring", "telco")])
def test_what_is_no_point_is_refused(fail: Run, changing: Run, way: str, sender: str, bad: str) -> None:
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, bytes.fromhex(bad))))
    ran = fail(OWNERS, meddle={sender: changing(HiddenIds, tamper)}, **WAYS[way])
    check_refused(ran, f"{sender} sent, 1 values into a chunk, no point of the group or the identity")


@pytest.mark.parametrize("bad", ["00" * 32, "ff" * 32], ids=["identity", "not canonical"])
@pytest.mark.parametrize(("way", "sender", "kind"), [("pair", "telco", RaisedIds), ("ring", "bank", Tags)])
def test_what_is_no_point_is_refused_where_it_is_only_compared(
    fail: Run, changing: Run, way: str, sender: str, kind: type, bad: str
) -> None:
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, bytes.fromhex(bad))))
    ran = fail(OWNERS, meddle={sender: changing(kind, tamper)}, **WAYS[way])
    check_refused(ran, f"{sender} sent, 1 values into a chunk, no point of the group or the identity")


@pytest.mark.parametrize(
    ("way", "sender", "kind"),
    [("pair", "telco", RaisedIds), ("ring", "bank", Tags), ("blind-rsa", "telco", SignedTags)],
)
def test_one_value_for_several_ids_is_refused(fail: Run, changing: Run, way: str, sender: str, kind: type) -> None:
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, m.values[1].tobytes())))
    ran = fail(OWNERS, meddle={sender: changing(kind, tamper)}, **WAYS[way])
    check_refused(ran, "list holds a value twice, but its ids are all different")


def test_an_id_that_is_sent_twice_is_refused(fail: Run, changing: Run) -> None:
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, m.values[1].tobytes())))
    for way, sender in (("pair", "telco"), ("ring", "bank")):
        ran = fail(OWNERS, meddle={sender: changing(HiddenIds, tamper)}, **WAYS[way])
        check_refused(ran, f"{sender}'s list holds a value twice")


# keys and signatures


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (lambda m: replace(m, exchange=b"x" * 32), "telco sent SigningKey that belongs to another exchange"),
        (lambda m: replace(m, modulus=rsa.make_key(2048).n), "telco sent a key that does not have the 1024 bits"),
        (lambda m: replace(m, modulus=2**1023 + 1), "telco sent a key that is not the product of two large primes"),
        (lambda m: replace(m, modulus=rsa.make_key(1024).n), "telco sent a key without a proof that it blinds"),
        (lambda m: replace(m, proof=m.proof[1:]), "telco sent a key with a proof of the wrong size"),
        (lambda m: replace(m, modulus=0), "telco sent a key that does not have the 1024 bits"),
    ],
)
def test_a_wrong_key_is_refused(fail: Run, changing: Run, tamper: Callable[[Any], Any], reason: str) -> None:
    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(SigningKey, lambda m, number: tamper(m))})
    check_refused(ran, reason)
    assert kind_of(BlindedIds) not in ran.kinds("bank", "sent")


def test_signatures_made_with_another_key_than_was_sent_are_refused(fail: Run, changing: Run) -> None:
    def other(message: SigningKey, number: int) -> SigningKey:
        another = rsa.make_key(KEY_BITS)
        return replace(message, modulus=another.n, proof=rsa.proof_of(another, message.exchange))

    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(SigningKey, other)})
    assert isinstance(ran.error, ProtocolError)
    told = str(ran.error)
    assert "a signature that is not right" in told or "one that no honest party sends" in told


@pytest.mark.parametrize(
    "tamper",
    [
        lambda m: replace(m, values=with_first_row(m.values, bytes(128))),
        lambda m: replace(m, values=m.values[::-1].copy()),
        lambda m: replace(m, values=m.values ^ np.eye(1, 128, 127, dtype=np.uint8)),
    ],
    ids=["zero", "another order", "a bit flipped"],
)
def test_a_wrong_signature_is_refused(fail: Run, changing: Run, tamper: Callable[[Any], Any]) -> None:
    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(Signatures, second(tamper))})
    check_refused(ran, "telco sent, 1 values into a chunk, a signature that is not right")


@pytest.mark.parametrize("value", [0, 1, 2**1024 - 1])
def test_a_value_that_no_honest_asker_sends_is_not_signed(fail: Run, changing: Run, value: int) -> None:
    row = value.to_bytes(128, "big")
    tamper = second(lambda m: replace(m, values=with_first_row(m.values, row)))
    ran = fail(OWNERS, psi="blind-rsa", meddle={"bank": changing(BlindedIds, tamper)})
    check_refused(ran, "bank sent, 1 values into a chunk, one that no honest party sends")


def test_signatures_in_other_pieces_than_were_asked_for_are_refused(fail: Run, changing: Run) -> None:
    def halves(message: Signatures, number: int) -> list[Signatures]:
        return [
            replace(message, values=message.values[:2]),
            replace(message, start=message.start + 2, values=message.values[2:]),
        ]

    ran = fail(OWNERS, psi="blind-rsa", meddle={"telco": changing(Signatures, halves)})
    check_refused(ran, "telco sent Signatures of the wrong shape: (2, 128), expected 4 rows of 128 bytes")


def test_no_more_is_signed_than_was_announced(fail: Run, changing: Run) -> None:
    """The asker announces 11 ids and sends 12: the last chunk is refused as a whole."""

    def fewer(message: Opening, number: int) -> Opening:
        return replace(message, ids=11)

    ran = fail(OWNERS, psi="blind-rsa", meddle={"bank": changing(Opening, fewer)})
    assert isinstance(ran.error, ProtocolError)
    assert sum(entry.kind == kind_of(Signatures) for entry in ran.ledgers["telco"].entries) <= 2


# positions


@pytest.mark.parametrize(("way", "sender"), [("ring", "coordinator"), ("pair", "bank")])
def test_fewer_positions_than_was_agreed_are_refused(fail: Run, changing: Run, way: str, sender: str) -> None:
    limits = dict.fromkeys(OWNERS, Limits(1, 3))
    one = changing(CommonRows, lambda m, number: replace(m, positions=m.positions[:1]))
    ran = fail(OWNERS, limits=limits, meddle={sender: one}, **WAYS[way])
    check_refused(ran, f"{sender} sent CommonRows although fewer than 3 ids are in common")


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (lambda m: replace(m, exchange=b"x" * 32), "sent CommonRows that belong to another exchange"),
        (lambda m: replace(m, positions=m.positions + 100), "sent positions that are not those of 12 different ids"),
        (lambda m: replace(m, positions=m.positions - 100), "sent positions that are not those of 12 different ids"),
        (lambda m: replace(m, positions=m.positions[[0, 0]]), "sent positions that are not those of 12 different ids"),
        (
            lambda m: replace(m, positions=np.array(3)),
            "sent positions that are not those of 12 different ids",
        ),
        (lambda m: replace(m, positions=m.positions[None]), "sent positions that are not those of 12 different ids"),
    ],
    ids=["another exchange", "too high", "negative", "twice", "a number", "a table"],
)
@pytest.mark.parametrize(("way", "teller"), [("ring", "coordinator"), ("pair", "bank"), ("blind-rsa", "bank")])
def test_positions_that_cannot_be_are_refused(
    fail: Run, changing: Run, way: str, teller: str, tamper: Callable[[Any], Any], reason: str
) -> None:
    ran = fail(OWNERS, meddle={teller: changing(CommonRows, lambda m, number: tamper(m), to="telco")}, **WAYS[way])
    check_refused(ran, f"{teller} {reason}")


def test_a_party_that_leaves_in_the_middle_is_missed(fail: Run) -> None:
    """It says goodbye as if its part were done."""

    class Leaves(Exception):
        pass

    def meddle(session: Session) -> None:
        leave = session.send

        def send(peer: str, message: object) -> None:
            if isinstance(message, RaisedIds):
                session.finish()
                raise Leaves
            leave(peer, message)

        session.send = send  # type: ignore[method-assign]

    ran = fail(OWNERS, meddle={"telco": meddle})
    assert isinstance(ran.errors["bank"], PeerLost)
    assert "telco has finished, but bank still waits for RaisedIds" in str(ran.errors["bank"])
    assert ran.ids == {}


def test_a_man_in_the_middle_who_answers_with_a_secret_of_his_own_finds_nothing(fail: Run, changing: Run) -> None:
    """Points raised by another secret are points, so nothing is refused; but nothing matches either."""

    def elsewhere(message: HiddenIds, number: int) -> HiddenIds:
        return replace(message, values=ristretto.raised(ristretto.new_secret(), "nobody", message.values))

    ran = fail(OWNERS, meddle={"telco": changing(HiddenIds, elsewhere)}, limits={"bank": Limits(1, 1)})
    assert "fewer than 1 ids are in common" in str(ran.error)
