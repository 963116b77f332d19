"""Several small numbers in one word, so that one operation on the word serves them all.

A word is the sum of v_k · 2^(k·bits): adding words adds all their slots, as long as every slot's sum stays between
-2^(bits-1) and 2^(bits-1). Slots are signed; a word is read from the lowest slot up.

Words are computed mod 2^64. What lies above the highest slot does not matter, so products may be shared, masked and
sent mod 2^(8·word_bytes) instead: a mask is as random in a smaller ring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unpooled.arrays import Ints, Ring

RING_BITS = 64
row_bits_more = 0
"""What words are longer by than so many rows need: in a rehearsal, which has fewer of them (`run.rehearsal`)."""


@dataclass(frozen=True)
class Slots:
    """How `columns` of bounded numbers are packed: `per_word` slots of `bits` in each word, of which `word_bytes`
    are sent."""

    columns: int
    bits: int
    per_word: int
    word_bytes: int = RING_BITS // 8

    @property
    def words(self) -> int:
        return -(-self.columns // self.per_word)


@lru_cache(maxsize=256)
def slots_for(columns: int, bound: int, word_bits: int, *, narrow: bool = False) -> Slots:
    """The narrowest slots that hold every sum up to `bound`, as many to a word as fit; `narrow` words are as short as
    these allow.

    >>> slots_for(2, bound=2**19 - 1, word_bits=64, narrow=True)
    Slots(columns=2, bits=20, per_word=2, word_bytes=5)
    """
    bits = bound.bit_length() + 1
    per_word = max(1, min(columns, word_bits // bits))
    return Slots(columns, bits, per_word, -(-min(per_word * bits, RING_BITS) // 8) if narrow else RING_BITS // 8)


def pack(values: Ints, slots: Slots) -> Ring:
    """The last axis packed into words mod 2^64."""
    words = np.zeros((*values.shape[:-1], slots.words), np.uint64)
    unsigned = values.view(np.uint64)
    for column in range(slots.columns):
        word, slot = divmod(column, slots.per_word)
        words[..., word] += unsigned[..., column] << np.uint64(slot * slots.bits)
    return words


def unpack(words: Ring, slots: Slots) -> Ints:
    """The numbers in words mod 2^64, or in a smaller ring.

    >>> slots = slots_for(3, bound=1000, word_bits=64)
    >>> unpack(pack(np.array([[-1000, 7, 999]]), slots), slots).tolist()
    [[-1000, 7, 999]]
    """
    values = np.empty((*words.shape[:-1], slots.columns), np.int64)
    above = np.uint64(RING_BITS - 8 * slots.word_bytes)
    rest = (words << above).view(np.int64) >> above.view(np.int64)
    half = np.int64(1 << (slots.bits - 1)) if slots.bits < RING_BITS else None
    for column in range(slots.columns):
        word, slot = divmod(column, slots.per_word)
        last = slot == slots.per_word - 1 or column == slots.columns - 1
        if last or half is None:
            values[..., column] = rest[..., word]
            continue
        mask = np.int64((1 << slots.bits) - 1)
        low = ((rest[..., word] + half) & mask) - half
        values[..., column] = low
        rest[..., word] = (rest[..., word] - low) >> np.int64(slots.bits)
    return values
