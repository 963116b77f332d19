"""Ciphertexts as rows of limbs, for compiled loops (`kernels`), which take a fraction of the time.

All of it gives the same numbers as `keys` and `sums`, which do the work in short jobs, and where numba is not
installed. Loops release Python's lock, so threads share the work, and the table that noise is put together from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from unpooled import compiled
from unpooled.arrays import Bools, Bytes, Ints32
from unpooled.secure import mod64
from unpooled.secure.paillier.keys import Comb, PublicKey, exponent_bits, numbers_in, powers_in
from unpooled.secure.paillier.layout import Layout
from unpooled.secure.paillier.sums import Progress, runs_in
from unpooled.workers import in_order

Rows = NDArray[np.uint32]
Key = tuple[Rows, np.uint64, NDArray[np.uint64]]

BITS, STEP = 27, 8
"""Of a limb; how many limbs are multiplied at once. Sums of up to 1,000 products of limbs fit 64 bits."""

_SPARE_BITS = 32  # no number in rows is larger than n · 2^32
_MOST_BITS = 8192
_COMB, _COVER_COMB = (12, 8), (10, 16)  # teeth and depth; noise for rows is needed most, and pays for a larger table
_ADDITIONS, _STACKS = 8192, 8  # to a chunk: about 10 ms at 2048 bits
_BLOCK = 4096
_CELL = 8  # so many products of 64-bit words take about as long as what `compiled` counts as a cell


def worthwhile(public: PublicKey, multiplications: int) -> bool:
    """Whether to use compiled loops for so many multiplications mod n² more."""
    return public.bits <= _MOST_BITS and compiled.worthwhile(multiplications * (public.bits // 32) ** 2 // _CELL)


@dataclass(frozen=True, eq=False)
class Modulus:
    """A key as the kernels want it; `one` is R.

    `key` is a multiple of n that is -1 mod 2^BITS, how many times n it is, and a multiple of n in very large limbs.
    """

    public: PublicKey
    length: int
    key: Key
    one: Rows

    @property
    def bytes(self) -> int:
        """How many bytes hold a row of limbs, in whole words."""
        return -(-self.length * BITS // 64) * 8


@lru_cache(maxsize=4)
def modulus(public: PublicKey) -> Modulus:
    n = public.n
    length = -(-(public.bits + BITS + _SPARE_BITS) // (BITS * STEP)) * STEP
    r = mpz(1) << BITS * length
    times = -gmpy2.invert(n, 1 << BITS) % (1 << BITS)
    multiple = np.zeros(length + 2 * STEP, np.uint32)
    multiple[STEP:-STEP] = _limbs(times * n, length)
    large = 1 << 2 * BITS
    cover = np.full(length, large, np.uint64) + _limbs(-large * (r - 1) // (2**BITS - 1) % n, length)
    high, low = divmod(r % public.n_squared, n)
    one = np.array([_limbs(low, length), _limbs(high, length)], np.uint32)
    return Modulus(public, length, (multiple, np.uint64(int(times)), cover), one)


def _limbs(number: mpz, length: int) -> NDArray[np.uint64]:
    return np.array([int(number >> BITS * place) % 2**BITS for place in range(length)], np.uint64)


def rows_of(public: PublicKey, rows: Bytes) -> Rows:
    """Ciphertexts, rows × words × bytes, as rows × words × 2 × limbs."""
    of, (count, words, _) = modulus(public), rows.shape
    n, n_squared, bits = public.n, public.n_squared, BITS * of.length
    made = np.empty((count, words, 2, of.length), np.uint32)
    for start in range(0, count, _BLOCK):  # block by block, since numbers of gmpy2 take several times the memory
        block = rows[start : start + _BLOCK]
        halves = [divmod((c << bits) % n_squared, n) for c in numbers_in(block.tobytes(), public.width)]
        split = _split(of, [half for high, low in halves for half in (low, high)])
        made[start : start + _BLOCK] = split.reshape(len(block), words, 2, of.length)
    return made


def _split(of: Modulus, numbers: Sequence[mpz]) -> Rows:
    """Numbers mod n as rows of limbs."""
    from unpooled.secure.paillier import kernels

    data = b"".join(number.to_bytes(of.bytes, "little") for number in numbers)
    rows = np.empty((len(numbers), of.length), np.uint32)
    kernels.split(np.frombuffer(data, np.uint64).reshape(len(numbers), of.bytes // 8), rows)
    return rows


def ciphertexts_in(public: PublicKey, rows: Rows) -> list[mpz]:
    """The ciphertexts in numbers × 2 × limbs, which are changed."""
    from unpooled.secure.paillier import kernels

    of = modulus(public)
    kernels.leave(rows, of.key)
    words = np.zeros((2 * len(rows), of.bytes // 8), np.uint64)
    kernels.join(rows.reshape(-1, of.length), words)
    halves = numbers_in(words.tobytes(), of.bytes)
    n, n_squared = public.n, public.n_squared
    return [(low + high * n) % n_squared for low, high in zip(halves[::2], halves[1::2], strict=True)]


@dataclass(frozen=True, eq=False)
class NoiseRows:
    """A larger `NoiseTable`: entries of all blocks one after the other, the slopes times R."""

    comb: Comb
    lows: Rows
    slopes: Rows


@lru_cache(maxsize=4)
def noise_rows(public: PublicKey, *, cover: bool = False) -> NoiseRows:
    """It takes 28 MiB at 2048 bits, for covering noise 9, and is made once per process and key."""
    of, (teeth, depth) = modulus(public), _COVER_COMB if cover else _COMB
    comb = Comb(teeth, -(-exponent_bits(public, cover=cover) // (teeth * depth)), depth)
    r = mpz(1) << BITS * of.length
    lows, slopes = (np.empty((comb.blocks << comb.teeth, of.length), np.uint32) for _ in range(2))
    for number, entries in enumerate(powers_in(public, comb, r % public.n_squared)):
        block = slice(number << comb.teeth, (number + 1) << comb.teeth)
        lows[block] = _split(of, [low for low, _ in entries])
        slopes[block] = _split(of, [slope * r % public.n for _, slope in entries])
    return NoiseRows(comb, lows, slopes)


def noises(public: PublicKey, exponents: bytes, count: int, *, cover: bool = False) -> list[mpz]:
    """Noise with these exponents, as `keys.noises` makes it."""
    from unpooled.secure.paillier import kernels

    of, table = modulus(public), noise_rows(public, cover=cover)
    digits = table.comb.digits(exponents, count)
    firsts = np.arange(table.comb.blocks, dtype=np.uint32) << np.uint32(table.comb.teeth)
    made = np.empty((count, 2, of.length), np.uint32)
    kernels.comb(table.lows, table.slopes, np.ascontiguousarray(digits + firsts), of.one, of.key, made)
    return ciphertexts_in(public, made)


class Cells(NamedTuple):
    """Sums as cells × words × 2 × limbs; those that are not `filled` have no rows, and are zero without noise."""

    sums: Rows
    filled: Bools


def bin_sums(
    public: PublicKey,
    rows: Rows,
    bins: NDArray[np.integer],
    sizes: Sequence[int],
    nodes: Ints32,
    count: int,
    progress: Progress,
) -> Cells:
    """As `sums.bin_sums`; `rows` are rows × words × 2 × limbs."""
    from unpooled.secure.paillier import kernels

    of = modulus(public)
    orders, lengths = mod64.sort_rows(bins, sizes, nodes, count)
    order, sums = orders.reshape(-1), np.empty((len(lengths), *rows.shape[1:]), np.uint32)

    def add(part: tuple[slice, slice]) -> int:
        runs, of_order = part
        kernels.multiply_runs(rows, order[of_order], lengths[runs], of.key, sums[runs])
        return int(runs.stop)

    for done in in_order(add, runs_in(lengths, max(1, _ADDITIONS // rows.shape[1])), threads=True):
        progress(done, len(lengths))
    places = mod64.run_places(tuple(sizes), count).reshape(-1)  # from sums by column to results by node
    return Cells(sums.take(places, axis=0), lengths.take(places) > 0)


def packed(public: PublicKey, cells: Cells, layout: Layout, progress: Progress) -> list[mpz]:
    """As `sums.packed`."""
    from unpooled.secure.paillier import kernels

    of = modulus(public)
    places = np.full((layout.stacks, layout.deep), -1)
    places.reshape(-1)[: layout.cells] = np.where(cells.filled, np.arange(layout.cells), -1)
    stacks = np.empty((layout.stacks, layout.words, 2, of.length), np.uint32)
    stacks[:] = of.one

    def stack(part: slice) -> int:
        kernels.stack(cells.sums, places[part], layout.bits, of.key, stacks[part])
        return int(part.stop)

    parts = (slice(start, min(start + _STACKS, layout.stacks)) for start in range(0, layout.stacks, _STACKS))
    for done in in_order(stack, parts, threads=True):
        progress(done, layout.stacks)
    return ciphertexts_in(public, stacks.reshape(-1, 2, of.length))
