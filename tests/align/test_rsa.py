"""The arithmetic of blind signatures: it is that of plain numbers, and what no honest party sends is refused."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import gmpy2
import numpy as np
import pytest

from unpooled.align import rsa
from unpooled.align.rsa import EXPONENT, TAG_BYTES, PrivateKey
from unpooled.arrays import Bytes
from unpooled.errors import ProtocolError

EXCHANGE = b"the exchange's name"
KEYS = [b"anna", b"bert", b"", b"\x00"]
BITS = 1024


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return rsa.make_key(BITS)


def private_exponent(key: PrivateKey) -> int:
    return pow(EXPONENT, -1, (key.p - 1) * (key.q - 1))


def as_rows(values: list[int], bits: int = BITS) -> Bytes:
    return np.frombuffer(b"".join(value.to_bytes(bits // 8, "big") for value in values), np.uint8).reshape(
        -1, bits // 8
    )


def as_numbers(rows: Bytes) -> list[int]:
    return [int.from_bytes(row.tobytes(), "big") for row in rows]


def check(n: int, proof: Bytes | None = None, bits: int = BITS) -> None:
    none = np.zeros((8, bits // 8), np.uint8)
    rsa.check_key(n, none if proof is None else proof, EXCHANGE, bits, "shop")


def test_a_key_has_the_size_asked_for_and_is_never_the_same(key: PrivateKey) -> None:
    assert key.n == key.p * key.q
    assert key.n.bit_length() == BITS
    assert rsa.make_key(BITS).n != key.n
    check(key.n, proof=rsa.proof_of(key, EXCHANGE))


def test_a_hash_is_uniform_enough_and_its_own_for_every_exchange_and_key(key: PrivateKey) -> None:
    """As said: 128 bits more than the modulus has, from SHAKE-256, with a domain of its own, modulo n."""
    length = (BITS + 128) // 8
    digest = hashlib.shake_256(b"unpooled align blind RSA v1 hash" + EXCHANGE + b"anna").digest(length)
    assert rsa.hashed(key.n, EXCHANGE, b"anna") == int.from_bytes(digest, "big") % key.n
    hashes = {int(rsa.hashed(key.n, exchange, k)) for exchange in (EXCHANGE, b"another") for k in KEYS}
    assert len(hashes) == 2 * len(KEYS)


def test_a_signature_is_the_private_power_in_plain_numbers(key: PrivateKey) -> None:
    d = private_exponent(key)
    values = [2, key.n - 2, *(secrets.randbelow(key.n - 3) + 2 for _ in range(20))]
    assert as_numbers(rsa.signed(key, "bank", as_rows(values))) == [pow(value, d, key.n) for value in values]


@pytest.mark.parametrize("bits", [BITS, 2048])
def test_a_blind_signature_gives_the_signers_own_tags(bits: int) -> None:
    key = rsa.make_key(bits)
    values, inverses = rsa.blinded(key.n, EXCHANGE, KEYS)
    tags = rsa.unblinded(key.n, EXCHANGE, "shop", (KEYS, inverses, rsa.signed(key, "bank", values)))
    assert tags.shape == (len(KEYS), TAG_BYTES)
    np.testing.assert_array_equal(tags, rsa.tags_of(key, EXCHANGE, KEYS))
    d, width = private_exponent(key), bits // 8
    signature = pow(int(rsa.hashed(key.n, EXCHANGE, b"anna")), d, key.n)
    by_hand = hashlib.sha256(b"unpooled align blind RSA v1 tag" + EXCHANGE + signature.to_bytes(width, "big")).digest()
    assert tags[0].tobytes() == by_hand


def test_blinding_is_fresh_every_time_and_comes_off_again(key: PrivateKey) -> None:
    first, inverses = rsa.blinded(key.n, EXCHANGE, [b"anna", b"anna"])
    values = as_numbers(first) + as_numbers(rsa.blinded(key.n, EXCHANGE, [b"anna"])[0])
    assert len(set(values)) == 3
    for value, inverse in zip(values, as_numbers(inverses), strict=False):
        assert value * pow(inverse, EXPONENT, key.n) % key.n == rsa.hashed(key.n, EXCHANGE, b"anna")


def test_tags_of_another_exchange_or_key_are_others(key: PrivateKey) -> None:
    tags = [
        *rsa.tags_of(key, EXCHANGE, KEYS),
        *rsa.tags_of(key, b"another", KEYS),
        *rsa.tags_of(rsa.make_key(BITS), EXCHANGE, KEYS),
    ]
    assert len({tag.tobytes() for tag in tags}) == 3 * len(KEYS)


# what is refused


def test_a_signature_with_any_bit_flipped_is_refused(key: PrivateKey) -> None:
    values, inverses = rsa.blinded(key.n, EXCHANGE, [b"anna"])
    signatures = rsa.signed(key, "bank", values)
    for bit in range(BITS):
        flipped = signatures.copy()
        flipped[0, bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError, match=r"shop.*\b1\b.*signature"):
            rsa.unblinded(key.n, EXCHANGE, "shop", ([b"anna"], inverses, flipped))


def test_a_value_that_was_not_signed_or_signed_with_another_key_is_refused(key: PrivateKey) -> None:
    values, inverses = rsa.blinded(key.n, EXCHANGE, KEYS)
    good = rsa.signed(key, "bank", values)
    other = rsa.make_key(BITS)
    others = as_rows([pow(value, private_exponent(other), other.n) for value in as_numbers(values)])
    for number, wrong in enumerate((values, others, np.zeros_like(values), np.full_like(values, 255)), start=1):
        signatures = good.copy()
        signatures[number - 1] = wrong[number - 1]
        with pytest.raises(ProtocolError, match=rf"shop.*\b{number}\b.*signature"):
            rsa.unblinded(key.n, EXCHANGE, "shop", (KEYS, inverses, signatures))


def test_signatures_of_another_exchange_or_in_another_order_are_refused(key: PrivateKey) -> None:
    values, inverses = rsa.blinded(key.n, EXCHANGE, KEYS)
    signatures = rsa.signed(key, "bank", values)
    with pytest.raises(ProtocolError, match=r"shop.*\b1\b"):
        rsa.unblinded(key.n, b"another", "shop", (KEYS, inverses, signatures))
    with pytest.raises(ProtocolError, match=r"shop.*\b1\b"):
        rsa.unblinded(key.n, EXCHANGE, "shop", (KEYS, inverses, signatures[::-1]))


def test_values_that_no_honest_party_sends_are_not_signed(key: PrivateKey) -> None:
    n = key.n
    for wrong in (0, 1, n - 1, n, n + 2, 2**BITS - 1, key.p, key.q, 5 * key.p, n - key.q):
        with pytest.raises(ProtocolError, match=r"bank.*\b3\b"):
            rsa.signed(key, "bank", as_rows([2, 3, wrong, 4]))


def test_a_modulus_of_another_size_or_sign_is_refused() -> None:
    for bits, size in ((BITS, 2048), (2048, BITS), (BITS, BITS + 8)):
        with pytest.raises(ProtocolError, match=rf"shop.*{size} bits"):
            check(rsa.make_key(bits).n, bits=size)
    for n in (0, 1, -5, -rsa.make_key(BITS).n):
        with pytest.raises(ProtocolError, match=rf"shop.*{BITS} bits"):
            check(n)


def prime(bits: int) -> int:
    """A prime of so many bits, in their upper half, so that a product of two has twice as many."""
    return int(gmpy2.next_prime(secrets.randbits(bits) | 0b11 << (bits - 2)))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: prime(BITS), id="a prime"),
        pytest.param(lambda: prime(BITS // 2) ** 2, id="the square of a prime"),
        pytest.param(lambda: 3 * prime(BITS - 2), id="three times a prime"),
        pytest.param(lambda: 65521 * prime(BITS - 16), id="the largest prime of 16 bits times a prime"),
        pytest.param(lambda: 2 ** (BITS - 1), id="a power of two"),
    ],
)
def test_a_modulus_that_no_honest_signer_makes_is_refused(made: Callable[[], int]) -> None:
    n = made()
    assert n.bit_length() == BITS
    with pytest.raises(ProtocolError, match=r"shop.*primes"):
        check(n)


def prime_with_a_factor_of_e() -> int:
    """A prime p for which 65537 divides p - 1: then r^65537 mod p is one of few numbers."""
    while True:
        candidate = 2 * EXPONENT * (secrets.randbits(BITS // 2 - 17) | 0b11 << (BITS // 2 - 19)) + 1
        if candidate.bit_length() == BITS // 2 and gmpy2.is_prime(candidate):
            return candidate


def test_a_modulus_that_would_undo_the_blinding_cannot_be_proved() -> None:
    p, n = 0, 0
    while n.bit_length() != BITS:
        p = prime_with_a_factor_of_e()
        n = p * prime_with_a_factor_of_e()
    blinded = [as_numbers(rsa.blinded(n, EXCHANGE, [id])[0])[0] for id in (b"anna", b"anna", b"bert")]
    seen = [pow(value, (p - 1) // EXPONENT, p) for value in blinded]
    assert seen[0] == seen[1] != seen[2]  # what the signer of such a key would see
    for proof in (as_rows([1] * 8), as_rows([int(rsa.hashed(n, EXCHANGE, bytes([i]))) for i in range(8)])):
        with pytest.raises(ProtocolError, match=r"shop.*proof"):
            check(n, proof=proof)


def test_a_proof_holds_for_its_key_and_exchange_alone(key: PrivateKey) -> None:
    proof = rsa.proof_of(key, EXCHANGE)
    check(key.n, proof=proof)
    with pytest.raises(ProtocolError, match=r"shop.*proof"):
        check(key.n, proof=rsa.proof_of(key, b"another"))
    with pytest.raises(ProtocolError, match=r"shop.*proof"):
        check(rsa.make_key(BITS).n, proof=proof)
    with pytest.raises(ProtocolError, match=r"shop.*proof"):
        check(key.n, proof=proof[::-1])
    for wrong in (proof[:7], proof[:, 1:], proof[0]):
        with pytest.raises(ProtocolError, match=r"shop.*proof"):
            check(key.n, proof=wrong)


def test_a_signature_that_came_out_wrong_does_not_leave(key: PrivateKey) -> None:
    """One half of the remainder theorem wrong, and the signature would give a factor of the modulus away."""
    faulty = PrivateKey(key.n, key.p, key.q, key.d_p ^ 4, key.d_q, key.q_inverse)
    leaked = gmpy2.gcd(pow(pow(7, key.d_q, key.q), EXPONENT, key.n) - 7, key.n)
    assert leaked == key.q
    with pytest.raises(ArithmeticError):
        rsa.signed(faulty, "bank", as_rows([5, 7, 11]))


def test_ids_are_not_blinded_with_a_key_of_small_factors() -> None:
    """Such a key can be proved; an id whose hash shares a factor with it would show."""
    small = [int(gmpy2.next_prime(2**17 + 1000 * i)) for i in range(60)]
    n = int(np.prod(np.array(small, object)))
    with pytest.raises(ProtocolError, match="factor"):
        rsa.blinded(n, EXCHANGE, [b"%d" % number for number in range(20_000)])  # some of them share a factor with it


def test_a_private_key_does_not_show_its_primes(key: PrivateKey) -> None:
    assert str(key.p) not in repr(key)
    assert str(key.d_q) not in repr(key)
