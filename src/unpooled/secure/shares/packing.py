"""Several small numbers in one word, so that one operation on the word serves them all.

A word is the sum of v_k · 2^(k·bits): adding words adds all their slots, as long as every slot's sum stays between
-2^(bits-1) and 2^(bits-1). Slots are signed; a word is read from the lowest slot up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unpooled.arrays import Ints, Ring

RING_BITS = 64


@dataclass(frozen=True)
class Slots:
    """How `columns` of bounded numbers are packed: `per_word` slots of `bits` in each word."""

    columns: int
    bits: int
    per_word: int

    @property
    def words(self) -> int:
        return -(-self.columns // self.per_word)


@lru_cache(maxsize=256)
def slots_for(columns: int, bound: int, word_bits: int) -> Slots:
    """The narrowest slots that hold every sum up to `bound`, as many to a word as fit."""
    bits = bound.bit_length() + 1
    return Slots(columns, bits, max(1, min(columns, word_bits // bits)))


def pack(values: Ints, slots: Slots) -> Ring:
    """The last axis packed into words mod 2^64."""
    words = np.zeros((*values.shape[:-1], slots.words), np.uint64)
    unsigned = values.view(np.uint64)
    for column in range(slots.columns):
        word, slot = divmod(column, slots.per_word)
        words[..., word] += unsigned[..., column] << np.uint64(slot * slots.bits)
    return words


def unpack(words: Ring, slots: Slots) -> Ints:
    """The numbers in words mod 2^64.

    >>> slots = slots_for(3, bound=1000, word_bits=64)
    >>> unpack(pack(np.array([[-1000, 7, 999]]), slots), slots).tolist()
    [[-1000, 7, 999]]
    """
    values = np.empty((*words.shape[:-1], slots.columns), np.int64)
    rest = words.view(np.int64).copy()
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
