"""Sums and products mod 2^64, exactly: numpy's unsigned integers wrap around as they should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.codec import Ints, Ints32, Ring


def product(x: Ring, y: Ring) -> Ring:
    """XᵀY; the layout of the copies makes numpy's loops several times as fast."""
    result: Ring = np.ascontiguousarray(x.T) @ np.asfortranarray(y)
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
    columns, rows, width = values.shape
    total = np.zeros((columns, rows + 1, width), np.uint64)
    np.cumsum(values, axis=1, out=total[:, 1:])
    result = np.empty((count, sum(sizes), width), np.uint64)
    begin = offset = 0
    for column, size in enumerate(sizes):
        ends = np.concatenate([[0], np.cumsum(lengths[begin : begin + count * size])])
        sums = total[column, ends[1:]] - total[column, ends[:-1]]
        result[:, offset : offset + size] = sums.reshape(count, size, width)
        begin, offset = begin + count * size, offset + size
    return result


def bin_sums(bins: NDArray[Any], sizes: Sequence[int], words: Ring) -> Ring:
    """onehot(bins)ᵀ · words: the sum of the rows of each bin, as bins × words."""
    nodes = np.zeros(len(bins), np.int32)
    orders, lengths = sort_rows(bins, sizes, nodes, 1)
    sums: Ring = run_sums(words[orders], lengths, sizes, 1)[0]
    return sums


def one_hot(bins: NDArray[Any], sizes: Sequence[int]) -> Ring:
    """The matrix that the bins stand for, rows × bins of all columns."""
    matrix = np.zeros((len(bins), sum(sizes)), np.uint64)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.empty(0, np.int64)
    np.put_along_axis(matrix, bins.astype(np.int64) + offsets, np.uint64(1), axis=1)
    return matrix
