"""The arithmetic of blind RSA signatures (De Cristofaro and Tsudik 2010), on lists, for worker processes.

A signature of an id is H(id)^d mod n; a hash of the signature is the id's tag. A party without d needs the signer for
every id. The signer sees H(id)·r^e for a random r, which is uniformly random, since it has proved that every number is
an e-th power.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from itertools import accumulate

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.asymmetric import rsa
from gmpy2 import mpz

from unpooled.arrays import Bytes
from unpooled.errors import ProtocolError

EXPONENT = 65537
TAG_BYTES = 32
_SPARE_BITS = 128
_HASH, _TAG = b"unpooled align blind RSA v1 hash", b"unpooled align blind RSA v1 tag"
_PROOF = b"unpooled align blind RSA v1 proof"
_ROOTS = 8
_SMALL_FACTORS = gmpy2.primorial(2**16)


@dataclass(frozen=True)
class PrivateKey:
    """The numbers for signing with the Chinese remainder theorem."""

    n: int
    p: int = field(repr=False)
    q: int = field(repr=False)
    d_p: int = field(repr=False)
    d_q: int = field(repr=False)
    q_inverse: int = field(repr=False)


def make_key(bits: int) -> PrivateKey:
    made = rsa.generate_private_key(EXPONENT, bits).private_numbers()
    return PrivateKey(made.p * made.q, made.p, made.q, made.dmp1, made.dmq1, made.iqmp)


def proof_of(private: PrivateKey, exchange: bytes) -> Bytes:
    """A proof that every number has an e-th root: the roots of a few that nobody chose."""
    roots = _powers(private, _challenges(private.n, exchange))
    return _rows([_bytes(root, width_of(private.n)) for root in roots])


def check_key(n: int, proof: Bytes, exchange: bytes, bits: int, sender: str) -> None:
    """Refuse a modulus of the wrong size, or that no honest signer would have made.

    Were 65537 a divisor of p - 1, powers of it would miss most numbers, and blinding would not hide them: then a number
    that nobody chose has a root with a chance of 1 in 65537, and all eight of them with one of 1 in 2^128.
    """
    if n < 0 or n.bit_length() != bits:
        raise ProtocolError(f"invalid key from {sender}: it does not have the plan's {bits} bits")
    if gmpy2.gcd(n, _SMALL_FACTORS) != 1 or gmpy2.is_prime(n) or gmpy2.is_power(n):
        raise ProtocolError(f"invalid key from {sender}: it is not the product of two large primes")
    if proof.shape != (_ROOTS, width_of(n)):
        raise ProtocolError(f"invalid key from {sender}: its proof has the wrong size")
    challenges = _challenges(n, exchange)
    if any(gmpy2.powmod(root, EXPONENT, n) != x for root, x in zip(_numbers(proof), challenges, strict=True)):
        raise ProtocolError(f"invalid key from {sender}: its proof is wrong, so blinding might not hide ids")


def _challenges(n: int, exchange: bytes) -> list[mpz]:
    modulus = _bytes(mpz(n), width_of(n))
    return [_below(n, _PROOF + exchange + modulus + bytes([number])) for number in range(_ROOTS)]


def width_of(n: int) -> int:
    """The bytes of a value."""
    return (n.bit_length() + 7) // 8


def hashed(n: int, exchange: bytes, key: bytes) -> mpz:
    """A key hashed to a number below n."""
    return _below(n, _HASH + exchange + key)


def _below(n: int, data: bytes) -> mpz:
    """Data hashed to a number below n; 128 bits more than n make it practically uniform."""
    length = (n.bit_length() + _SPARE_BITS + 7) // 8
    return mpz(int.from_bytes(hashlib.shake_256(data).digest(length), "big")) % n


def tags_of(private: PrivateKey, exchange: bytes, keys: Sequence[bytes]) -> Bytes:
    signatures = _powers(private, [hashed(private.n, exchange, key) for key in keys])
    return _rows([_tag(private.n, exchange, signature) for signature in signatures])


def signed(private: PrivateKey, sender: str, values: Bytes) -> Bytes:
    """Signatures of blinded values; one out of range, or that shares a factor with n, is refused."""
    n, numbers = mpz(private.n), _numbers(values)
    if gmpy2.gcd(_product(numbers, n), n) != 1 or not all(1 < value < n - 1 for value in numbers):
        wrong = [not 1 < value < n - 1 or gmpy2.gcd(value, n) != 1 for value in numbers]
        place = wrong.index(True) + 1
        raise ProtocolError(f"invalid BlindedIds from {sender}: value {place} of a chunk is out of range")
    return _rows([_bytes(signature, values.shape[1]) for signature in _powers(private, numbers)])


def blinded(n: int, exchange: bytes, keys: Sequence[bytes]) -> tuple[Bytes, Bytes]:
    """Keys hashed and blinded, each by a fresh random factor, and the factors' inverses."""
    modulus, width = mpz(n), width_of(n)
    factors = [mpz(2 + secrets.randbelow(n - 3)) for _ in keys]
    values = [
        hashed(n, exchange, key) * gmpy2.powmod(factor, EXPONENT, modulus) % modulus
        for key, factor in zip(keys, factors, strict=True)
    ]
    if gmpy2.gcd(_product(values, modulus), modulus) != 1:
        raise ProtocolError("invalid key: it has a small factor, so blinding does not hide every id")
    inverses = _inverses(factors, modulus)
    return _rows([_bytes(value, width) for value in values]), _rows([_bytes(inverse, width) for inverse in inverses])


