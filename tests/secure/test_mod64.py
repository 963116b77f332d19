"""Sums and products mod 2^64 against Python's own integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.secure import mod64

RNG = np.random.default_rng(3)


def ring(*shape: int) -> np.ndarray:
    return RNG.integers(0, 2**64, shape, np.uint64)


@st.composite
def binned(draw: st.DrawFn) -> tuple[Any, ...]:
    """Bins, their sizes, nodes and how many there are."""
    rows, nodes = draw(st.integers(0, 30)), draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 5), max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bins = np.array([rng.integers(0, size, rows) for size in sizes]).reshape(len(sizes), rows).T
    kind = draw(st.sampled_from([np.int64, np.int32, np.uint8, np.uint64]))
    return bins.astype(kind), tuple(sizes), rng.integers(-1, nodes, rows).astype(np.int32), nodes


@given(st.integers(0, 20), st.integers(0, 5), st.integers(0, 5))
def test_products_wrap_around(rows: int, width: int, words: int) -> None:
    x, y = ring(rows, width), ring(rows, words)
    exact = (x.astype(object).T @ y.astype(object)) % 2**64 if rows else np.zeros((width, words), object)
    found = mod64.product(x, y)
    assert found.dtype == np.uint64
    assert found.shape == (width, words)
    assert (found == exact).all()


def test_negative_numbers_are_their_own_complements() -> None:
    x, y = np.array([[-3], [2**62]]), np.array([[2**62], [-3]])
    assert mod64.product(x.view(np.uint64), y.view(np.uint64)).view(np.int64).tolist() == [
        [(-6 * 2**62) % 2**64 - 2**64]
    ]


@given(binned())
def test_one_hot_has_a_one_for_each_row_and_column(case: tuple[Any, ...]) -> None:
    bins, sizes, _, _ = case
    matrix = mod64.one_hot(bins, sizes)
    assert matrix.shape == (len(bins), sum(sizes))
    for row, places in enumerate(bins):
        wanted = [i == place for place, size in zip(places, sizes, strict=True) for i in range(size)]
        assert matrix[row].tolist() == wanted


@given(binned(), st.integers(0, 3))
def test_bin_sums_are_the_product_with_one_hot(case: tuple[Any, ...], width: int) -> None:
    bins, sizes, _, _ = case
    words = ring(len(bins), width)
    assert (mod64.bin_sums(bins, sizes, words) == mod64.product(mod64.one_hot(bins, sizes), words)).all()


@given(binned(), st.integers(1, 3))
def test_folded_nodes_come_out_as_nodes(case: tuple[Any, ...], width: int) -> None:
    """Two ways to the same sums by node and bin: fold the nodes into Y, or sort the rows."""
    bins, sizes, nodes, count = case
    words = ring(len(bins), width)
    folded = mod64.fold(words, nodes, count)
    assert folded.shape == (len(bins), count * width)
    one = mod64.unfold(mod64.product(mod64.one_hot(bins, sizes), folded), count)
    orders, lengths = mod64.sort_rows(bins, sizes, nodes, count)
    other = mod64.by_node(mod64.run_sums(words[orders], lengths), sizes, count)
    assert one.shape == other.shape == (count, sum(sizes), width)
    assert (one == other).all()


@given(binned())
def test_rows_are_sorted_by_node_and_bin(case: tuple[Any, ...]) -> None:
    bins, sizes, nodes, count = case
    orders, lengths = mod64.sort_rows(bins, sizes, nodes, count)
    assert lengths.shape == (count * sum(sizes),)
    begin = 0
    for column, size in enumerate(sizes):
        assert sorted(orders[column]) == np.flatnonzero(nodes >= 0).tolist()
        runs = [(node, place) for node in range(count) for place in range(size)]
        named = [run for run, length in zip(runs, lengths[begin:], strict=False) for _ in range(length)]
        assert [(nodes[row], bins[row, column]) for row in orders[column]] == named
        begin += count * size


@pytest.mark.parametrize("at_once", [1, 100, 250, 10**6])
def test_rows_are_sorted_alike_however_many_columns_are_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, nodes = (4, 3, 300, 1, 6), RNG.integers(-1, 7, 100).astype(np.int32)
    bins = np.stack([RNG.integers(0, size, 100) for size in sizes], axis=1)
    orders, lengths = mod64.sort_rows(bins, sizes, nodes, 7)
    groups = mod64.column_groups
    monkeypatch.setattr(mod64, "column_groups", lambda columns, rows: groups(columns, rows, at_once))
    again, lengths_again = mod64.sort_rows(bins, sizes, nodes, 7)
    assert (orders == again).all()
    assert (lengths == lengths_again).all()


@given(st.integers(0, 20), st.integers(0, 50), st.integers(1, 100))
def test_groups_are_all_columns_one_after_the_other(columns: int, rows: int, at_once: int) -> None:
    groups = mod64.column_groups(columns, rows, at_once)
    assert [column for group in groups for column in range(columns)[group]] == list(range(columns))
    assert all(group.stop - group.start == 1 or (group.stop - group.start) * rows <= at_once for group in groups)


def test_many_runs_are_sorted_all_the_same() -> None:
    """Above 2^16 places another way of sorting is taken."""
    bins, nodes = RNG.integers(0, 300, (500, 1)), RNG.integers(-1, 300, 500).astype(np.int32)
    orders, lengths = mod64.sort_rows(bins, (300,), nodes, 300)
    assert lengths.sum() == (nodes >= 0).sum()
    place = nodes * 300 + bins[:, 0]
    assert sorted(orders[0]) == np.flatnonzero(nodes >= 0).tolist()
    assert (np.diff(place[orders[0]]) >= 0).all()


@pytest.mark.parametrize("places", [2**8 - 1, 2**8, 2**16 - 1, 2**16])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64])
def test_rows_are_sorted_at_the_limits_of_the_narrow_sorts(places: int, kind: type) -> None:
    """As many places in one column of many bins, or in many nodes."""
    if places - 1 <= np.iinfo(kind).max:
        bins = np.array([[places - 1], [0], [0]]).astype(kind)
        orders, lengths = mod64.sort_rows(bins, (places,), np.array([0, -1, 0], np.int32), 1)
        assert orders.tolist() == [[2, 0]]
        assert np.flatnonzero(lengths).tolist() == [0, places - 1]
    nodes = np.array([places - 1, -1, 0], np.int32)
    orders, lengths = mod64.sort_rows(np.zeros((3, 1), kind), (1,), nodes, places)
    assert orders.tolist() == [[2, 0]]
    assert np.flatnonzero(lengths).tolist() == [0, places - 1]


def test_sums_of_runs_wrap_around() -> None:
    values = np.full((1, 3, 1), 2**63, np.uint64)
    assert mod64.run_sums(values, np.array([2, 1])).ravel().tolist() == [0, 2**63]
