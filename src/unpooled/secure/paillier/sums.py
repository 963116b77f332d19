"""Sums over encrypted rows, and many of them packed into one ciphertext; on lists, in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints, Ints32, Ring
from unpooled.secure import mod64
from unpooled.secure.paillier.keys import PublicKey, add, add_many, numbers_in, shift
from unpooled.secure.paillier.layout import Layout
from unpooled.workers import in_order

T = TypeVar("T")
Progress = Callable[[int, int], None]

_ADDITIONS, _STACKS = 8192, 8  # to a chunk: 25 to 40 ms at 2048 bits
_BLOCK = 8192
_WIDEST_DIGIT = 12


def bin_sums(
    public: PublicKey,
    rows: Bytes,
    bins: NDArray[np.integer],
    sizes: Sequence[int],
    nodes: Ints32,
    count: int,
    progress: Progress,
) -> list[mpz]:
    """For each node and bin the sum of its rows, word by word; `rows` are rows × words × bytes."""
    words = rows.shape[1]
    orders, lengths = mod64.sort_rows(bins, sizes, nodes, count)
    order = orders.reshape(-1)
    work = ((rows[order[of_order]], lengths[runs]) for runs, of_order in runs_in(lengths, max(1, _ADDITIONS // words)))
    sums = flat(in_order(partial(_run_sums, public), work), len(lengths) * words, progress)
    places = mod64.run_places(tuple(sizes), count).reshape(-1).tolist()  # from sums by column to results by node
    return [c for place in places for c in sums[place * words : (place + 1) * words]]


def runs_in(lengths: Ints, most: int) -> Iterator[tuple[slice, slice]]:
    """Whole runs, about `most` rows at a time: which runs, and where they are in the order of rows."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    cuts = np.flatnonzero(np.diff(ends // most)) + 1
    for start, stop in pairwise(dict.fromkeys([0, *cuts.tolist(), len(lengths)])):
        yield slice(start, stop), slice(int(ends[start]), int(ends[stop]))


def _run_sums(public: PublicKey, work: tuple[Bytes, Ints]) -> list[mpz]:
    """The sum of each run of rows; that of none is a zero without noise."""
    rows, lengths = work
    words, ciphertexts = rows.shape[1], numbers_in(rows.tobytes(), rows.shape[2])
    return [
        add_many(public, ciphertexts[start + word : stop : words])
        for start, stop in pairwise([0, *(np.cumsum(lengths) * words).tolist()])
        for word in range(words)
    ]


def weighted_sums(public: PublicKey, rows: Bytes, weights: Ring, bits: int, progress: Progress) -> list[mpz]:
    """For each column of weights of `bits` bits, the sum of the rows times their weights, word by word."""
    words, width = rows.shape[1], weights.shape[1]
    blocks = [slice(top, top + _BLOCK) for top in range(0, len(rows), _BLOCK)]
    digit = _best_digit(min(len(rows), _BLOCK), bits)
    columns = max(1, _ADDITIONS // (1 + min(len(rows), _BLOCK) * words * -(-bits // digit)))
    work = (
        (rows[block], weights[block, start : start + columns]) for block in blocks for start in range(0, width, columns)
    )
    parts = flat(in_order(partial(_weighted_sums, public, bits, digit), work), len(blocks) * width * words, progress)
    return [add_many(public, parts[place :: width * words]) for place in range(width * words)]


def _weighted_sums(public: PublicKey, bits: int, digit: int, work: tuple[Bytes, Ring]) -> list[mpz]:
    rows, weights = work
    words, ciphertexts = rows.shape[1], numbers_in(rows.tobytes(), rows.shape[2])
    return [
        _weighted_sum(public, ciphertexts[word::words], column, bits, digit)
        for column in weights.T
        for word in range(words)
    ]


def _weighted_sum(public: PublicKey, ciphertexts: Sequence[mpz], weights: Ring, bits: int, digit: int) -> mpz:
    """One digit of the weights at a time: rows of the same digit go on one heap, and heap d is taken d times.

    Instead of taking each heap by itself, the sums of the highest heap, the two highest, and so on are added up.
    """
    n_squared, total = public.n_squared, mpz(1)
    for low in reversed(range(0, bits, digit)):
        heaps = [mpz(1)] * 2**digit
        numbers = weights >> np.uint64(low) & np.uint64(2**digit - 1)
        for c, number in zip(ciphertexts, numbers.tolist(), strict=True):
            heaps[number] = heaps[number] * c % n_squared
        above = taken = mpz(1)
        for heap in heaps[:0:-1]:
            above = above * heap % n_squared
            taken = taken * above % n_squared
        total = shift(public, total, digit) * taken % n_squared
    return total


def _best_digit(rows: int, bits: int) -> int:
    """What takes the fewest additions: a row is added once per digit, a heap twice."""
    return min(range(1, _WIDEST_DIGIT + 1), key=lambda digit: -(-bits // digit) * (rows + 2 * 2**digit))


def packed(public: PublicKey, cells: Sequence[mpz], layout: Layout, progress: Progress) -> list[mpz]:
    """Cells, word by word, as the ciphertexts of the layout."""
    size = layout.deep * layout.words
    stacks = [
        cells[start + word : start + size : layout.words]
        for start in range(0, len(cells), size)
        for word in range(layout.words)
    ]
    work = (stacks[start : start + _STACKS] for start in range(0, len(stacks), _STACKS))
    return flat(in_order(partial(_packed, public, layout.bits), work), len(stacks), progress)


def _packed(public: PublicKey, bits: int, stacks: Sequence[Sequence[mpz]]) -> list[mpz]:
    made = []
    for cells in stacks:
        total = mpz(1)
        for c in reversed(cells):
            total = add(public, shift(public, total, bits) if total != 1 else total, c)
        made.append(total)
    return made


def flat(parts: Iterable[Sequence[T]], total: int, progress: Progress) -> list[T]:
    """All parts in one list; reports progress."""
    found: list[T] = []
    for part in parts:
        found += part
        progress(len(found), total)
    return found
