"""How large the sums of a tree may be, which decides how long the words of its products are."""

from __future__ import annotations

import pytest

from unpooled.secure.calls import Call, OneHot
from unpooled.secure.shares.supply import slots_of
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters, largest_sum, sums_of


@pytest.mark.parametrize(("rows", "size"), [(200, 4), (1_000, 4), (30_000, 5), (119_000, 6), (10**6, 7)])
def test_words_are_short_where_nodes_are_hidden(rows: int, size: int) -> None:
    """Two sums to a word, and no bit of it is left over."""
    parameters = GbdtParameters(hide_nodes=True)
    most = largest_sum(parameters, rows)
    left = OneHot((9, 9), 2, hidden=True)
    slots = slots_of(Call((("telco", "bank"),), "bank", rows, left, sums_of(parameters), 2**16 - 1, most=most))
    assert (slots.word_bytes, slots.words) == (size, 1)
    assert 2 * slots.bits == 8 * size
    assert most >= 2**4 * rows, "the mean of all rows counts 16 or more"


def test_sums_are_as_large_as_precision_allows_where_nodes_are_shown() -> None:
    assert largest_sum(GbdtParameters(precision=12), 1000) == 1000 * 4095


def test_more_classes_than_fit_one_word() -> None:
    parameters = ForestParameters(classes=6, hide_nodes=True)
    assert largest_sum(parameters, 30_000) == 2**20 - 1  # seven sums, three to a word of 64 bits, 21 bits each