def _inverses(factors: Sequence[mpz], n: mpz) -> list[mpz]:
    """1/x mod n of each; only the product of all is inverted, since inverting is slow."""
    before = list(accumulate(factors, lambda a, b: a * b % n, initial=mpz(1)))
    rest = gmpy2.invert(before[-1], n)
    inverses = []
    for factor, product in zip(reversed(factors), reversed(before[:-1]), strict=True):
        inverses.append(rest * product % n)
        rest = rest * factor % n
    return inverses[::-1]


def unblinded(n: int, exchange: bytes, signer: str, work: tuple[Sequence[bytes], Bytes, Bytes]) -> Bytes:
    """The tags of keys, from the inverses of their factors and the signatures; a wrong signature is refused."""
    keys, inverses, signatures = work
    modulus = mpz(n)
    tags = []
    for number, (key, inverse, signature) in enumerate(
        zip(keys, _numbers(inverses), _numbers(signatures), strict=True), start=1
    ):
        value = signature * inverse % modulus
        if gmpy2.powmod(value, EXPONENT, modulus) != hashed(n, exchange, key):
            raise ProtocolError(f"invalid Signatures from {signer}: value {number} of a chunk is not a valid signature")
        tags.append(_tag(n, exchange, value))
    return _rows(tags)


def _powers(private: PrivateKey, values: Sequence[mpz]) -> list[mpz]:
    """value^d mod n, in time that does not depend on d.

    All are checked together before any is sent, since a signature with one wrong half reveals the key.
    """
    n, p, q, d_p, d_q, q_inverse = map(mpz, astuple(private))
    signatures = []
    for value in values:
        from_p = gmpy2.powmod_sec(value % p, d_p, p)
        from_q = gmpy2.powmod_sec(value % q, d_q, q)
        signatures.append(from_q + (from_p - from_q) * q_inverse % p * q)
    if gmpy2.powmod(_product(signatures, n), EXPONENT, n) != _product(values, n):
        raise ArithmeticError("a signature is wrong: this machine makes arithmetic errors")
    return signatures


def _product(numbers: Sequence[mpz], n: mpz) -> mpz:
    total = mpz(1)
    for number in numbers:
        total = total * number % n
    return total


def _tag(n: int, exchange: bytes, signature: mpz) -> bytes:
    return hashlib.sha256(_TAG + exchange + _bytes(signature, width_of(n))).digest()


def _bytes(value: mpz, width: int) -> bytes:
    return int(value).to_bytes(width, "big")


def _numbers(values: Bytes) -> list[mpz]:
    return [mpz(int.from_bytes(row.tobytes(), "big")) for row in values]


def _rows(values: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
