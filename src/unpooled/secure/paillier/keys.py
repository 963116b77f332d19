"""Paillier's cryptosystem: anybody with the public key can encrypt and add, and only the owner of the key can decrypt.

A ciphertext of m is (1 + m n) · noise mod n². Multiplying ciphertexts adds what is in them. The noise is made after
Damgård, Jurik and Nielsen: p ≡ q ≡ 3 mod 4, gcd(p-1, q-1) = 2, h = -x² mod n, and the noise is (hⁿ)^r mod n² for a
random r of half as many bits as n. All noise is powers of one number, so one table of its powers serves for all.

What it rests on: n-th powers mod n² look like any other numbers to those who cannot factor n (the decisional composite
residuosity assumption), and powers of h with so short an exponent look like all its powers (Damgård, Jurik and
Nielsen's assumption). The owner of the key sees a ciphertext's noise as well as its content: what was computed from
ciphertexts is multiplied with an encrypted mask under covering noise (see `noise_table`) before it goes to the owner.
`add`, `add_many` and `shift` make no noise of their own.

Ciphertexts are lists of `mpz`. Decryption raises to the secret exponents in constant time. Looking up noise in a
table may show in the processor's caches, and so to other programs on the same machine.

>>> key = make_key(512, insecure=True)
>>> first, second = encrypt(key.public, [20, -62], noises(noise_table(key.public), 2))
>>> [int(total) for total in centre(key.public, decrypt(key, [add(key.public, first, second)]))]
[-42]
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import index
from typing import NamedTuple

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from unpooled.arrays import Bytes
from unpooled.errors import InputError, ProtocolError, RefusedError

SECURE_BITS = 2048
SMALLEST_BITS = 256
COVER_BITS = 128
TEETH, BLOCKS = 8, 8
"""The comb from which noise is put together; larger ones take a larger table for a tenth less time at most."""

_ROUNDS = 40
"""GMP runs the Baillie-PSW test, which no known composite passes, and a Miller-Rabin round for each one above 24."""

_SPARE_BITS = 128


@dataclass(frozen=True)
class PublicKey:
    """What everybody may know: n, and hⁿ mod n², of which all noise is a power."""

    n: mpz
    noise_base: mpz

    def __post_init__(self) -> None:
        """Numbers from a message are Python's own, with which every operation would be slower."""
        object.__setattr__(self, "n", mpz(self.n))
        object.__setattr__(self, "noise_base", mpz(self.noise_base))

    @cached_property
    def n_squared(self) -> mpz:
        return self.n**2

    @property
    def bits(self) -> int:
        return int(self.n.bit_length())

    @property
    def width(self) -> int:
        """How many bytes a ciphertext takes."""
        return (int(self.n_squared.bit_length()) + 7) // 8


@dataclass(frozen=True)
class PrivateKey:
    """The public key and the two primes whose product n is."""

    public: PublicKey
    p: mpz = field(repr=False)
    q: mpz = field(repr=False)

    @cached_property
    def p_inverse(self) -> mpz:
        """1/p mod q."""
        return gmpy2.invert(self.p, self.q)

    @cached_property
    def q_inverse(self) -> mpz:
        """1/q mod p."""
        return gmpy2.invert(self.q, self.p)


def check_size(bits: int, *, insecure: bool = False) -> None:
    """Refuse sizes that keys do not have, and those that can be broken unless that is asked for."""
    if bits % 16 or bits < SMALLEST_BITS:
        raise InputError(f"{bits} bits: a key has a multiple of 16 bits, and at least {SMALLEST_BITS}")
    if bits < SECURE_BITS and not insecure:
        raise RefusedError(f"a key of {bits} bits can be broken: use {SECURE_BITS} or more, or set insecure for trials")


