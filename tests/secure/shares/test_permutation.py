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
from unpooled.secure.shares.permutation import Blocks

RNG = np.random.default_rng(9)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, ...]:
    """Bins, their sizes, nodes, blocks, and words."""
    words = draw(st.integers(0, 3))
    each = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 4)), min_size=1, max_size=4))
    rows = sum(rows for rows, _ in each)
    sizes = tuple(draw(st.lists(st.integers(1, 6), max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.int64]))
    bins = np.array([rng.integers(0, size, rows) for size in sizes]).reshape(len(sizes), rows).T.astype(kind)
    blocks = permutation.blocks_of(0, 0, each)
    lowest, firsts = -draw(st.booleans()), np.cumsum([0, *blocks.nodes])
    in_block = [rng.integers(lowest, nodes, rows) for rows, nodes in each]
    nodes = [np.where(some < 0, -1, some + first) for some, first in zip(in_block, firsts, strict=False)]
    return bins, sizes, np.concatenate(nodes).astype(np.int32), blocks, rng.integers(0, 2**64, (rows, words), np.uint64)


def shares_of(bins: Any, sizes: Any, nodes: Any, blocks: Blocks, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the two sides come to."""
    order_seed, once_seed = new_seed(), new_seed()
    mask = RNG.integers(0, 2**64, y.shape, np.uint64)
    dealt = permutation.dealt(order_seed, once_seed, mask, len(sizes), ends=blocks.ends)
    orders, lengths = mod64.sort_rows(bins, sizes, nodes, sum(blocks.nodes))
    places = permutation.hidden_places(order_seed, orders, nodes, blocks)
    inside = blocks.inside(nodes)
    assert permutation.lengths_fit(lengths, inside, sizes, blocks)
    assert permutation.places_fit(places, blocks)
    return (
        permutation.left_sums(dealt, y - mask, places, orders, lengths, inside, sizes, blocks),
        permutation.right_sums(once_seed, places, y.shape[1], lengths, inside, sizes, blocks),
    )


def sums_of(bins: Any, sizes: Any, nodes: Any, blocks: Blocks, y: Any) -> np.ndarray:
    """Row by row."""
    sums = np.zeros((sum(blocks.nodes), sum(sizes), y.shape[1]), np.uint64)
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
    nodes, y = RNG.integers(-1, 4, 30).astype(np.int32), RNG.integers(0, 2**64, (30, 2), np.uint64)
    problem = bins, sizes, nodes, permutation.blocks_of(30, 4), y
    assert (sum(shares_of(*problem)) == sums_of(*problem)).all()


@given(problems())
def test_places_lead_to_the_rows_in_their_order(problem: tuple[Any, ...]) -> None:
    """ρ[σ] = π, with a block's rows outside all nodes at its end: as many places as rows, whatever the nodes."""
    bins, sizes, nodes, blocks, _ = problem
    seed = new_seed()
    orders, _ = mod64.sort_rows(bins, sizes, nodes, sum(blocks.nodes))
    places = permutation.hidden_places(seed, orders, nodes, blocks)
    assert places.shape == (len(sizes), len(nodes))
    shuffled, at = next(shuffles(seed, b"order", [places.shape], ends=blocks.ends)), 0
    for begin, end in zip(blocks.begins, blocks.ends, strict=True):
        found = np.take_along_axis(shuffled[:, begin:end], places[:, begin:end].astype(np.int64), axis=1)
        inside = (nodes[begin:end] >= 0).sum()
        assert (found[:, :inside] == orders[:, at : at + inside]).all()
        assert (found[:, inside:] == begin + np.flatnonzero(nodes[begin:end] < 0)).all()
        at += inside


def test_positions_are_as_short_as_blocks_allow() -> None:
    kinds = [permutation.blocks_of(rows, 1, each).kind for rows, each in [(2**16, ()), (2**16 + 1, ())]]
    assert kinds == [np.uint16, np.uint32]
    assert permutation.blocks_of(0, 2, [(2**16, 1), (2**16, 1)]).kind == np.uint16


@pytest.mark.parametrize(("place", "fits"), [(0, True), (2, True), (3, False)])
def test_positions_are_within_their_blocks(place: int, fits: bool) -> None:
    blocks = permutation.blocks_of(0, 0, [(5, 1), (0, 1), (3, 1)])
    places = np.array([[4, 4, 4, 4, 4, 0, 0, place]], np.uint16)
    assert permutation.places_fit(places, blocks) is fits


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
    inside = np.array([3])
    assert permutation.lengths_fit(np.array(lengths), inside, (2, 2), permutation.blocks_of(3, 1)) is fit
    assert permutation.lengths_fit(np.array(lengths), inside, (1, 1), permutation.blocks_of(3, 2)) is fit


def test_runs_have_as_many_rows_as_are_in_nodes_block_by_block() -> None:
    blocks = permutation.blocks_of(0, 0, [(4, 1), (2, 1)])
    assert permutation.lengths_fit(np.array([1, 2, 2, 0]), np.array([3, 2]), (2,), blocks)
    assert not permutation.lengths_fit(np.array([1, 1, 2, 1]), np.array([3, 2]), (2,), blocks)


def test_columns_without_bins_have_no_rows() -> None:
    nothing = np.empty(0, np.int64)
    blocks = permutation.blocks_of(5, 2)
    assert permutation.lengths_fit(nothing, np.array([0]), (0, 0), blocks)
    assert permutation.lengths_fit(nothing, np.array([5]), (), blocks)
    assert not permutation.lengths_fit(nothing, np.array([5]), (0,), blocks)
