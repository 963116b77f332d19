"""Sums and products mod 2^64, exactly: numpy's unsigned integers wrap around as they should."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.codec import Bytes, Ints, Ints32, Ring
from unpooled.errors import ProtocolError


def product(x: Ring, y: Ring) -> Ring:
    """XᵀY; einsum goes through X row by row, which is several times as fast as numpy's product of its transpose."""
    result: Ring = np.ascontiguousarray(np.einsum("ij,ik->kj", x, y).T)
    return result


def fold(words: Ring, nodes: Ints32, count: int) -> Ring:
    """Y with a copy of its columns for each node, holding the rows of that node and zero elsewhere."""
    rows, width = words.shape
    folded = np.zeros((rows, count, width), np.uint64)
    inside = np.flatnonzero(nodes >= 0)
    folded[inside, nodes[inside]] = words[inside]
    return folded.reshape(rows, count * width)


def unfold(sums: Ring, count: int) -> Ring:
    """From bins × (nodes · words) to nodes × bins × words."""
    bins, width = sums.shape
    return np.ascontiguousarray(sums.reshape(bins, count, width // count if count else 0).transpose(1, 0, 2))


def sort_rows(bins: NDArray[Any], sizes: Sequence[int], nodes: Ints32, count: int) -> tuple[Ints, Ints]:
    """For each column the rows sorted by node and bin, rows outside all nodes last, and how many each run has.

    Run lengths stand column by column, in each by node, then bin.
    """
    rows, columns = bins.shape
    orders = np.empty((columns, rows), np.int64)
    lengths = []
    for column, size in enumerate(sizes):
        place = np.where(nodes >= 0, nodes.astype(np.int64) * size + bins[:, column].astype(np.int64), count * size)
        narrow = place.astype(np.uint16) if count * size < 2**16 else place  # numpy sorts these by counting
        orders[column] = np.argsort(narrow, kind="stable")
        lengths.append(np.bincount(place, minlength=count * size + 1)[: count * size])
    return orders, np.concatenate(lengths) if lengths else np.empty(0, np.int64)


def run_sums(values: Ring, lengths: Ints, sizes: Sequence[int], count: int) -> Ring:
    """Sums of runs, as nodes × bins × words; `values` are columns × rows × words in the order of `sort_rows`."""
    width = values.shape[-1]
    result = np.empty((count, sum(sizes), width), np.uint64)
    begin = offset = 0
    for column, size in enumerate(sizes):
        runs = lengths[begin : begin + count * size]
        ends, filled = np.cumsum(runs), np.flatnonzero(runs)  # reduceat would give an empty run the value at its start
        sums = np.zeros((count * size, width), np.uint64)
        if filled.size:
            sums[filled] = np.add.reduceat(values[column, : ends[-1]], (ends - runs)[filled], axis=0)
        result[:, offset : offset + size] = sums.reshape(count, size, width)
        begin, offset = begin + count * size, offset + size
    return result


def moved(values: Ring, orders: NDArray[Any]) -> Ring:
    """For each column the rows in its order, as columns × rows × words; `values` are per column or serve for all."""
    result = np.empty((*orders.shape, values.shape[-1]), np.uint64)
    for column, order in enumerate(orders):
        source = values[column] if values.ndim == 3 else values
        np.take(source, order, axis=0, out=result[column], mode="clip")  # without clip numpy makes a copy first
    return result


def bin_sums(bins: NDArray[Any], sizes: Sequence[int], words: Ring) -> Ring:
    """onehot(bins)ᵀ · words: the sum of the rows of each bin, as bins × words."""
    nodes = np.zeros(len(bins), np.int32)
    sums = [np.empty((0, words.shape[1]), np.uint64)]
    for column, size in enumerate(sizes):  # one by one: all columns' words at once would not fit the caches
        orders, lengths = sort_rows(bins[:, column : column + 1], [size], nodes, 1)
        sums.append(run_sums(words[orders], lengths, [size], 1)[0])
    return np.concatenate(sums)


def one_hot(bins: NDArray[Any], sizes: Sequence[int]) -> Ring:
    """The matrix that the bins stand for, rows × bins of all columns."""
    matrix = np.zeros((len(bins), sum(sizes)), np.uint64)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.empty(0, np.int64)
    np.put_along_axis(matrix, bins.astype(np.int64) + offsets, np.uint64(1), axis=1)
    return matrix


def to_bytes(values: Ring) -> Bytes:
    """Numbers as they travel."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def from_bytes(data: Bytes, shape: tuple[int, ...], sender: str) -> Ring:
    """Numbers that arrived, which must be as many as expected."""
    if data.ndim != 1 or data.size != 8 * math.prod(shape):
        raise ProtocolError(f"{sender} sent a Contribution of the wrong size")
    return np.frombuffer(data.tobytes(), np.uint64).reshape(shape)
