"""Compiled loops give what numpy gives, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled import compiled
from unpooled.secure import mod64
from unpooled.secure.randomness import new_seed, shuffles
from unpooled.secure.shares import permutation

Both = Callable[[Callable[[], Any]], tuple[Any, Any]]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """What a function gives with numpy, and with compiled loops."""

    def results(function: Callable[[], Any]) -> tuple[Any, Any]:
        found = []
        for choice in (False, True):
            monkeypatch.setattr(compiled, "_choice", lambda choice=choice: choice)
            found.append(function())
        return found[0], found[1]

    return results


def same(pair: tuple[Any, Any]) -> None:
    one, other = pair
    each = zip(one, other, strict=True) if isinstance(one, tuple | list) else [(one, other)]
    for first, second in each:
        assert first.dtype == second.dtype
        assert np.array_equal(first, second)


def any_words(*shape: int) -> Any:
    return np.random.default_rng(1).integers(2**64, size=shape, dtype=np.uint64)


@pytest.mark.parametrize(("rows", "width", "words"), [(0, 3, 2), (1, 1, 1), (7, 3, 2), (1000, 64, 20), (5, 0, 2)])
def test_products(both: Both, rows: int, width: int, words: int) -> None:
    x, y = any_words(rows, width), any_words(rows, 2 * words)[:, ::2]
    same(both(lambda: mod64.product(x, y)))


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("rows", [0, 1, 500])
def test_sums_over_bins(both: Both, rows: int, kind: Any) -> None:
    sizes = (3, 1, 9, 256)
    bins = (any_words(rows, 4) % np.array(sizes, np.uint64)).astype(kind if kind != np.uint8 else np.uint8)
    for words in (1, 5):
        same(both(lambda words=words: mod64.bin_sums(bins, sizes, any_words(rows, words))))
    same(both(lambda: mod64.bin_sums(np.empty((rows, 0), kind), (), any_words(rows, 2))))


@pytest.mark.parametrize("width", range(1, 9))
@pytest.mark.parametrize("shape", [(0,), (1, 3), (40, 7)])
def test_words_as_bytes(both: Both, width: int, shape: tuple[int, ...]) -> None:
    words = any_words(*shape)
    same(both(lambda: [mod64.to_bytes(words, width)]))
    data = mod64.to_bytes(words, width)
    same(both(lambda: [mod64.from_bytes(data, shape, "telco", width)]))


@pytest.mark.parametrize(("columns", "rows"), [(0, 5), (3, 0), (1, 1), (4, 3), (11, 1300), (2, 70_000)])
def test_random_orders(both: Both, columns: int, rows: int) -> None:
    seed = new_seed()
    same(both(lambda: list(shuffles(seed, b"order", [(columns, rows), (1, rows)]))))
    ends = np.array([rows // 3, rows // 3, rows])
    same(both(lambda: list(shuffles(seed, b"order", [(columns, rows), (1, rows)], ends=ends))))


def test_equal_numbers_keep_their_order(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    few = any_words(3, 400) % np.uint64(7) << np.uint64(60)
    monkeypatch.setattr("unpooled.secure.randomness.expansions", lambda *_: [few])
    same(both(lambda: list(shuffles(b"", b"", []))))


@pytest.mark.parametrize("words", [1, 3])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("rows", "inside"), [(0, 0), (1, 1), (600, 0), (600, 600), (600, 250), (70_000, 20_000)])
def test_rows_in_secret_orders(both: Both, rows: int, inside: int, words: int, apart: bool) -> None:
    """Every step of permute and share, also in blocks; together the two sides have the sums."""
    rng, sizes, count = np.random.default_rng(2), (4, 1, 9, 32), 3
    bins = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1).astype(np.uint8)
    nodes = np.full(rows, -1, np.int32)
    nodes[rng.permutation(rows)[:inside]] = rng.integers(0, count, inside)
    blocks = permutation.blocks_of(rows, count, [(rows // 4, 1), (rows - rows // 4, 2)] if apart else ())
    if apart:
        first = np.arange(rows) < rows // 4
        nodes = np.where(nodes < 0, -1, np.where(first, 0, np.maximum(nodes, 1))).astype(np.int32)
    counts = blocks.inside(nodes)
    order_seed, once_seed, mask, y = new_seed(), new_seed(), any_words(rows, words), any_words(rows, words)

    def steps() -> tuple[Any, ...]:
        dealt = permutation.dealt(order_seed, once_seed, mask, len(sizes), ends=blocks.ends)
        orders, lengths = mod64.sort_rows(bins, sizes, nodes, count)
        places = permutation.hidden_places(order_seed, orders, nodes, blocks)
        left = permutation.left_sums(dealt, y - mask, places, orders, lengths, counts, sizes, blocks)
        right = permutation.right_sums(once_seed, places, words, lengths, counts, sizes, blocks)
        return dealt, orders, lengths, places, left, right

    found = both(steps)
    same(found)
    left, right = found[1][-2:]
    expected = [mod64.bin_sums(bins[nodes == node], sizes, y[nodes == node]) for node in range(count)]
    assert np.array_equal(left + right, np.stack(expected))


@pytest.mark.parametrize("width", [1, 3, 5, 7, 8])
@pytest.mark.parametrize(("count", "words"), [(1, 1), (3, 1), (2, 2)])
def test_nodes_folded_in_less_a_mask(both: Both, width: int, count: int, words: int) -> None:
    rng = np.random.default_rng(width)
    values, mask = (rng.integers(0, 2**64, (50, n), np.uint64) for n in (words, count * words))
    nodes = rng.integers(-1, count, 50).astype(np.int32)
    pair = both(lambda: mod64.folded_less(values, nodes, count, mask, width))
    same(pair)
    back = mod64.from_bytes(pair[1], mask.shape, None, width)
    assert np.array_equal(back, mod64.lower_bytes(mod64.fold(values, nodes, count) - mask, width))


@pytest.mark.parametrize("rows", [0, 1, 60])
def test_sums_of_nodes(both: Both, rows: int) -> None:
    rng = np.random.default_rng(rows)
    values, nodes = rng.integers(0, 2**64, (rows, 2), np.uint64), rng.integers(-1, 4, rows).astype(np.int32)
    pair = both(lambda: mod64.node_sums(values, nodes, 4))
    same(pair)
    for node in range(4):
        assert np.array_equal(pair[1][node], values[nodes == node].sum(axis=0, dtype=np.uint64))
