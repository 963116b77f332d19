"""Long random numbers from short seeds: AES-256 in counter mode, one use per purpose.

A seed is 32 bytes of the system's randomness. What it is expanded for is hashed into the key, so that the same seed
gives unrelated numbers for different purposes.
"""

from __future__ import annotations

import hashlib
import math
import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from unpooled.codec import Ints, Ring

SEED_BYTES = 32


def new_seed() -> bytes:
    return secrets.token_bytes(SEED_BYTES)


def expand_bytes(seed: bytes, purpose: bytes, length: int) -> bytes:
    """So many bytes from a seed."""
    key = hashlib.sha256(b"unpooled expand v1" + len(purpose).to_bytes(4, "little") + purpose + seed).digest()
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return encryptor.update(bytes(length))


def expand(seed: bytes, purpose: bytes, shape: tuple[int, ...]) -> Ring:
    """An array of numbers mod 2^64 from a seed."""
    data = expand_bytes(seed, purpose, 8 * math.prod(shape))
    return np.frombuffer(data, "<u8").astype(np.uint64, copy=False).reshape(shape)


def shuffles(seed: bytes, purpose: bytes, count: int, rows: int) -> Ints:
    """So many random orders of the rows, each by 64 random bits a row; two equal ones are as good as impossible.

    Sorting by the first 16 bits goes by counting, and what is nearly in order is sorted fast.
    """
    orders = np.empty((count, rows), np.int64)
    for order, keys in zip(orders, expand(seed, purpose, (count, rows)), strict=True):
        rough = np.argsort((keys >> np.uint64(48)).astype(np.uint16), kind="stable")
        order[:] = rough[np.argsort(keys[rough], kind="stable")]
    return orders
