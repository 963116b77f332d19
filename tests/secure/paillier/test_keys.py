"""Paillier: what is computed on ciphertexts is what plain integers give, and bad keys and ciphertexts are refused."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import gmpy2
import numpy as np
import phe
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.secure.paillier.keys import (
    SECURE_BITS,
    SMALLEST_BITS,
    PrivateKey,
    PublicKey,
    add,
    add_many,
    centre,
    check_public,
    check_size,
    decrypt,
    encrypt,
    from_bytes,
    make_key,
    noise_table,
    noises,
    shift,
    to_bytes,
)

KEY = make_key(512, insecure=True)
OTHER = make_key(512, insecure=True)
N = int(KEY.public.n)
HALF = (N - 1) // 2

NUMBERS = st.one_of(st.integers(-HALF, HALF), st.integers(-1000, 1000), st.sampled_from([-HALF, -1, 0, 1, HALF]))
SMALL = st.integers(-(2**62), 2**62)
unhurried = settings(deadline=None)


@pytest.fixture(scope="module")
def full_key() -> PrivateKey:
    return make_key(SECURE_BITS)


def sealed(*numbers: int, key: PrivateKey = KEY) -> list[mpz]:
    return encrypt(key.public, numbers, noises(noise_table(key.public), len(numbers)))


def opened(*ciphertexts: mpz, key: PrivateKey = KEY) -> list[int]:
    return [int(number) for number in centre(key.public, decrypt(key, ciphertexts))]


def around_zero(number: int) -> int:
    return (number + HALF) % N - HALF


@unhurried
@given(st.lists(NUMBERS, max_size=4))
def test_numbers_come_back(numbers: list[int]) -> None:
    assert opened(*sealed(*numbers)) == numbers


def test_numbers_come_back_at_full_size(full_key: PrivateKey) -> None:
    half = (int(full_key.public.n) - 1) // 2
    numbers = [-half, -(2**1000), -1, 0, 1, 2**62, half]
    assert opened(*sealed(*numbers, key=full_key), key=full_key) == numbers


def test_decryption_gives_residues() -> None:
    assert decrypt(KEY, sealed(-1, 0, 1)) == [N - 1, 0, 1]
    assert centre(KEY.public, [N - 1, 0, 1, HALF, HALF + 1]) == [-1, 0, 1, HALF, -HALF]


def test_numbers_that_do_not_fit_are_refused_by_position() -> None:
    for number in (HALF + 1, -HALF - 1, N):
        with pytest.raises(InputError, match=r"\b1\b") as caught:
            sealed(5, number)
        assert str(number) not in str(caught.value)


def test_only_whole_numbers_are_encrypted() -> None:
    assert opened(*sealed(*np.array([2**62, -(2**62)]))) == [2**62, -(2**62)]
    with pytest.raises(TypeError):
        sealed(1.5)


def test_every_plaintext_needs_its_own_noise() -> None:
    with pytest.raises(ValueError):
        encrypt(KEY.public, [1, 2], noises(noise_table(KEY.public), 1))


@unhurried
@given(NUMBERS, NUMBERS)
def test_two_contents_are_added(first: int, second: int) -> None:
    assert opened(add(KEY.public, *sealed(first, second))) == [around_zero(first + second)]


@unhurried
@given(st.lists(SMALL, max_size=20))
def test_many_contents_are_added(numbers: list[int]) -> None:
    assert opened(add_many(KEY.public, sealed(*numbers))) == [sum(numbers)]


@unhurried
@given(NUMBERS, st.integers(0, 300))
def test_shifting_multiplies_by_a_power_of_two(number: int, bits: int) -> None:
    assert opened(shift(KEY.public, *sealed(number), bits)) == [around_zero(number << bits)]


def test_the_same_number_never_looks_the_same() -> None:
    assert len(set(sealed(*[7] * 100))) == 100


def test_another_key_opens_nothing() -> None:
    numbers = [0, 1, -1, 12345]
    found = opened(*sealed(*numbers), key=OTHER)
    assert all(one != other for one, other in zip(found, numbers, strict=True))


def test_the_table_gives_powers_of_the_noise_base(monkeypatch: pytest.MonkeyPatch) -> None:
    public = KEY.public
    for cover, size in ((False, 256), (True, 512 + 128)):
        drawn = bytes(range(7, 7 + size // 8))
        monkeypatch.setattr("secrets.token_bytes", {size // 8: drawn}.__getitem__)
        table = noise_table(public, cover=cover)
        exponent = int.from_bytes(drawn, "little")
        assert noises(table, 1) == [gmpy2.powmod(public.noise_base, exponent, public.n_squared)]


def test_noise_is_a_zero_and_of_none_there_is_none() -> None:
    for cover in (False, True):
        table = noise_table(KEY.public, cover=cover)
        made = noises(table, 20)
        assert decrypt(KEY, made) == [0] * 20
        assert len(set(made)) == 20
        assert noises(table, 0) == []


def test_the_table_is_made_once() -> None:
    again = PublicKey(int(KEY.public.n), int(KEY.public.noise_base))
    assert noise_table(again) is noise_table(KEY.public)


def test_worker_processes_make_their_own_table_and_noise() -> None:
    key = make_key(SMALLEST_BITS, insecure=True)
    table = noise_table(key.public)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(noise_table, key.public).result() == table
        made = [*pool.map(partial(noises, table), [3, 3]), noises(table, 3)]
        flat = [noise for batch in made for noise in batch]
        assert list(pool.submit(decrypt, key, flat).result()) == [0] * 9
    assert len(set(flat)) == 9


@pytest.mark.parametrize("bits", [256, 272, 512, 1040])
def test_a_key_has_the_properties_that_the_noise_needs(bits: int) -> None:
    key = make_key(bits, insecure=True)
    p, q, public = key.p, key.q, key.public
    assert public.n == p * q
    assert public.bits == bits
    assert public.width == bits // 4
    assert gmpy2.is_prime(p)
    assert gmpy2.is_prime(q)
    assert p % 4 == q % 4 == 3
    assert gmpy2.gcd(p - 1, q - 1) == 2
    # n-th powers vanish mod n² with the exponent that all numbers mod n have in common
    assert gmpy2.powmod(public.noise_base, (p - 1) * (q - 1), public.n_squared) == 1
    # -x² is a square mod neither prime, and stays so under the odd exponent n
    assert gmpy2.legendre(public.noise_base % p, p) == gmpy2.legendre(public.noise_base % q, q) == -1
    check_public(public, bits)


def test_keys_are_never_the_same() -> None:
    primes = {prime for _ in range(5) for key in [make_key(256, insecure=True)] for prime in (key.p, key.q)}
    assert len(primes) == 10


def test_a_key_of_the_usual_size(full_key: PrivateKey) -> None:
    assert full_key.public.bits == 2048
    assert full_key.public.width == 512
    check_public(full_key.public, 2048)


def test_the_primes_are_not_printed() -> None:
    assert str(KEY.p) not in repr(KEY)
    assert str(KEY.q) not in repr(KEY)


def test_keys_can_go_to_worker_processes() -> None:
    decrypt(KEY, sealed(1))  # fills in what is computed once
    assert pickle.loads(pickle.dumps(KEY)) == KEY  # noqa: S301


def test_short_keys_must_be_asked_for() -> None:
    for bits in (512, 1024, 2032):
        with pytest.raises(RefusedError, match=str(bits)):
            make_key(bits)
        check_size(bits, insecure=True)
    check_size(2048)
    check_size(3072)


@pytest.mark.parametrize("bits", [-16, 0, 128, 513, 2047, 2056])
def test_impossible_sizes_are_refused(bits: int) -> None:
    with pytest.raises(InputError, match=str(bits)):
        make_key(bits, insecure=True)


def prime_of(bits: int, residue: int) -> mpz:
    """The first prime ≡ residue mod 4 with both top bits set."""
    prime = gmpy2.next_prime(3 << bits - 2)
    while prime % 4 != residue:
        prime = gmpy2.next_prime(prime)
    return prime


WRONG_N = {
    "zero": (0, "512"),
    "negative": (-N, "512"),
    "short": (N >> 1, "512"),
    "long": (N << 1, "512"),
    "even": (N - 1, "≡ 3 mod 4"),
    "odd, but 3 mod 4": (N + 2, "≡ 3 mod 4"),
    "only one prime is 3 mod 4": (prime_of(256, 3) * prime_of(256, 1), "≡ 3 mod 4"),
    "prime": (prime_of(512, 1), "prime"),
    "square": (prime_of(256, 3) ** 2, "power"),
}


def test_a_wrong_n_is_refused() -> None:
    for n, words in WRONG_N.values():
        with pytest.raises(ProtocolError, match=words):
            check_public(PublicKey(n, KEY.public.noise_base), 512)


WRONG_BASE = {
    "zero": (0, "factor"),
    "negative": (-1, "factor"),
    "n²": (N * N, "factor"),
    "above n²": (N * N + 4, "factor"),
    "a prime factor": (KEY.p, "factor"),
    "a multiple of one": (KEY.q * 5, "factor"),
    "one": (1, "order"),
    "minus one": (N * N - 1, "order"),
    "no noise at all": (1 + 5 * N, "order"),
    "Jacobi symbol -1": (next(x for x in range(2, 1000) if gmpy2.jacobi(x, N) == -1), "Jacobi"),
}


def test_a_wrong_noise_base_is_refused() -> None:
    for base, words in WRONG_BASE.values():
        with pytest.raises(ProtocolError, match=words):
            check_public(PublicKey(KEY.public.n, base), 512)


def test_ciphertexts_travel(full_key: PrivateKey) -> None:
    for key in (KEY, full_key):
        ciphertexts = [*sealed(1, -2, 3, key=key), mpz(1), key.public.n_squared - 1]
        array = to_bytes(key.public, ciphertexts)
        assert array.dtype == np.uint8
        assert array.shape == (5, key.public.width)
        assert from_bytes(key.public, array) == ciphertexts
        assert from_bytes(key.public, np.asfortranarray(array)) == ciphertexts


def test_no_ciphertexts_travel_too() -> None:
    array = to_bytes(KEY.public, [])
    assert array.shape == (0, KEY.public.width)
    assert from_bytes(KEY.public, array) == []


NO_CIPHERTEXTS = {
    "zero": 0,
    "n": N,
    "n²": N * N,
    "above n²": N * N + 1,
    "all ones": 2**1024 - 1,
    "a prime factor": KEY.p,
    "a multiple of one": KEY.q * 3,
}


@pytest.mark.parametrize("position", [0, 3])
@pytest.mark.parametrize("case", NO_CIPHERTEXTS)
def test_what_is_no_ciphertext_is_refused_by_position(case: str, position: int) -> None:
    ciphertexts = sealed(1, 2, 3, 4, 5)
    ciphertexts[position] = mpz(NO_CIPHERTEXTS[case])
    array = to_bytes(KEY.public, ciphertexts)
    with pytest.raises(ProtocolError, match=rf"ciphertext {position}\b"):
        from_bytes(KEY.public, array)


def test_rows_of_another_size_are_refused() -> None:
    good = to_bytes(KEY.public, sealed(1, 2))
    for array in (good[:, :-1], good[0], good.reshape(1, 2, -1), good.view(np.int8), good.view(np.uint16)):
        with pytest.raises(ProtocolError, match="128"):
            from_bytes(KEY.public, array)


@pytest.mark.parametrize("size", ["short", "full"])
def test_another_implementation_agrees(size: str, full_key: PrivateKey) -> None:
    ours = KEY if size == "short" else full_key
    n = int(ours.public.n)
    theirs_public = phe.PaillierPublicKey(n)
    theirs = phe.PaillierPrivateKey(theirs_public, int(ours.p), int(ours.q))
    numbers = [0, 1, -1, 2**200, -(2**200), (n - 1) // 2]

    from_us = sealed(*numbers, key=ours)
    assert [theirs.raw_decrypt(int(c)) for c in from_us] == [number % n for number in numbers]

    from_them = [mpz(theirs_public.raw_encrypt(number % n)) for number in numbers]
    assert opened(*from_them, key=ours) == numbers

    mixed = add(ours.public, shift(ours.public, from_us[1], 62), add_many(ours.public, [from_them[4]] * 5))
    assert centre(ours.public, [theirs.raw_decrypt(int(mixed))]) == [2**62 - 5 * 2**200]
