"""Long random numbers from short seeds: AES-256 in counter mode, one use per purpose.

A seed is 32 bytes of the system's randomness. What it is expanded for is hashed into the key, so that the same seed
gives unrelated numbers for different purposes.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from unpooled.arrays import Ints, Ring
from unpooled.compiled import worthwhile
from unpooled.secure.mod64 import Places, first_places

SEED_BYTES = 32

_SORTING = 8  # what sorting a row takes, in rows that are added up
_ZEROS = memoryview(bytes(2**16))


def new_seed() -> bytes:
    return secrets.token_bytes(SEED_BYTES)


def expand_bytes(seed: bytes, purpose: bytes, length: int) -> bytes:
    return _cipher(seed, purpose).update(bytes(length))


def expand(seed: bytes, purpose: bytes, shape: tuple[int, ...]) -> Ring:
    """An array of numbers mod 2^64 from a seed."""
    return next(expansions(seed, purpose, [shape]))


def expansions(seed: bytes, purpose: bytes, shapes: Iterable[tuple[int, ...]], skip: int = 0) -> Iterator[Ring]:
    """The same numbers as one array after another, so that each can be used while it is in the cache.

    `skip` numbers come before the first.
    """
    cipher = _cipher(seed, purpose, skip // 2)
    cipher.update(bytes(8 * (skip % 2)))
    for shape in shapes:
        numbers = np.empty(shape, "<u8")
        data = numbers.reshape(-1).view(np.uint8).data
        for start in range(0, len(data), len(_ZEROS)):
            part = data[start : start + len(_ZEROS)]
            cipher.update_into(_ZEROS[: len(part)], part)
        yield numbers.astype(np.uint64, copy=False)


def _cipher(seed: bytes, purpose: bytes, counter: int = 0) -> CipherContext:
    key = hashlib.sha256(b"unpooled expand v1" + len(purpose).to_bytes(4, "little") + purpose + seed).digest()
    return Cipher(algorithms.AES(key), modes.CTR(counter.to_bytes(16))).encryptor()


def shuffles(
    seed: bytes, purpose: bytes, shapes: Iterable[tuple[int, int]], skip: int = 0, ends: Ints | None = None
) -> Iterator[Places]:
    """Random orders of the rows, columns × rows at a time, each by 64 random bits per row.

    `skip` numbers come before the first. With `ends` rows stay in blocks, which end there. Equal numbers are
    practically impossible.
    """
    for numbers in expansions(seed, purpose, shapes, skip):
        each = np.array([numbers.shape[1]]) if ends is None else ends
        if worthwhile(_SORTING * numbers.size):
            from unpooled.secure import kernels

            yield kernels.orders_of(numbers, each)
            continue
        begins = [0, *each.tolist()]
        orders = [_order_of(numbers[:, begin:end]) + begin for begin, end in pairwise(begins)]
        yield np.concatenate(orders, axis=1).astype(np.uint32)


def _order_of(numbers: Ring) -> Ints:
    """The first 16 bits are sorted by counting, and nearly sorted data is sorted fast."""
    firsts = first_places(*numbers.shape)
    rough = (numbers >> np.uint64(48)).astype(np.uint16).argsort(axis=1, kind="stable")
    rough += firsts
    fine = numbers.reshape(-1).take(rough).argsort(axis=1, kind="stable")
    fine += firsts
    order: Ints = rough.reshape(-1).take(fine)
    order -= firsts
    return order
