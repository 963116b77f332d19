"""Compiled loops: what they compute on ciphertexts is what gmpy2 gives, to the bit."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled import compiled
from unpooled.secure.paillier import keys, limbs
from unpooled.secure.paillier import sums as paillier_sums
from unpooled.secure.paillier.keys import PublicKey
from unpooled.secure.paillier.layout import Layout
from unpooled.secure.paillier.noise import NoiseStock, made

KEY = keys.make_key(512, insecure=True).public
ODD = keys.make_key(272, insecure=True).public
FULL = keys.make_key(keys.SECURE_BITS).public
ONES = PublicKey(mpz(2) ** 8192 - 1, mpz(2))  # the longest n, and no limb of it could be larger

unhurried = settings(deadline=None, max_examples=50)


def rows_of(public: PublicKey, numbers: list[Any], words: int = 1) -> np.ndarray:
    """Ciphertexts as they are kept."""
    return keys.to_bytes(public, numbers).reshape(-1, words, public.width)


def silent(done: int, total: int) -> None:
    assert 0 < done <= total


@pytest.mark.parametrize("public", [KEY, ODD, FULL, ONES], ids=lambda public: f"{public.bits} bits")
def test_ciphertexts_come_back(public: PublicKey) -> None:
    n, n_squared = public.n, public.n_squared
    numbers = [mpz(1), n - 1, n + 1, n_squared - 1, n_squared - n + 1, *(mpz(secrets.randbelow(int(n))) for _ in "ab")]
    rows = limbs.rows_of(public, rows_of(public, numbers))
    assert rows.shape == (7, 1, 2, limbs.modulus(public).length)
    assert limbs.ciphertexts_in(public, rows[:, 0]) == numbers


@pytest.mark.parametrize("public", [KEY, ODD, FULL, ONES], ids=lambda public: f"{public.bits} bits")
def test_products_of_the_largest_numbers_are_right(public: PublicKey) -> None:
    n_squared = public.n_squared
    numbers = [n_squared - 1, n_squared - 2, n_squared - 1, public.n - 1, n_squared - public.n - 1]
    rows = limbs.rows_of(public, rows_of(public, numbers))
    bins, sizes, nodes = np.zeros((5, 1), np.int64), (1,), np.zeros(5, np.int32)
    sums = limbs.bin_sums(public, rows, bins, sizes, nodes, 1, silent)
    (product,) = limbs.ciphertexts_in(public, sums.sums[:, 0].copy())
    assert product == keys.add_many(public, numbers)
    layout = Layout(cells=2, columns=1, bits=70, beside=1, deep=2)  # squared 70 times in a row
    twice = limbs.Cells(np.concatenate([sums.sums, sums.sums]), np.array([True, True]))
    assert limbs.packed(public, twice, layout, silent) == [keys.add(public, keys.shift(public, product, 70), product)]


@pytest.mark.parametrize("cover", [False, True])
@pytest.mark.parametrize("public", [KEY, ODD, FULL], ids=lambda public: f"{public.bits} bits")
def test_noise_is_the_same(public: PublicKey, cover: bool) -> None:
    width = keys.exponent_bits(public, cover=cover) // 8
    exponents = bytes(width) + b"\xff" * width + secrets.token_bytes(5 * width)
    wanted = keys.noises(keys.noise_table(public, cover=cover), 7, exponents)
    assert wanted[0] == 1
    assert limbs.noises(public, exponents, 7, cover=cover) == wanted
    assert limbs.noises(public, b"", 0, cover=cover) == []


@unhurried
@given(
    st.integers(0, 12),
    st.integers(1, 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 4),
    st.sampled_from([1, 5, 100]),
    st.integers(0, 99),
)
def test_sums_and_what_is_packed_are_the_same(
    rows: int, words: int, sizes: list[int], nodes: int, at_once: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    numbers = [mpz(secrets.randbelow(int(KEY.n_squared))) for _ in range(rows * words)]
    bins = np.stack([rng.integers(0, size, rows) for size in sizes], 1)
    node = rng.integers(-1, nodes, rows).astype(np.int32)
    layout = Layout(nodes * sum(sizes), words, bits=30, beside=1, deep=3)
    given_rows, shape = rows_of(KEY, numbers, words), (bins, sizes, node, nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "2")
        patch.setattr(limbs, "_ADDITIONS", at_once)
        patch.setattr(limbs, "_STACKS", at_once)
        patch.setattr(limbs, "_BLOCK", at_once)
        sums = limbs.bin_sums(KEY, limbs.rows_of(KEY, given_rows), *shape, silent)
        packed = limbs.packed(KEY, sums, layout, silent)
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        cells = paillier_sums.bin_sums(KEY, given_rows, *shape, silent)
        assert packed == paillier_sums.packed(KEY, cells, layout, silent)
    assert sums.filled.repeat(words).tolist() == [cell != 1 for cell in cells]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_noise_made_ahead_is_the_same(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", threads)
    monkeypatch.setattr(compiled, "worthwhile", lambda cells: cells > 0)
    stock = NoiseStock(KEY, cover=False, progress=silent)
    stock.order(100)
    for count in (30, 70, 20):
        noise, spans = stock.take(count)
        assert [one for span in spans for one in made(KEY, False, span)[1]] == noise


def test_longer_keys_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "worthwhile", lambda cells: cells > 0)
    assert limbs.worthwhile(ONES, 1)
    assert not limbs.worthwhile(PublicKey(mpz(2) ** 8208 - 1, mpz(2)), 1)