def make_key(bits: int, *, insecure: bool = False) -> PrivateKey:
    """Make a key whose n has exactly `bits` bits."""
    check_size(bits, insecure=insecure)
    p = _prime(bits // 2)
    q = _prime(bits // 2)
    while gmpy2.gcd(p - 1, q - 1) != 2:  # which p = q does not pass either
        q = _prime(bits // 2)
    n = p * q
    x = mpz(secrets.randbelow(int(n)))
    while gmpy2.gcd(x, n) != 1:
        x = mpz(secrets.randbelow(int(n)))
    h = -x * x % n
    return PrivateKey(PublicKey(n, gmpy2.powmod(h, n, n * n)), p, q)


def _prime(bits: int) -> mpz:
    """A prime ≡ 3 mod 4, each as likely as any other. Both top bits are set: a product of two has full length."""
    while True:
        candidate = mpz(secrets.randbits(bits) | 3 << bits - 2 | 3)
        if gmpy2.is_prime(candidate, _ROUNDS):
            return candidate


def check_public(key: PublicKey, bits: int) -> None:
    """Refuse a received key that was not made as `make_key` makes them, as far as that shows without the primes.

    That it can decrypt, and that n has no small factor, `proof` shows. What does not show: that n has two
    prime factors and no more, that they were drawn at random, and that the noise base is an n-th power. Such a key
    protects less against third parties; its owner can read whatever is encrypted with it in any case.
    """
    n, base = key.n, key.noise_base
    if n < 1 or key.bits != bits:
        raise ProtocolError(f"the key's n must have exactly {bits} bits")
    if n % 4 != 1:
        raise ProtocolError("the key's n is not the product of two primes ≡ 3 mod 4")
    if gmpy2.is_prime(n, _ROUNDS):
        raise ProtocolError("the key's n is a prime")
    if gmpy2.is_power(n):
        raise ProtocolError("the key's n is a power of another number")
    if not 0 < base < key.n_squared or gmpy2.gcd(base, n) != 1:
        raise ProtocolError("the key's noise base is not a number below n² without a factor of n")
    if base % n in (1, n - 1):
        raise ProtocolError("the key's noise base has too small an order: its noise would hide nothing")
    if gmpy2.jacobi(base % n, n) != 1:
        raise ProtocolError("the key's noise base does not have the Jacobi symbol 1")


def numbers_from(public: PublicKey, draw: Callable[[int], bytes], count: int) -> list[mpz]:
    """Numbers mod n from random bytes; each is drawn with 128 bits more than n has, so it is as good as uniform."""
    width = (public.bits + _SPARE_BITS) // 8
    return [number % public.n for number in numbers_in(draw(count * width), width)]


class Comb(NamedTuple):
    """The bits of an exponent stand in `teeth` lines of `blocks` times `depth`, and a digit is one bit of each line.

    `powers_in` has a power of the noise base for every digit of block j: for every bit i that the digit has, the base
    is raised by 2 to the power of i · blocks · depth + j · depth.
    """

    teeth: int
    blocks: int
    depth: int

    def digits(self, exponents: bytes, count: int) -> NDArray[np.uint32]:
        """The digits of so many exponents, the highest line first: exponents × depth × blocks."""
        drawn = np.frombuffer(exponents, np.uint8).reshape(count, len(exponents) // max(count, 1))
        bits = np.unpackbits(drawn, axis=1, count=self.teeth * self.blocks * self.depth, bitorder="little")
        lines = bits.reshape(count, self.teeth, self.blocks, self.depth)
        digits = np.zeros((count, self.blocks, self.depth), np.uint32)
        for tooth in range(self.teeth):
            digits |= lines[:, tooth].astype(np.uint32) << np.uint32(tooth)
        return digits[:, :, ::-1].swapaxes(1, 2)


@dataclass(frozen=True)
class NoiseTable:
    """Powers of the noise base: `entries[j][digit]` is low and slope, for low · (1 + slope · n) mod n².

    In a product slopes are just added, and low is half as long as a ciphertext.
    """

    public: PublicKey
    exponent_bytes: int
    comb: Comb
    entries: tuple[tuple[tuple[mpz, mpz], ...], ...]


def exponent_bits(public: PublicKey, *, cover: bool = False) -> int:
    """How long the exponents of noise are.

    Half as many bits as n has are enough to encrypt. With `cover` there are `COVER_BITS` more than n has: the noise is
    then as good as any power of the base, and covers the noise it is multiplied with even from the owner of the key.
    Short noise would not: an owner who can take discrete logarithms mod p would see the sum of all exponents, whose
    length tells how many were added.
    """
    return public.bits + COVER_BITS if cover else public.bits // 2


@lru_cache(maxsize=4)
def noise_table(public: PublicKey, *, cover: bool = False) -> NoiseTable:
    """The powers of the noise base from which noise is put together.

    It takes 2,048 times the size of a ciphertext, 1 MiB at 2048 bits. It is made once per process and key: hand worker
    processes the key, and let each ask for the table.
    """
    bits = exponent_bits(public, cover=cover)
    comb = Comb(TEETH, BLOCKS, -(-bits // (TEETH * BLOCKS)))
    return NoiseTable(public, bits // 8, comb, tuple(powers_in(public, comb)))


def powers_in(public: PublicKey, comb: Comb, first: int = 1) -> Iterator[tuple[tuple[mpz, mpz], ...]]:
    """Block by block the powers of all digits, each times `first`."""
    n, powers = public.n, [public.noise_base]
    while len(powers) < comb.teeth * comb.blocks:
        powers.append(shift(public, powers[-1], comb.depth))
    for block in range(comb.blocks):
        entries = [_sloped(public, mpz(first))]
        for power in powers[block :: comb.blocks]:
            low, slope, inverse = _sloped(public, power)
            for other_low, other_slope, other_inverse in tuple(entries):
                carry, product = divmod(low * other_low, n)
                product_inverse = inverse * other_inverse % n
                entries.append((product, (slope + other_slope + carry * product_inverse) % n, product_inverse))
        yield tuple((low, slope) for low, slope, _ in entries)


def _sloped(public: PublicKey, number: mpz) -> tuple[mpz, mpz, mpz]:
    """low and slope of low · (1 + slope · n), and 1/low mod n."""
    high, low = divmod(number, public.n)
    inverse = gmpy2.invert(low, public.n)
    return low, high * inverse % public.n, inverse


def noises(table: NoiseTable, count: int, exponents: bytes | None = None) -> list[mpz]:
    """Noise for `count` ciphertexts, fresh or with given exponents; each must be used only once."""
    n, n_squared = table.public.n, table.public.n_squared
    digits = table.comb.digits(exponents or secrets.token_bytes(count * table.exponent_bytes), count)
    made = []
    for places in digits.tolist():
        noise, slopes = mpz(1), mpz(0)
        for place in places:
            noise, slopes = noise * noise % n_squared, 2 * slopes
            for entries, digit in zip(table.entries, place, strict=True):
                low, slope = entries[digit]
                noise = noise * low % n_squared
                slopes += slope
        made.append(noise * (1 + slopes % n * n) % n_squared)
    return made


def encrypt(public: PublicKey, plaintexts: Iterable[int], noises: Iterable[mpz]) -> list[mpz]:
    """Encrypt whole numbers between -n/2 and n/2, each with its own noise."""
    n, n_squared = public.n, public.n_squared
    made = []
    for position, (plaintext, noise) in enumerate(zip(plaintexts, noises, strict=True)):
        m = mpz(index(plaintext))  # numpy's integers would overflow on the way
        if not -n < 2 * m < n:
            raise InputError(f"plaintext {position} is not between -n/2 and n/2")
        made.append((1 + m * n) * noise % n_squared)
    return made


def decrypt(private: PrivateKey, ciphertexts: Iterable[mpz]) -> list[mpz]:
    """What is in the ciphertexts, mod n, as masked values want it; `centre` makes signed numbers of it.

    mod p² the noise vanishes with the exponent p-1, and c^(p-1) = 1 + m (p-1) n = 1 - m q p; mod q² likewise. The two
    halves are put together by the Chinese remainder theorem.
    """
    p, q, p_inverse, q_inverse = private.p, private.q, private.p_inverse, private.q_inverse
    p_squared, q_squared = p * p, q * q
    found = []
    for c in ciphertexts:
        mod_p = (1 - gmpy2.powmod_sec(c % p_squared, p - 1, p_squared)) // p * q_inverse % p
        mod_q = (1 - gmpy2.powmod_sec(c % q_squared, q - 1, q_squared)) // q * p_inverse % q
        found.append(mod_p + p * ((mod_q - mod_p) * p_inverse % q))
    return found


def centre(public: PublicKey, residues: Iterable[int]) -> list[mpz]:
    """Numbers mod n as the ones between -n/2 and n/2."""
    n, half = public.n, public.n // 2
    return [(residue + half) % n - half for residue in residues]


def add(public: PublicKey, a: mpz, b: mpz) -> mpz:
    """The sum of two ciphertexts' contents."""
    return a * b % public.n_squared


def add_many(public: PublicKey, ciphertexts: Iterable[mpz]) -> mpz:
    """The sum of any number of ciphertexts' contents; of none it is 1, which is a zero without noise."""
    n_squared, total = public.n_squared, mpz(1)
    for c in ciphertexts:
        total = total * c % n_squared
    return total


def shift(public: PublicKey, c: mpz, bits: int) -> mpz:
    """The content times 2^bits; the time it takes grows with `bits`.

    Squaring low + high · n in halves, where what is above n² drops out, takes a quarter less than squaring it whole.
    """
    n = public.n
    high, low = divmod(c, n)
    for _ in range(bits):
        middle = high * low
        carry, low = divmod(low * low, n)
        high = (carry + 2 * middle) % n
    return low + high * n


def to_bytes(public: PublicKey, ciphertexts: Sequence[mpz]) -> Bytes:
    """Ciphertexts as they travel: one row each, lowest byte first."""
    return _as_rows(ciphertexts, public.width)


def from_bytes(public: PublicKey, array: Bytes) -> list[mpz]:
    """Ciphertexts that arrived; what cannot be one under this key is refused."""
    n, n_squared = public.n, public.n_squared
    ciphertexts = _in_rows(array, public.width, "ciphertexts")
    product = mpz(1)
    for c in ciphertexts:
        product = product * c % n
    if gmpy2.gcd(product, n) != 1 or not all(c < n_squared for c in ciphertexts):
        fault = next(i for i, c in enumerate(ciphertexts) if c >= n_squared or gmpy2.gcd(c, n) != 1)
        raise ProtocolError(f"ciphertext {fault} is not valid under this key")
    return ciphertexts


def residues_to_bytes(public: PublicKey, residues: Sequence[mpz]) -> Bytes:
    """Numbers mod n as they travel: one row each, lowest byte first."""
    return _as_rows(residues, public.bits // 8)


def residues_from_bytes(public: PublicKey, array: Bytes) -> list[mpz]:
    residues = _in_rows(array, public.bits // 8, "numbers mod n")
    for position, residue in enumerate(residues):
        if residue >= public.n:
            raise ProtocolError(f"number {position} is not below n")
    return residues


def numbers_in(data: bytes, width: int) -> list[mpz]:
    """Numbers of `width` bytes each, lowest byte first."""
    return [mpz.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


def _as_rows(numbers: Sequence[mpz], width: int) -> Bytes:
    data = b"".join(mpz(number).to_bytes(width, "little") for number in numbers)
    return np.frombuffer(data, np.uint8).reshape(len(numbers), width)


def _in_rows(array: Bytes, width: int, what: str) -> list[mpz]:
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
        raise ProtocolError(f"{what} must be rows of {width} bytes")
    return numbers_in(array.tobytes(), width)
