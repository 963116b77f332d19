"""Permute and share as arithmetic: the two sides' sums add up, and what is sent is where the rows stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.secure import mod64
from unpooled.secure.randomness import new_seed, shuffles
from unpooled.secure.shares import permutation

RNG = np.random.default_rng(9)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, ...]:
    """Bins, their sizes, nodes, how many there are, and words."""
    rows, count, words = draw(st.integers(0, 40)), draw(st.integers(1, 5)), draw(st.integers(0, 3))
    sizes = tuple(draw(st.lists(st.integers(1, 6), max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.int64]))
    bins = np.array([rng.integers(0, size, rows) for size in sizes]).reshape(len(sizes), rows).T.astype(kind)
    nodes = rng.integers(-draw(st.booleans()), count, rows).astype(np.int32)
    return bins, sizes, nodes, count, rng.integers(0, 2**64, (rows, words), np.uint64)


def shares_of(bins: Any, sizes: Any, nodes: Any, count: int, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the two sides come to."""
    order_seed, once_seed = new_seed(), new_seed()
    mask = RNG.integers(0, 2**64, y.shape, np.uint64)
    dealt = permutation.dealt(order_seed, once_seed, mask, len(sizes))
    orders, lengths = mod64.sort_rows(bins, sizes, nodes, count)
    places = permutation.hidden_places(order_seed, orders, nodes)
    inside = int((nodes >= 0).sum())
    assert permutation.lengths_fit(lengths, inside, sizes, count)
    return (
        permutation.left_sums(dealt, y - mask, places, orders, lengths, sizes, count),
        permutation.right_sums(once_seed, places, y.shape[1], lengths, inside, sizes, count),
    )


def sums_of(bins: Any, sizes: Any, nodes: Any, count: int, y: Any) -> np.ndarray:
    """Row by row."""
    sums = np.zeros((count, sum(sizes), y.shape[1]), np.uint64)
    firsts = np.cumsum([0, *sizes])
    for row, node in enumerate(nodes):
        for column, first in enumerate(firsts[:-1]):
            if node >= 0:
                sums[node, first + int(bins[row, column])] += y[row]
    return sums


@given(problems())
def test_both_sides_sums_add_up(problem: tuple[Any, ...]) -> None:
    left, right = shares_of(*problem)
    wanted = sums_of(*problem)
    assert left.shape == right.shape == wanted.shape
    assert (left + right == wanted).all()


@pytest.mark.parametrize(("sorted_at_once", "moved_at_once"), [(1, 1), (100, 70), (70, 100), (10**6, 10**6)])
def test_sums_are_the_same_however_many_columns_are_at_once(
    sorted_at_once: int, moved_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = mod64.column_groups
    monkeypatch.setattr(
        permutation,
        "column_groups",
        lambda columns, rows, at_once=0: groups(columns, rows, moved_at_once if at_once else sorted_at_once),
    )
    sizes = (3, 4, 1, 7, 2, 5, 6)
    bins = np.stack([RNG.integers(0, size, 30) for size in sizes], axis=1)
    problem = bins, sizes, RNG.integers(-1, 4, 30).astype(np.int32), 4, RNG.integers(0, 2**64, (30, 2), np.uint64)
    assert (sum(shares_of(*problem)) == sums_of(*problem)).all()


@given(problems())
def test_places_lead_to_the_rows_in_their_order(problem: tuple[Any, ...]) -> None:
    """ρ[σ] = π, with the rows outside all nodes at the end: as many places as rows, whatever the nodes."""
    bins, sizes, nodes, count, _ = problem
    seed = new_seed()
    orders, _ = mod64.sort_rows(bins, sizes, nodes, count)
    places = permutation.hidden_places(seed, orders, nodes)
    assert places.shape == (len(sizes), len(nodes))
    shuffled = next(shuffles(seed, b"order", [(len(sizes), len(nodes))]))
    found = np.take_along_axis(shuffled, places.astype(np.int64), axis=1)
    assert (found[:, : orders.shape[1]] == orders).all()
    assert (found[:, orders.shape[1] :] == np.flatnonzero(nodes < 0)).all()


@pytest.mark.parametrize(
    ("lengths", "fit"),
    [
        ([1, 2, 0, 3], True),
        ([3, 0, 3, 0], True),
        ([1, 1, 0, 3], False),
        ([1, 2, 0, 2], False),
        ([0, 2, 1, 3], False),
        ([4, -1, 0, 3], False),
        ([-(2**63), 2**63 - 1, 0, 4], False),
    ],
)
def test_runs_have_as_many_rows_as_are_in_nodes(lengths: list[int], fit: bool) -> None:
    """In every column: what one has too many and the next too few is not enough."""
    assert permutation.lengths_fit(np.array(lengths), 3, (2, 2), 1) is fit
    assert permutation.lengths_fit(np.array(lengths), 3, (1, 1), 2) is fit


def test_columns_without_bins_have_no_rows() -> None:
    nothing = np.empty(0, np.int64)
    assert permutation.lengths_fit(nothing, 0, (0, 0), 2)
    assert permutation.lengths_fit(nothing, 5, (), 2)
    assert not permutation.lengths_fit(nothing, 5, (0,), 2)
