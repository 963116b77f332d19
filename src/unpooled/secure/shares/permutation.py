"""The arithmetic of permute and share: what the coordinator deals, and what the two holders compute (see `engine`).

A few columns are processed at a time, so that intermediate results stay in the processor's caches. Where a product goes
in portions of columns, `first` is the place of a portion's first column among all of them.

Where parts of the rows have nodes of their own, as those of trees that share a product, each part is a block: its rows
are put in order by themselves, and positions count from where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ints, Ints32, Ring
from unpooled.compiled import worthwhile
from unpooled.secure.mod64 import (
    COMPILED_AT_ONCE,
    MOVED_AT_ONCE,
    SORTED_AT_ONCE,
    Places,
    by_node,
    column_groups,
    first_places,
    moved,
    run_sums,
)
from unpooled.secure.randomness import expansions, shuffles


@dataclass(frozen=True)
class Blocks:
    """How many rows, and how many nodes, each block has."""

    rows: tuple[int, ...]
    nodes: tuple[int, ...]

    @cached_property
    def ends(self) -> Ints:
        return np.cumsum(self.rows, dtype=np.int64)

    @cached_property
    def begins(self) -> Ints:
        return self.ends - np.array(self.rows, np.int64)

    @cached_property
    def kind(self) -> type[np.uint16] | type[np.uint32]:
        """The type of positions."""
        return np.uint16 if max(self.rows, default=0) <= 2**16 else np.uint32

    def inside(self, nodes: Ints32) -> Ints:
        """How many rows of each block are in nodes."""
        taken, each = nodes >= 0, zip(self.begins.tolist(), self.ends.tolist(), strict=True)
        return np.array([np.count_nonzero(taken[begin:end]) for begin, end in each], np.int64)

    def slots(self, inside: Ints) -> Ints:
        """The places of the rows in nodes, which come first in each block."""
        found: Ints = np.arange(inside.sum()) + (self.begins - np.cumsum(inside) + inside).repeat(inside)
        return found


def blocks_of(rows: int, nodes: int, blocks: Sequence[tuple[int, int]] = ()) -> Blocks:
    """The blocks of a product; without any, all its rows are one."""
    return Blocks(*zip(*(blocks or [(rows, nodes)]), strict=True))


def dealt(
    order_seed: bytes, once_seed: bytes, mask: Ring, columns: int, first: int = 0, ends: Ints | None = None
) -> Ring:
    """Δ = V[ρ] - b, as columns × rows × words: for each column the mask in a random order, less random numbers.

    Blocks of rows end at `ends`.
    """
    rows, words = mask.shape
    values = np.empty((columns, rows, words), np.uint64)
    if compiled := worthwhile(values.size):
        from unpooled.secure import kernels
    groups = column_groups(columns, rows, COMPILED_AT_ONCE if compiled else SORTED_AT_ONCE)
    counts, before = [group.stop - group.start for group in groups], first * rows
    orders = shuffles(order_seed, b"order", [(count, rows) for count in counts], before, ends)
    once = expansions(once_seed, b"once", [(count, rows, words) for count in counts], before * words)
    for group, order, numbers in zip(groups, orders, once, strict=True):
        if compiled:
            kernels.moved_less(mask, order, numbers, values[group])
        else:
            np.subtract(mask.take(order, axis=0), numbers, out=values[group])
    return values


def hidden_places(order_seed: bytes, orders: Places, nodes: Ints32, blocks: Blocks, first: int = 0) -> NDArray[Any]:
    """σ: block by block the positions of the rows, in the order of summation, within the dealt random orders.

    Rows outside all nodes come last: they are in no sum, but their number must not show.
    """
    columns, rows = len(orders), len(nodes)
    outside, inside = np.flatnonzero(nodes < 0), blocks.inside(nodes)
    places = np.empty((columns, rows), blocks.kind)
    if compiled := worthwhile(places.size):
        from unpooled.secure import kernels
    else:
        in_block = (np.arange(rows) - blocks.begins.repeat(blocks.rows)).astype(blocks.kind)
        in_nodes = np.zeros(rows, bool)
        in_nodes[blocks.slots(inside)] = True
    groups = column_groups(columns, rows, COMPILED_AT_ONCE if compiled else SORTED_AT_ONCE)
    shapes = [(group.stop - group.start, rows) for group in groups]
    shuffled = shuffles(order_seed, b"order", shapes, first * rows, blocks.ends)
    for group, order in zip(groups, shuffled, strict=True):
        if compiled:
            kernels.places_in(order, orders[group], outside, blocks.ends, inside, places[group])
            continue
        stands = np.empty(order.shape, blocks.kind)
        stands.reshape(-1)[order + first_places(*order.shape)] = in_block
        places[group, in_nodes] = moved(stands, orders[group])
        places[group, ~in_nodes] = stands.take(outside, axis=1)
    return places


def left_sums(
    values: Ring,
    opened: Ring,
    places: NDArray[Any],
    orders: Places,
    lengths: Ints,
    inside: Ints,
    sizes: tuple[int, ...],
    blocks: Blocks,
) -> Ring:
    """The sums of F[π] + Δ[σ], as nodes × bins × words; so many rows of each block are `inside` nodes."""
    (rows, words), count = opened.shape, sum(blocks.nodes)
    if worthwhile(values.size):
        from unpooled.secure import kernels

        parts = _widths(sizes), blocks.begins, inside, np.array(blocks.nodes)
        return by_node(kernels.left_sums(values, opened, places, orders, lengths, *parts), sizes, count)
    ends, sums = _ends(sizes, count), [np.empty((0, words), np.uint64)]
    slots, begins = blocks.slots(inside), blocks.begins.repeat(inside)
    for group in column_groups(len(orders), rows, MOVED_AT_ONCE):
        part = values[group].copy()  # what was read in one go is in a cache, and is then picked from twice as fast
        shared = moved(part, places[group].take(slots, axis=1) + begins)
        shared += opened.take(orders[group], axis=0)
        sums.append(run_sums(shared, lengths[ends[group.start] : ends[group.stop]]))
    return by_node(np.concatenate(sums), sizes, count)


def right_sums(
    once_seed: bytes,
    places: NDArray[Any],
    words: int,
    lengths: Ints,
    inside: Ints,
    sizes: tuple[int, ...],
    blocks: Blocks,
    first: int = 0,
) -> Ring:
    """The sums of b[σ], as nodes × bins × words."""
    (columns, rows), count = places.shape, sum(blocks.nodes)
    ends, sums = _ends(sizes, count), [np.empty((0, words), np.uint64)]
    slots, begins = blocks.slots(inside), blocks.begins.repeat(inside)
    if compiled := worthwhile(places.size * words):
        from unpooled.secure import kernels
    groups = column_groups(columns, rows, COMPILED_AT_ONCE if compiled else MOVED_AT_ONCE)
    shapes = [(group.stop - group.start, rows, words) for group in groups]
    once = expansions(once_seed, b"once", shapes, first * rows * words)
    for group, numbers in zip(groups, once, strict=True):
        if compiled:
            runs, widths = lengths[ends[group.start] : ends[group.stop]], _widths(sizes)[group]
            parts = blocks.begins, inside, np.array(blocks.nodes)
            sums.append(kernels.right_sums(numbers, places[group], runs, widths, *parts))
            continue
        shared = moved(numbers, places[group].take(slots, axis=1) + begins)
        sums.append(run_sums(shared, lengths[ends[group.start] : ends[group.stop]]))
    return by_node(np.concatenate(sums), sizes, count)


def lengths_fit(lengths: Ints, inside: Ints, sizes: tuple[int, ...], blocks: Blocks) -> bool:
    """Whether every column's runs in each block add up to its rows in nodes."""
    if lengths.size and int(lengths.view(np.uint64).max()) > inside.sum():  # negative ones are larger still
        return False
    totals = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=totals[1:])
    runs = np.zeros(len(sizes) * len(blocks.nodes) + 1, np.int64)
    np.cumsum(np.multiply.outer(_widths(sizes), np.array(blocks.nodes)), out=runs[1:])
    return bool((np.diff(totals[runs]).reshape(len(sizes), len(blocks.nodes)) == inside).all())


def places_fit(places: NDArray[Any], blocks: Blocks) -> bool:
    """Whether all positions are within their blocks."""
    each = zip(blocks.begins.tolist(), blocks.ends.tolist(), strict=True)
    return all(int(places[:, begin:end].max(initial=0)) < end - begin for begin, end in each if begin < end)


@lru_cache(maxsize=64)
def _widths(sizes: tuple[int, ...]) -> Ints:
    return np.array(sizes, np.int64)


@lru_cache(maxsize=64)
def _ends(sizes: tuple[int, ...], count: int) -> Ints:
    """Where the runs of each column begin, and the end of the last one."""
    return count * np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
