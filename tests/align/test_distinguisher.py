"""Could a signer tell whom it is asked about? A distinguisher looks for traits of the values that it receives.

It gets the values received for one id and those for another, from many exchanges with fresh secrets, and looks whether
any trait comes more often with one than with the other: every bit, and traits that are known to survive a careless way
of hiding, such as lying on a curve or on its twist. What it must find in ways that leak, it must not find in ours.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import gmpy2
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from unpooled.align import blind_rsa, ecdh, ristretto, rsa
from unpooled.align.blind_rsa import BlindedIds
from unpooled.align.ecdh import HiddenIds
from unpooled.align.opening import Intersection
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session

Trait = Callable[[int], bool]

SAMPLES = 250
BEYOND_CHANCE = 7.0
"""In standard deviations: one trait goes beyond it once in 10^10 tests, a thousand traits once in 10^7."""
EXCHANGE = b"an exchange that many are played in"
FIELD = 2**255 - 19
KEY_BITS = 1024


def found(first: Sequence[bytes], second: Sequence[bytes], traits: Mapping[str, Trait], order: str) -> set[str]:
    """The traits that tell the values of one id from those of another."""
    tables = [_traits_of(values, traits, order) for values in (first, second)]
    names = [*(f"bit {n}" for n in range(8 * len(first[0]))), *traits]
    counts = np.array([table.sum(axis=0) for table in tables], float)
    share = counts.sum(axis=0) / (2 * SAMPLES)
    spread = np.sqrt(2 * SAMPLES * share * (1 - share))
    apart = np.abs(counts[0] - counts[1]) > BEYOND_CHANCE * spread
    told = {name for name, is_apart in zip(names, apart & (spread > 0), strict=True) if is_apart}
    return told | ({"byte histogram"} if _histograms_differ(first, second) else set())


def _traits_of(values: Sequence[bytes], traits: Mapping[str, Trait], order: str) -> NDArray[np.bool_]:
    assert len(values) == SAMPLES
    bits = np.unpackbits(np.frombuffer(b"".join(values), np.uint8).reshape(SAMPLES, -1), axis=1).astype(bool)
    numbers = [int.from_bytes(value, order) for value in values]  # type: ignore[arg-type]
    more = np.array([[has_it(number) for has_it in traits.values()] for number in numbers])
    return np.hstack([bits, more])


def _histograms_differ(first: Sequence[bytes], second: Sequence[bytes]) -> bool:
    """Chi-square of how often each byte comes, wherever it stands; 255 degrees of freedom at most."""
    counts = [np.bincount(np.frombuffer(b"".join(v), np.uint8), minlength=256).astype(float) for v in (first, second)]
    either = counts[0] + counts[1]
    surprise = ((counts[0] - counts[1]) ** 2 / np.maximum(either, 1)).sum()
    return bool(surprise > 255 + 10 * math.sqrt(2 * 255))


def is_square(value: int, prime: int) -> bool:
    return gmpy2.legendre(value % prime, prime) == 1


CURVE_TRAITS: dict[str, Trait] = {
    "a square": lambda x: is_square(x, FIELD),
    "on the curve, not on its twist": lambda u: is_square(u * (u * u + 486662 * u + 1), FIELD),
    "on the Edwards curve": lambda y: is_square((y * y - 1) * (1 + 121665 * pow(121666, -1, FIELD) * y * y), FIELD),
    "beyond half of the field": lambda x: 2 * x > FIELD,
}


def rsa_traits(key: rsa.PrivateKey) -> dict[str, Trait]:
    """A signer knows the factors, so it can look at more than the Jacobi symbol."""
    return {
        "Jacobi symbol": lambda v: gmpy2.jacobi(v, key.n) == 1,
        "square modulo p": lambda v: is_square(v, key.p),
        "square modulo q": lambda v: is_square(v, key.q),
        "beyond half of p": lambda v: 2 * (v % key.p) > key.p,
        "divisible by 3": lambda v: v % 3 == 0,
    }


def received(
    kind: type, ask: Callable[..., object], answer: Callable[..., object], ids: Iterable[bytes]
) -> list[bytes]:
    """What the seeker receives as the bank asks about one id after the other, each in an exchange of its own."""
    exchange = Intersection(EXCHANGE, {"bank": 1, "shop": 1}, 0)
    got: list[bytes] = []

    def bank(session: Session) -> None:
        for id in ids:
            ask(session, "shop", [id], exchange)

    def shop(session: Session) -> None:
        take = session.recv

        def recv(peer: str, *kinds: type, **limits: Any) -> Any:
            message: Any = take(peer, *kinds, **limits)
            if isinstance(message, kind):
                got.append(message.values.tobytes())  # type: ignore[attr-defined]
            return message

        session.recv = recv  # type: ignore[method-assign]
        for _ in ids:
            answer(session, "bank", [b"somebody"], exchange)

    simulate_roles({"bank": bank, "shop": shop}, timeout=120)
    return got


def split(values: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    return values[:SAMPLES], values[SAMPLES:]


def ids_apart(trait: Callable[[bytes], bool]) -> tuple[bytes, bytes]:
    """An id whose hash has a trait, and one whose hash has not: those that a leak would tell apart."""
    candidates = [f"customer {n}".encode() for n in range(64)]
    return next(filter(trait, candidates)), next(id for id in candidates if not trait(id))


def twice(ids: Iterable[bytes]) -> list[bytes]:
    return [id for id in ids for _ in range(SAMPLES)]


# points


def hash_to_u(id: bytes) -> bytes:
    return hashlib.sha256(EXCHANGE + id).digest()


ON_THE_CURVE, ON_THE_TWIST = ids_apart(
    lambda id: CURVE_TRAITS["on the curve, not on its twist"](int.from_bytes(hash_to_u(id), "little") % 2**255)
)


def test_hidden_ids_have_no_trait_of_the_id() -> None:
    for pair in ((ON_THE_CURVE, ON_THE_TWIST), (b"", b"anna" * 50)):
        values = received(HiddenIds, ecdh.ask, ecdh.answer, twice(pair))
        assert found(*split(values), CURVE_TRAITS, "little") == set()


def test_a_hash_used_as_a_coordinate_is_found_by_the_twist() -> None:
    """X25519 without a hash to the curve: raising a point leaves it on the curve, or on the twist, where it was."""

    def careless(id: bytes) -> bytes:
        return X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(hash_to_u(id)))

    values = [careless(id) for id in twice((ON_THE_CURVE, ON_THE_TWIST))]
    told = found(*split(values), CURVE_TRAITS, "little")
    assert "on the curve, not on its twist" in told
    assert told <= {"on the curve, not on its twist", "a square"}  # even multiples on the curve are squares, too


def test_one_secret_for_all_exchanges_is_found_bit_by_bit() -> None:
    secret = ristretto.new_secret()
    hidden = {id: ristretto.hashed_and_raised(secret, EXCHANGE, [id]).tobytes() for id in (b"anna", b"bert")}
    told = found(*split([hidden[id] for id in twice(hidden)]), CURVE_TRAITS, "little")
    assert sum(name.startswith("bit") for name in told) > 50


def test_a_bit_that_says_a_little_is_found() -> None:
    """A bit that is set for one id in three of four cases, for the other in one of four."""
    chance = secrets.SystemRandom()
    values = [
        bytes([chance.random() < odds, *secrets.token_bytes(31)]) for odds in (0.75, 0.25) for _ in range(SAMPLES)
    ]
    assert "bit 7" in found(*split(values), CURVE_TRAITS, "little")


# blinded values


@pytest.fixture(scope="module")
def key() -> rsa.PrivateKey:
    return rsa.make_key(KEY_BITS)


@pytest.fixture(scope="module")
def unlike(key: rsa.PrivateKey) -> tuple[bytes, bytes]:
    """Two ids whose hashes differ in their Jacobi symbol."""
    return ids_apart(lambda id: gmpy2.jacobi(rsa.hashed(key.n, EXCHANGE, id), key.n) == 1)


def test_blinded_ids_have_no_trait_of_the_id(
    key: rsa.PrivateKey, unlike: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The symbol of H(id)·r^e is that of H(id) times that of r: it is even, because r's is, whatever H(id)'s is."""
    monkeypatch.setattr(rsa, "make_key", lambda bits: key)
    parts = [partial(part, bits=KEY_BITS) for part in (blind_rsa.ask, blind_rsa.answer)]
    values = received(BlindedIds, parts[0], parts[1], twice(unlike))
    assert found(*split(values), rsa_traits(key), "big") == set()
    ones = sum(gmpy2.jacobi(int.from_bytes(value, "big"), key.n) == 1 for value in values)
    assert abs(ones - SAMPLES) < BEYOND_CHANCE * math.sqrt(SAMPLES / 2)


def test_blinding_by_squares_is_found_by_the_symbol(key: rsa.PrivateKey, unlike: tuple[bytes, bytes]) -> None:
    def careless(id: bytes) -> bytes:
        factor = secrets.randbelow(key.n) ** 2
        value = int(rsa.hashed(key.n, EXCHANGE, id)) * pow(factor, rsa.EXPONENT, key.n) % key.n
        return value.to_bytes(KEY_BITS // 8, "big")

    told = found(*split([careless(id) for id in twice(unlike)]), rsa_traits(key), "big")
    assert "Jacobi symbol" in told
    assert told <= {"Jacobi symbol", "square modulo p", "square modulo q"}


def test_small_blinding_factors_are_found(key: rsa.PrivateKey) -> None:
    """A factor of a few bits leaves the value among few, so its upper bits lean to one side."""

    def careless(id: bytes) -> bytes:
        value = int(rsa.hashed(key.n, EXCHANGE, id)) * pow(2 + secrets.randbelow(3), rsa.EXPONENT, key.n) % key.n
        return value.to_bytes(KEY_BITS // 8, "big")

    assert found(*split([careless(id) for id in twice((b"anna", b"bert"))]), rsa_traits(key), "big") != set()
