"""Numbers from seeds: the same again, unrelated for other purposes, and 64 bits for every step of a shuffle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from unpooled.secure import randomness
from unpooled.secure.randomness import SEED_BYTES, expand, expand_bytes, expansions, new_seed, shuffles

SEED = bytes(range(SEED_BYTES))


def test_seeds_are_32_bytes_and_differ() -> None:
    seeds = {new_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert {len(seed) for seed in seeds} == {32}


def test_seeds_are_the_systems_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(randomness.secrets, "token_bytes", lambda length: asked.append(length) or b"?" * length)
    assert new_seed() == b"?" * SEED_BYTES
    assert asked == [SEED_BYTES]


def test_expansion_is_aes_on_a_counter() -> None:
    key = hashlib.sha256(b"unpooled expand v1" + b"\4\0\0\0" + b"mask" + SEED).digest()
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - block by block, to compare with
    blocks = encryptor.update(b"".join(counter.to_bytes(16, "big") for counter in range(5)))
    assert expand_bytes(SEED, b"mask", 80) == blocks
    assert expand_bytes(SEED, b"mask", 33) == blocks[:33]
    assert expand(SEED, b"mask", (2, 5)).tolist() == np.frombuffer(blocks, "<u8").reshape(2, 5).tolist()


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=20), st.integers(0, 100))
def test_expansion_gives_the_same_again_and_more_of_it(seed: bytes, purpose: bytes, length: int) -> None:
    assert expand_bytes(seed, purpose, length) == expand_bytes(seed, purpose, length + 50)[:length]


@given(st.integers(0, 40), st.integers(0, 9))
def test_numbers_can_be_skipped(skip: int, count: int) -> None:
    whole = expand(SEED, b"mask", (50,))
    assert next(expansions(SEED, b"mask", [(count,)], skip)).tolist() == whole[skip : skip + count].tolist()


def test_seeds_and_purposes_give_unrelated_numbers() -> None:
    other = SEED[:-1] + b"?"
    keys = [(SEED, b"mask"), (SEED, b"half"), (SEED, b""), (SEED, b"mask\0"), (other, b"mask"), (other, b"half")]
    numbers = np.concatenate([expand(seed, purpose, (1000,)) for seed, purpose in keys])
    assert len(np.unique(numbers)) == len(numbers)


def test_a_purpose_cannot_run_into_the_seed() -> None:
    assert expand_bytes(b"b" + SEED, b"a", 16) != expand_bytes(SEED, b"ab", 16)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2), ()])
def test_nothing_and_single_numbers_are_expanded_too(shape: tuple[int, ...]) -> None:
    assert expand(SEED, b"mask", shape).shape == shape


@pytest.mark.parametrize(
    "shapes", [[(3,), (0,), (2, 5)], [(1,)] * 7, [(2**13 - 1,), (2,), (2**14, 3)], [(2**13,), (5,)]]
)
def test_expansions_go_on_where_the_last_one_ended(shapes: list[tuple[int, ...]]) -> None:
    """Also across the length that is worked on at once."""
    parts = list(expansions(SEED, b"once", shapes))
    assert [part.shape for part in parts] == shapes
    together = np.concatenate([part.reshape(-1) for part in parts])
    assert (together == expand(SEED, b"once", together.shape)).all()
    assert together.tobytes() == expand_bytes(SEED, b"once", together.nbytes)


def shuffled(seed: bytes, purpose: bytes, count: int, rows: int) -> np.ndarray:
    """Orders all at once."""
    return next(shuffles(seed, purpose, [(count, rows)]))


@given(st.binary(min_size=32, max_size=32), st.integers(0, 5), st.integers(0, 60))
def test_shuffles_are_orders_of_the_rows(seed: bytes, count: int, rows: int) -> None:
    orders = shuffled(seed, b"order", count, rows)
    assert orders.shape == (count, rows)
    assert orders.dtype == np.uint32
    assert (np.sort(orders, axis=1) == np.arange(rows)).all()
    assert (np.concatenate([orders[:0], *shuffles(seed, b"order", [(1, rows)] * count)]) == orders).all()
    assert (next(shuffles(seed, b"order", [(count // 2, rows)], skip=rows)) == orders[1 : 1 + count // 2]).all()


def test_every_order_comes_about_equally_often() -> None:
    """All 24 orders of four rows: 24,000 shuffles, of a fixed seed, so this passes always or never."""
    orders = shuffled(SEED, b"order", 24_000, 4)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 49.7  # chi-square with 23 degrees of freedom, one in a thousand


def shuffle_oddities(shuffle: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whether an order depends on all 64 bits of a row's number.

    With 32 bits the first equal numbers come at 80,000 rows, and rows with equal ones keep their order.
    """
    rng, found = np.random.default_rng(5), []
    for name, numbers in {
        "high": rng.permutation(500).astype(np.uint64) << np.uint64(32),
        "low": rng.permutation(500).astype(np.uint64) + (np.uint64(1) << np.uint64(60)),
    }.items():
        monkeypatch.setattr(
            randomness,
            "expansions",
            lambda seed, purpose, shapes, skip=0, n=numbers: (np.resize(n, shape) for shape in shapes),
        )
        orders = shuffle(bytes(32), b"order", 2, 500)
        if not (orders == np.argsort(numbers)).all():
            found.append(f"{name} bits are not looked at")
    return found


def shuffles_of_32_bits(low: bool) -> Callable[..., np.ndarray]:
    def shuffle(seed: bytes, purpose: bytes, count: int, rows: int) -> np.ndarray:
        numbers = next(randomness.expansions(seed, purpose, [(count, rows)]))
        narrow = numbers & np.uint64(2**32 - 1) if low else numbers >> np.uint64(32)
        return np.argsort(narrow, axis=1, kind="stable")

    return shuffle


def test_shuffles_take_64_bits_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shuffle_oddities(shuffled, monkeypatch) == []
    assert shuffle_oddities(shuffles_of_32_bits(low=True), monkeypatch) == ["high bits are not looked at"]
    assert shuffle_oddities(shuffles_of_32_bits(low=False), monkeypatch) == ["low bits are not looked at"]


def test_shuffles_draw_8_bytes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of their own for every column."""
    drawn = []

    def watched(seed: bytes, purpose: bytes, shapes: list[tuple[int, ...]], skip: int) -> Iterator[np.ndarray]:
        for numbers in expansions(seed, purpose, shapes, skip):
            drawn.append(numbers)
            yield numbers

    monkeypatch.setattr(randomness, "expansions", watched)
    orders = list(shuffles(bytes(32), b"order", [(2, 1000), (1, 1000)]))
    numbers = np.concatenate(drawn)
    assert numbers.shape == (3, 1000)
    assert len(np.unique(numbers)) == numbers.size
    assert (np.concatenate(orders) == np.argsort(numbers, axis=1)).all()
