"""A Paillier key comes with a proof that it can decrypt; others, and those with a small factor, are refused."""

from __future__ import annotations

import secrets
from dataclasses import replace

import gmpy2
import pytest
from gmpy2 import mpz

from unpooled.errors import ProtocolError
from unpooled.secure.paillier.key_holder import SharedKey, key_from
from unpooled.secure.paillier.keys import PrivateKey, make_key
from unpooled.secure.paillier.proof import ROOTS, TRIED_BITS, prove, small_factor

CONTEXT = "coordinator, for telco and bank"
KEY = make_key(512, insecure=True)


def prime(bits: int, residue: int = 3) -> mpz:
    """A prime ≡ residue mod 4 with both top bits set."""
    while True:
        found = gmpy2.next_prime(secrets.randbits(bits) | 3 << bits - 2)
        if found % 4 == residue and found.bit_length() == bits:
            return found


def shared(key: PrivateKey, context: str = CONTEXT) -> SharedKey:
    return SharedKey(int(key.public.n), int(key.public.noise_base), prove(key, context))


def made_of(*primes: mpz) -> SharedKey:
    """A key whose n has these factors, with the best proof there is: true roots wherever there are any."""
    n = mpz(1)
    for each in primes:
        n *= each
    x = mpz(secrets.randbelow(int(n)))
    base = gmpy2.powmod(-x * x % n, n, n * n)
    if len(primes) == 2 and primes[0] != primes[1]:
        return shared(PrivateKey(replace(KEY.public, n=n, noise_base=base), *primes))
    return SharedKey(int(n), int(base), tuple(secrets.randbelow(int(n)) for _ in range(ROOTS)))


def take(key: SharedKey) -> None:
    key_from(key, key.n.bit_length(), "coordinator", CONTEXT)


def test_a_key_that_was_made_as_it_should_be_is_taken() -> None:
    take(shared(KEY))
    take(made_of(prime(250), prime(262)))


@pytest.mark.parametrize("bits", [17, 18, 20, 22, 25])
def test_an_n_with_a_small_factor_is_refused(bits: int) -> None:
    """Its owner can take roots, so that a proof alone would not show it."""
    with pytest.raises(ProtocolError, match=r"coordinator.*factor"):
        take(made_of(prime(bits), prime(512 - bits)))


def test_all_primes_below_the_bound_are_found() -> None:
    last = gmpy2.prev_prime(2**TRIED_BITS)
    assert small_factor(last * prime(256)) == last
    assert small_factor(prime(256) * prime(256)) == 0


def test_a_multiple_of_a_square_is_refused() -> None:
    """Where n = p²q, p divides φ(n): numbers that differ are the same when raised, and so are ciphertexts."""
    p, q = prime(170), prime(172, residue=1)
    assert p * p * q % 4 == 1
    with pytest.raises(ProtocolError, match=r"coordinator.*proof"):
        take(made_of(p, p, q))


@pytest.mark.parametrize(
    ("n", "words"),
    [
        ((prime(256) * prime(256)) & ~1, "≡ 3 mod 4"),
        (prime(512, residue=1), "prime"),
        (prime(256) ** 2, "power"),
    ],
    ids=["even", "prime", "square"],
)
def test_what_is_no_product_of_two_primes_is_refused(n: mpz, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        take(replace(shared(KEY), n=int(n)))


def test_a_proof_is_for_one_key_and_one_context() -> None:
    good, other = shared(KEY), shared(make_key(512, insecure=True))
    for roots in (other.roots, shared(KEY, "somebody else").roots, good.roots[::-1]):
        with pytest.raises(ProtocolError, match=r"coordinator.*proof"):
            take(replace(good, roots=roots))
    for roots in (
        (),
        good.roots[1:],
        (*good.roots, 1),
        (0, *good.roots[1:]),
        (good.roots[0] + good.n, *good.roots[1:]),
    ):
        with pytest.raises(ProtocolError, match=r"coordinator.*proof"):
            take(replace(good, roots=roots))
