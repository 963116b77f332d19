"""Tags of ids under a key that owners share: AES-CMAC (NIST SP 800-38B), of many ids at once.

A tag has 16 bytes that nobody tells from random ones without the key. With it anybody can make the tag of an id, so
whoever has both key and tags can test guesses of ids. A hash for each id would take several times as long: here one
call encrypts a block of thousands of ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from unpooled.arrays import Bytes, Ints

TAG_BYTES = 16
_SLICE = 2**14
_END_OF_MESSAGE, _DOUBLED = 0x80, 0x87


def tags_of(key: bytes, ids: pl.DataFrame) -> Iterator[Bytes]:
    """The tags of ids as they are compared, thousands of them at a time."""
    cells = [part for name in ids.columns for part in (pl.col(name).str.len_bytes().cast(pl.String), ":", pl.col(name))]
    texts = pl.concat_str([pl.lit(part) if isinstance(part, str) else part for part in cells])
    for start in range(0, ids.height, _SLICE):
        written = ids[start : start + _SLICE].select(text=texts)["text"]  # with lengths: columns do not run together
        yield cmac(key, written.cast(pl.Binary).to_list())


def cmac(key: bytes, messages: Sequence[bytes]) -> Bytes:
    """The AES-CMAC of each message."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    counts = np.maximum(-(-lengths // TAG_BYTES), 1)
    width = TAG_BYTES * int(counts.max(initial=1))
    padded = np.array(messages, f"S{width}").view(np.uint8).reshape(-1, width)
    short = np.flatnonzero(lengths < TAG_BYTES * counts)
    padded[short, lengths[short]] = _END_OF_MESSAGE
    blocks = padded.reshape(len(messages), width // TAG_BYTES, TAG_BYTES)
    whole_mask, short_mask = _last_masks(key)
    masks = np.tile(whole_mask, (len(messages), 1))
    masks[short] = short_mask
    blocks[np.arange(len(messages)), counts - 1] ^= masks
    found = encrypted(key, blocks[:, 0])
    for number in range(1, blocks.shape[1]):
        longer = np.flatnonzero(counts > number)
        found[longer] = encrypted(key, found[longer] ^ blocks[longer, number])
    return found


def encrypted(key: bytes, blocks: Bytes) -> Bytes:
    """Each block encrypted by itself: AES as a permutation that looks random, not as a way to hide a text."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    made = np.empty(blocks.size + TAG_BYTES, np.uint8)  # the library wants room for one block more
    encryptor.update_into(blocks.tobytes(), made.data)
    return made[: blocks.size].reshape(-1, TAG_BYTES)


def in_order_of_value(tags: Bytes) -> Ints:
    """The places of tags in increasing order, which says nothing of the order they were in."""
    numbers = tags.view(">u8")
    first = numbers[:, 0].astype(np.uint64)
    order = np.argsort(first)
    ordered = first[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((numbers[:, 1], first))
    return order.astype(np.int64, copy=False)


def _last_masks(key: bytes) -> tuple[Bytes, Bytes]:
    """What is added to the last block of a message: one that fills it, and one that does not."""
    number = int.from_bytes(encrypted(key, np.zeros((1, TAG_BYTES), np.uint8)).tobytes(), "big")
    masks = []
    for _ in range(2):
        number = (number << 1) % 2**128 ^ (_DOUBLED if number >> 127 else 0)
        masks.append(np.frombuffer(number.to_bytes(TAG_BYTES, "big"), np.uint8))
    return masks[0], masks[1]
