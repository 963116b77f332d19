"""Sums and products mod 2^64, exactly: numpy's unsigned integers wrap around as they should.

Numbers that matter mod 2^(8·width) alone are computed mod 2^64 too, and sent without their upper bytes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints, Ints32, Ring
from unpooled.compiled import worthwhile
from unpooled.errors import ProtocolError

T = TypeVar("T", bound=np.generic)
Places = NDArray[np.uint32]

WORD_BYTES = 8
_LITTLE = sys.byteorder == "little"
_SORTING = 4  # what sorting a row takes, in rows that are added up
SORTED_AT_ONCE, MOVED_AT_ONCE, COMPILED_AT_ONCE = 2**13, 2**15, 2**17
"""How many rows of all columns together: more would not stay in the caches, and fewer take more calls of numpy."""


def product(x: Ring, y: Ring) -> Ring:
    """XᵀY; einsum goes through X row by row, which is several times as fast as numpy's product of its transpose."""
    if worthwhile(x.size * y.shape[1]):
        from unpooled.secure import kernels

        return np.ascontiguousarray(kernels.product(np.ascontiguousarray(x), np.ascontiguousarray(y)).T)
    result: Ring = np.ascontiguousarray(np.einsum("ij,ik->kj", x, y).T)
    return result


def row_products(x: Ring, y: Ring) -> Ring:
    """Each row of X times the same row of Y, rows × columns of X × columns of Y."""
    result: Ring = x[:, :, np.newaxis] * y[:, np.newaxis, :]
    return result


def fold(words: Ring, nodes: Ints32, count: int) -> Ring:
    """Y with a copy of its columns for each node, holding the rows of that node and zero elsewhere."""
    rows, width = words.shape
    folded = np.zeros((rows, count, width), np.uint64)
    inside = np.flatnonzero(nodes >= 0)
    folded[inside, nodes[inside]] = words[inside]
    return folded.reshape(rows, count * width)


def folded_less(words: Ring, nodes: Ints32, count: int, mask: Ring, width: int) -> Bytes:
    """Y with a copy of its columns for each node, less a mask, as it is sent."""
    if _LITTLE and width < WORD_BYTES and worthwhile(mask.size):
        from unpooled.secure import kernels

        data = np.empty(width * mask.size, np.uint8)
        kernels.folded_into_planes(
            np.ascontiguousarray(words), nodes, np.ascontiguousarray(mask), *_four_two_one(data, _planes(data, width))
        )
        return data.reshape(width, *mask.shape)
    return to_bytes(fold(words, nodes, count) - mask, width)


def node_sums(words: Ring, nodes: Ints32, count: int) -> Ring:
    """The sum of the rows of each node, as nodes × words."""
    if worthwhile(words.size):
        from unpooled.secure import kernels

        return kernels.node_sums(words, nodes, count)
    inside = np.flatnonzero(nodes >= 0)
    return bin_sums(nodes.take(inside)[:, np.newaxis], [count], words.take(inside, axis=0))


