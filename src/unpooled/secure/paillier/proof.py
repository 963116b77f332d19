"""A proof that a Paillier key can decrypt: that x → xⁿ is a permutation mod n, which is to say gcd(n, φ(n)) = 1.

After Goldberg, Reyzin, Sagga and Baldimtsi (2018), and Gennaro, Micciancio and Rabin (1998): a hash of the key and of
who uses it gives random numbers mod n, and the owner sends the n-th root of each. If a prime divides both n and φ(n),
one number at most in as many as that prime has an n-th root at all. No prime below 2^20 divides n, which the receiver
has tried, so that a false proof of seven roots passes with a chance below 2^-128. The roots tell nothing else:
anybody can make such pairs by drawing roots first and taking their n-th powers as the numbers.

What it proves: n is no multiple of a square, every ciphertext has one content, and adding ciphertexts adds contents.
What it does not: that n has two prime factors, that these are long, or that they are secret. Short ones are looked for
(`small_factor`), which finds those up to 25 bits. An owner that makes an n which others can factor shows them
everybody's inputs, as it does by handing out the key: that is collusion, which is ruled out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import gmpy2
from gmpy2 import mpz

from unpooled.errors import ProtocolError
from unpooled.secure.paillier.keys import PrivateKey, PublicKey, numbers_from

TRIED_BITS = 20
"""Every prime below 2^20 is tried. For 2^22 the receiver takes 0.2 s longer, and one root is saved."""

ROOTS = -(-128 // TRIED_BITS)

_WALK = 2**15  # steps: a factor of 25 bits shows after some thousand
_AT_ONCE = 2**8


def prove(private: PrivateKey, context: str) -> tuple[int, ...]:
    """The n-th roots of the numbers that a key and its context give; whose context it is cannot be changed."""
    p, q, n = private.p, private.q, private.public.n
    to_p, to_q = gmpy2.invert(n, p - 1), gmpy2.invert(n, q - 1)
    roots = []
    for number in _challenges(private.public, context):
        mod_p, mod_q = gmpy2.powmod_sec(number, to_p, p), gmpy2.powmod_sec(number, to_q, q)
        roots.append(int(mod_p + p * ((mod_q - mod_p) * private.p_inverse % q)))
    return tuple(roots)


def check_proof(public: PublicKey, roots: Sequence[int], context: str) -> None:
    """Refuse a key whose owner cannot take n-th roots, and one with a small factor."""
    if small_factor(public.n):
        raise ProtocolError("the key's n has a small factor")
    if len(roots) != ROOTS or not all(0 < root < public.n for root in roots):
        raise ProtocolError(f"the key's proof must have {ROOTS} numbers below n")
    for root, number in zip(roots, _challenges(public, context), strict=True):
        if gmpy2.powmod(root, public.n, public.n) != number:
            raise ProtocolError("the key's proof is wrong: n may share a factor with φ(n)")


def small_factor(n: mpz) -> int:
    """A factor of n: always found if a prime below 2^20 divides n, nearly always if one of up to 25 bits does; or 0.

    Larger ones are looked for by Pollard's rho, whose walk repeats itself modulo a factor long before it does modulo n.
    """
    if (found := gmpy2.gcd(n, _primes_tried())) != 1:
        return int(found)
    ahead = mpz(2)
    for begin in range(0, _WALK, _AT_ONCE):
        if begin & (begin - 1) == 0:  # at powers of two: a cycle is noticed once it is shorter than the way from here
            behind = ahead
        product = mpz(1)
        for _ in range(_AT_ONCE):
            ahead = (ahead * ahead + 1) % n
            product = product * (ahead - behind) % n
        if (found := gmpy2.gcd(product, n)) != 1:
            return int(found)
    return 0


@lru_cache(maxsize=1)
def _primes_tried() -> mpz:
    return gmpy2.primorial(2**TRIED_BITS)


def _challenges(public: PublicKey, context: str) -> list[mpz]:
    """Numbers mod n that nobody chooses."""
    stated = f"unpooled Paillier key {context} {public.n:x} {public.noise_base:x}"
    return numbers_from(public, hashlib.shake_256(stated.encode()).digest, ROOTS)
