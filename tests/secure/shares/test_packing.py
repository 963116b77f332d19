"""Small numbers in large ones: they come back, and adding the large ones adds the small ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.secure.shares.packing import RING_BITS, Slots, pack, slots_for, unpack

BOUNDS = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 63).map(lambda bits: 2**bits - 1), st.sampled_from([0, 1]))


@pytest.mark.parametrize(
    ("columns", "bound", "bits", "per_word", "words"),
    [
        (2, 0, 1, 2, 1),
        (100, 0, 1, 64, 2),
        (2, 1, 2, 2, 1),
        (2, 2**31 - 1, 32, 2, 1),
        (2, 2**31, 33, 1, 2),
        (3, 2**20 - 1, 21, 3, 1),
        (3, 2**20, 22, 2, 2),
        (5, 2**20, 22, 2, 3),
        (1, 2**63 - 1, 64, 1, 1),
        (4, 2**62, 64, 1, 4),
        (0, 5, 4, 1, 0),
    ],
)
def test_slots_are_as_narrow_as_the_bound_allows(
    columns: int, bound: int, bits: int, per_word: int, words: int
) -> None:
    slots = slots_for(columns, bound, RING_BITS)
    assert slots == Slots(columns, bits, per_word)
    assert slots.words == words


@given(BOUNDS, st.integers(0, 7), st.integers(0, 4), st.data())
def test_numbers_come_back(bound: int, columns: int, rows: int, data: st.DataObject) -> None:
    number = st.one_of(st.integers(-bound, bound), st.sampled_from([-bound, bound]))
    content = data.draw(st.lists(number, min_size=rows * columns, max_size=rows * columns))
    values = np.array(content, np.int64).reshape(rows, columns)
    slots = slots_for(columns, bound, RING_BITS)
    packed = pack(values, slots)
    assert packed.shape == (rows, slots.words)
    assert packed.dtype == np.uint64
    assert (unpack(packed, slots) == values).all()


@given(st.integers(1, 2**40), st.integers(1, 6), st.integers(1, 50), st.integers(0, 2**32))
def test_sums_of_words_are_sums_of_slots(bound: int, columns: int, rows: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-bound, bound, (rows, columns), endpoint=True)
    slots = slots_for(columns, rows * bound, RING_BITS)
    total = pack(values, slots).sum(axis=0, dtype=np.uint64)
    assert (unpack(total, slots) == values.sum(axis=0)).all()


@pytest.mark.parametrize("bound", [1, 2**20 - 1, 2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize("sign", [-1, 1])
def test_every_slot_may_be_at_its_bound_at_once(bound: int, sign: int) -> None:
    values = np.full((2, 6), sign * bound)
    values[1, ::2] *= -1
    slots = slots_for(6, bound, RING_BITS)
    assert (unpack(pack(values, slots), slots) == values).all()


def test_the_last_axis_is_packed_whatever_stands_before_it() -> None:
    values = np.arange(-12, 12).reshape(2, 3, 4)
    slots = slots_for(4, 100, RING_BITS)
    packed = pack(values, slots)
    assert packed.shape == (2, 3, 1)
    assert (unpack(packed, slots) == values).all()


def test_packing_leaves_its_input_alone() -> None:
    values = np.array([[-5, 7]])
    slots = slots_for(2, 10, RING_BITS)
    words = pack(values, slots)
    before = words.copy()
    unpack(words, slots)
    assert (words == before).all()
    assert values.tolist() == [[-5, 7]]
