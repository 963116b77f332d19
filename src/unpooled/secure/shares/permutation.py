"""The arithmetic of permute and share: what the coordinator deals, and what the two holders compute (see `engine`).

A few columns are processed at a time, so that intermediate results stay in the processor's caches. Where a product goes
in portions of columns, `first` is the place of a portion's first column among all of them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

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


def dealt(order_seed: bytes, once_seed: bytes, mask: Ring, columns: int, first: int = 0) -> Ring:
    """Δ = V[ρ] - b, as columns × rows × words: for each column the mask in a random order, less random numbers."""
    rows, words = mask.shape
    values = np.empty((columns, rows, words), np.uint64)
    if compiled := worthwhile(values.size):
        from unpooled.secure import kernels
    groups = column_groups(columns, rows, COMPILED_AT_ONCE if compiled else SORTED_AT_ONCE)
    counts, before = [group.stop - group.start for group in groups], first * rows
    orders = shuffles(order_seed, b"order", [(count, rows) for count in counts], before)
    once = expansions(once_seed, b"once", [(count, rows, words) for count in counts], before * words)
    for group, order, numbers in zip(groups, orders, once, strict=True):
        if compiled:
            kernels.moved_less(mask, order, numbers, values[group])
        else:
            np.subtract(mask.take(order, axis=0), numbers, out=values[group])
    return values


def hidden_places(order_seed: bytes, orders: Places, nodes: Ints32, first: int = 0) -> Places:
    """σ: the positions of the rows, in the order of summation, within the dealt random orders.

    Rows outside all nodes come last: they are in no sum, but their number must not show.
    """
    (columns, inside), rows = orders.shape, len(nodes)
    outside = np.flatnonzero(nodes < 0)
    places = np.empty((columns, rows), np.uint32)
    if compiled := worthwhile(places.size):
        from unpooled.secure import kernels
    groups = column_groups(columns, rows, COMPILED_AT_ONCE if compiled else SORTED_AT_ONCE)
    numbers = np.tile(np.arange(rows, dtype=np.uint32), groups[0].stop if groups else 0)
    shuffled = shuffles(order_seed, b"order", [(group.stop - group.start, rows) for group in groups], first * rows)
    for group, order in zip(groups, shuffled, strict=True):
        if compiled:
            kernels.places_in(order, orders[group], outside, places[group])
            continue
        stands = np.empty(order.shape, np.uint32)
        stands.reshape(-1)[order + first_places(*order.shape)] = numbers[: order.size].reshape(order.shape)
        places[group, :inside] = moved(stands, orders[group])
        places[group, inside:] = stands.take(outside, axis=1)
    return places


def left_sums(
    values: Ring, opened: Ring, places: Places, orders: Places, lengths: Ints, sizes: tuple[int, ...], count: int
) -> Ring:
    """The sums of F[π] + Δ[σ], as nodes × bins × words."""
    columns, inside = orders.shape
    rows, words = opened.shape
    if worthwhile(values.size):
        from unpooled.secure import kernels

        return by_node(kernels.left_sums(values, opened, places, orders, lengths, _ends(sizes, count)), sizes, count)
    ends, sums = _ends(sizes, count), [np.empty((0, words), np.uint64)]
    for group in column_groups(columns, rows, MOVED_AT_ONCE):
        part = values[group].copy()  # what was read in one go is in a cache, and is then picked from twice as fast
        shared = moved(part, places[group, :inside])
        shared += opened.take(orders[group], axis=0)
        sums.append(run_sums(shared, lengths[ends[group.start] : ends[group.stop]]))
    return by_node(np.concatenate(sums), sizes, count)


def right_sums(
    once_seed: bytes,
    places: Places,
    words: int,
    lengths: Ints,
    inside: int,
    sizes: tuple[int, ...],
    count: int,
    first: int = 0,
) -> Ring:
    """The sums of b[σ], as nodes × bins × words."""
    columns, rows = places.shape
    ends, sums = _ends(sizes, count), [np.empty((0, words), np.uint64)]
    if compiled := worthwhile(places.size * words):
        from unpooled.secure import kernels
    groups = column_groups(columns, rows, COMPILED_AT_ONCE if compiled else MOVED_AT_ONCE)
    shapes = [(group.stop - group.start, rows, words) for group in groups]
    once = expansions(once_seed, b"once", shapes, first * rows * words)
    for group, numbers in zip(groups, once, strict=True):
        if compiled:
            runs = ends[group.start : group.stop + 1]
            sums.append(kernels.right_sums(numbers, places[group], lengths[runs[0] : runs[-1]], runs - runs[0]))
            continue
        shared = moved(numbers, places[group, :inside])
        sums.append(run_sums(shared, lengths[ends[group.start] : ends[group.stop]]))
    return by_node(np.concatenate(sums), sizes, count)


def lengths_fit(lengths: Ints, inside: int, sizes: tuple[int, ...], count: int) -> bool:
    """Whether every column's runs add up to the rows in nodes."""
    if lengths.size and int(lengths.view(np.uint64).max()) > inside:  # negative ones are larger still
        return False
    totals = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=totals[1:])
    return bool((totals[_ends(sizes, count)] == inside * np.arange(len(sizes) + 1)).all())


@lru_cache(maxsize=64)
def _ends(sizes: tuple[int, ...], count: int) -> Ints:
    """Where the runs of each column begin, and the end of the last one."""
    return count * np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