def unfold(sums: Ring, count: int) -> Ring:
    """From bins × (nodes · words) to nodes × bins × words."""
    bins, width = sums.shape
    return np.ascontiguousarray(sums.reshape(bins, count, width // count if count else 0).transpose(1, 0, 2))


def column_groups(columns: int, rows: int, at_once: int = SORTED_AT_ONCE) -> list[slice]:
    """Columns to be worked on together: many where they are short, one by one where they fill the caches."""
    step = max(1, at_once // max(1, rows))
    return [slice(start, min(start + step, columns)) for start in range(0, columns, step)]


def sort_rows(bins: NDArray[Any], sizes: Sequence[int], nodes: Ints32, count: int) -> tuple[Places, Ints]:
    """For each column the rows that are in a node, sorted by node and bin, and how many each run has.

    Run lengths are ordered by column, then node, then bin.
    """
    if worthwhile(_SORTING * bins.size):
        from unpooled.secure import kernels

        return kernels.sort_rows(np.asfortranarray(bins), np.array(sizes, np.int64), nodes, count)
    inside = np.flatnonzero(nodes >= 0)
    if all_inside := len(inside) == len(nodes):
        node, by_column = nodes, bins.T
    else:
        node, by_column = nodes[inside], bins.take(inside, axis=0).T
    kind = np.min_scalar_type(count * max(sizes, default=0))  # numpy sorts 16 bits and fewer by counting
    node, widths = node.astype(kind), np.array(sizes, kind)[:, np.newaxis]
    firsts = count * (np.cumsum(sizes, dtype=np.int64) - sizes)[:, np.newaxis]
    orders, lengths = np.empty((len(sizes), len(inside)), np.uint32), [np.empty(0, np.int64)]
    for group in column_groups(len(sizes), len(inside)):
        places = by_column[group].astype(kind, order="C")
        places += widths[group] * node
        order = places.argsort(axis=1, kind="stable")
        orders[group] = order if all_inside else inside.take(order)
        runs = places + (firsts[group] - firsts[group.start])
        lengths.append(np.bincount(runs.reshape(-1), minlength=count * sum(sizes[group])))
    return orders, np.concatenate(lengths)


def run_sums(values: Ring, lengths: Ints) -> Ring:
    """Sums of runs, as runs × words, in the order of `sort_rows`; `values` are columns × rows × words."""
    columns, rows, words = values.shape
    sums = np.zeros((len(lengths), words), np.uint64)
    (filled,) = lengths.nonzero()  # reduceat would give an empty run the value at its start
    if filled.size:
        starts = (np.cumsum(lengths) - lengths)[filled]
        sums[filled] = np.add.reduceat(values.reshape(columns * rows, words), starts, axis=0)
    return sums


def moved(values: NDArray[T], orders: Places | Ints) -> NDArray[T]:
    """For each column its rows in its order; `values` are columns × rows, and perhaps words."""
    columns, rows = values.shape[:2]
    places = orders if columns == 1 else orders + first_places(columns, rows)
    return values.reshape(columns * rows, *values.shape[2:]).take(places, axis=0)


def first_places(columns: int, rows: int) -> Ints:
    """Where each column begins if all are concatenated; columns × 1."""
    return (np.arange(columns) * rows)[:, np.newaxis]


def by_node(sums: Ring, sizes: tuple[int, ...], count: int) -> Ring:
    """Sums of runs, in the order of `sort_rows`, as nodes × bins × words."""
    return sums.take(run_places(sizes, count), axis=0)


def run_places(sizes: tuple[int, ...], count: int) -> Ints:
    """For each node and bin of all columns, the position of its run in the order of `sort_rows`."""
    firsts, widths = _columns_of_bins(sizes)
    places: Ints = np.arange(count)[:, np.newaxis] * widths
    places += np.arange(len(widths)) + (count - 1) * firsts
    return places


@lru_cache(maxsize=16)
def _columns_of_bins(sizes: tuple[int, ...]) -> tuple[Ints, Ints]:
    """For each bin of all columns the first bin of its column, and how many the column has."""
    widths = np.array(sizes, np.int64)
    return np.repeat(np.cumsum(widths) - widths, widths), np.repeat(widths, widths)


def bin_sums(bins: NDArray[Any], sizes: Sequence[int], words: Ring) -> Ring:
    """onehot(bins)ᵀ · words: the sum of the rows of each bin, as bins × words."""
    if worthwhile(bins.size * words.shape[1]):
        from unpooled.secure import kernels

        widths = np.array(sizes, np.int64)
        firsts = np.cumsum(widths) - widths
        return kernels.bin_sums(np.ascontiguousarray(bins), firsts, sum(sizes), np.ascontiguousarray(words))
    nodes = np.zeros(len(bins), np.int32)
    sums = [np.empty((0, words.shape[1]), np.uint64)]
    for column, size in enumerate(sizes):  # one by one: all columns' words at once would not fit the caches
        orders, lengths = sort_rows(bins[:, column : column + 1], [size], nodes, 1)
        sums.append(run_sums(words[orders], lengths))
    return np.concatenate(sums)


def one_hot(bins: NDArray[Any], sizes: Sequence[int]) -> Ring:
    """Bins as a matrix of 0 and 1, rows × bins of all columns."""
    matrix = np.zeros((len(bins), sum(sizes)), np.uint64)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.empty(0, np.int64)
    np.put_along_axis(matrix, bins.astype(np.int64) + offsets, np.uint64(1), axis=1)
    return matrix


def lower_bytes(values: Ring, width: int) -> Ring:
    """Numbers mod 2^(8·width)."""
    return values & np.uint64(2 ** (8 * width) - 1)


def to_bytes(values: Ring, width: int = WORD_BYTES) -> Bytes:
    """Numbers mod 2^(8·width) as they are sent, width × the shape: all lower halves first, then what is above them."""
    flat = np.ascontiguousarray(values).reshape(-1)
    data = np.empty(width * flat.size, np.uint8)
    planes = _planes(data, width)
    if _LITTLE and width < WORD_BYTES and worthwhile(flat.size):
        from unpooled.secure import kernels

        kernels.into_planes(flat, *_four_two_one(data, planes))
    else:
        for plane, above in planes:
            np.copyto(plane, flat >> above if above else flat, "unsafe")
    return data.reshape(width, *values.shape)


def from_bytes(data: Bytes, shape: tuple[int, ...], sender: str | None, width: int = WORD_BYTES) -> Ring:
    """Numbers that arrived, which must be as many as expected."""
    if data.shape != (width, *shape):
        raise ProtocolError(f"invalid numbers from {sender}: shape {data.shape}, expected {(width, *shape)}")
    values = np.empty(math.prod(shape), np.uint64)
    flat = np.ascontiguousarray(data).reshape(-1)
    planes = _planes(flat, width)
    if _LITTLE and width < WORD_BYTES and worthwhile(values.size):
        from unpooled.secure import kernels

        kernels.from_planes(values, *_four_two_one(flat, planes))
        return values.reshape(shape)
    for plane, above in planes:
        if above:
            values |= np.left_shift(plane, above, dtype=np.uint64)
        else:
            values[:] = plane
    return values.reshape(shape)


def listed(data: Bytes, shape: tuple[int, ...], sender: str, width: int = WORD_BYTES) -> Ring:
    """Numbers of a contribution, which comes as a list."""
    if data.shape != (width * math.prod(shape),):
        raise ProtocolError(f"invalid Contribution from {sender}: wrong size")
    return from_bytes(data.reshape(width, *shape), shape, sender, width)


def _planes(data: Bytes, width: int) -> list[tuple[NDArray[Any], np.uint64]]:
    """The parts of 8, 4, 2 and 1 bytes of words of so many bytes, and how far to the left each stands in its word."""
    found, above, count = [], 0, data.size // width
    for size in (8, 4, 2, 1):
        if width & size:
            found.append((data[above * count : (above + size) * count].view(f"<u{size}"), np.uint64(8 * above)))
            above += size
    return found


def _four_two_one(data: Bytes, planes: list[tuple[NDArray[Any], np.uint64]]) -> tuple[Any, ...]:
    """The planes of 4, 2 and 1 bytes, empty where there is none, and how far to the left the last two stand."""
    by_size = {plane.itemsize: (plane, above) for plane, above in planes}
    each = [by_size.get(size, (data[:0].view(f"<u{size}"), np.uint64(0))) for size in (4, 2, 1)]
    return (*(plane for plane, _ in each), each[1][1], each[2][1])
