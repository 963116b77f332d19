"""How large the sums of a tree may be, which decides how long the words of its products are."""

from __future__ import annotations

import pytest

from unpooled.secure.calls import Call, OneHot
from unpooled.secure.shares.supply import slots_of
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters, largest_sum, sums_of


@pytest.mark.parametrize(
    ("rows", "size"), [(200, 3), (2_047, 3), (2_048, 4), (30_000, 4), (32_767, 4), (119_000, 5), (10**6, 6)]
)
def test_words_are_short_where_nodes_are_hidden(rows: int, size: int) -> None:
    """Two sums to a word, and no bit of it is left over."""
    parameters = GbdtParameters(hide_nodes=True)
    most = largest_sum(parameters, rows)
    left = OneHot((9, 9), 2, hidden=True)
    slots = slots_of(Call((("telco", "bank"),), "bank", rows, left, sums_of(parameters), 2**16 - 1, most=most))
    assert (slots.word_bytes, slots.words) == (size, 1)
    assert 2 * slots.bits == 8 * size
    assert most >= rows, "weights of 1 stay whole"


@pytest.mark.parametrize(("rows", "size"), [(200, 3), (30_000, 3), (119_000, 4), (10**6, 5)])
def test_words_are_shorter_with_fewer_bits_of_the_mean(rows: int, size: int) -> None:
    most = largest_sum(GbdtParameters(hide_nodes=True, mean_bits=-4), rows)
    assert 2 * (most.bit_length() + 1) == 8 * size
    assert most >= 2**-4 * rows


def test_more_bits_of_the_mean_are_no_more_than_precision_has() -> None:
    assert largest_sum(GbdtParameters(hide_nodes=True, mean_bits=8, precision=8), 1000) == 1000 * 255


def test_sums_are_as_large_as_precision_allows_where_nodes_are_shown() -> None:
    assert largest_sum(GbdtParameters(precision=12), 1000) == 1000 * 4095


def test_more_classes_than_fit_one_word() -> None:
    parameters = ForestParameters(classes=6, hide_nodes=True)
    assert largest_sum(parameters, 30_000) == 2**15 - 1  # seven sums, four to a word of 64 bits, 16 bits each
