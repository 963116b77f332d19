"""Arithmetic mod n² in compiled loops, for `limbs`; importing this imports numba.

A number mod n is a row of limbs of `BITS` bits, the lowest first, in 32-bit words; their count is a multiple of
`STEP`. It need not be below n, but is below n · 2^32. A ciphertext c is two such rows, c = low + high · n mod n², and
is kept times R, which is 2 to the power of all bits of a row: then a product can be divided by R (Montgomery's way)
instead of by n².

Columns of 64 bits collect the products of limbs, and carries are taken at the end. `STEP` limbs are multiplied at
once, which compilers turn into vector instructions. No branch depends on what is in a ciphertext.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unpooled.compiled import compiled
from unpooled.secure.paillier.limbs import BITS, STEP

Rows = NDArray[np.uint32]
Columns = NDArray[np.uint64]
Places = NDArray[np.int64]
Key = tuple[Rows, np.uint64, Columns]
Scratch = tuple[Rows, Rows, Columns, Columns, Columns]

_BITS, _MASK = np.uint64(BITS), np.uint64(2**BITS - 1)
_WORD = np.uint64(64)


@compiled
def split(words: Columns, rows: Rows) -> None:
    """Numbers of 64-bit words as rows of limbs."""
    for number in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            word, below = divmod(place * BITS, 64)
            limb = words[number, word] >> np.uint64(below)
            if below + BITS > 64:
                limb |= words[number, word + 1] << (_WORD - np.uint64(below))
            rows[number, place] = limb & _MASK


@compiled
def join(rows: Rows, words: Columns) -> None:
    """Rows of limbs as numbers of 64-bit words, which must be zero before."""
    for number in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            word, below = divmod(place * BITS, 64)
            limb = np.uint64(rows[number, place])
            words[number, word] |= limb << np.uint64(below)
            if below + BITS > 64:
                words[number, word + 1] |= limb >> (_WORD - np.uint64(below))


@compiled
def _add_product(columns: Columns, x: Rows, y: Rows) -> None:
    """Add x · y; x has `STEP` zeros before and after it."""
    length = len(y)
    for low in range(0, length, STEP):
        y0, y1, y2, y3 = np.uint64(y[low]), np.uint64(y[low + 1]), np.uint64(y[low + 2]), np.uint64(y[low + 3])
        y4, y5, y6, y7 = np.uint64(y[low + 4]), np.uint64(y[low + 5]), np.uint64(y[low + 6]), np.uint64(y[low + 7])
        part = columns[low : low + length + STEP]
        for k in range(len(part)):
            at = k + STEP
            part[k] += (
                y0 * np.uint64(x[at])
                + y1 * np.uint64(x[at - 1])
                + y2 * np.uint64(x[at - 2])
                + y3 * np.uint64(x[at - 3])
                + y4 * np.uint64(x[at - 4])
                + y5 * np.uint64(x[at - 5])
                + y6 * np.uint64(x[at - 6])
                + y7 * np.uint64(x[at - 7])
            )


@compiled
def _settle(columns: Columns, row: Rows) -> None:
    """Columns as limbs: what is more than a limb is carried to the next one."""
    carry = np.uint64(0)
    for k in range(len(row)):
        carry += columns[k]
        row[k] = carry & _MASK
        carry >>= _BITS


@compiled
def _divide(columns: Columns, multiple: Rows, factors: Columns, quotient: Rows) -> None:
    """Divide by R mod n: add what makes the lower half zero, and move the upper half down to `quotient`.

    A multiple of n that is -1 mod 2^BITS is added as many times as `factors` say: each of these is a limb as it stands.
    The multiple has `STEP` zeros before and after it.
    """
    length = len(quotient)
    for low in range(0, length, STEP):
        carry = np.uint64(0)
        for r in range(STEP):
            column = columns[low + r] + carry
            for s in range(r):
                column += factors[low + s] * np.uint64(multiple[STEP + r - s])
            factors[low + r] = column & _MASK
            carry = (column >> _BITS) + factors[low + r]
        f0, f1, f2, f3 = factors[low], factors[low + 1], factors[low + 2], factors[low + 3]
        f4, f5, f6, f7 = factors[low + 4], factors[low + 5], factors[low + 6], factors[low + 7]
        part = columns[low + STEP : low + STEP + length]
        for k in range(len(part)):
            at = k + 2 * STEP
            part[k] += (
                (f0 & _MASK) * np.uint64(multiple[at])
                + (f1 & _MASK) * np.uint64(multiple[at - 1])
                + (f2 & _MASK) * np.uint64(multiple[at - 2])
                + (f3 & _MASK) * np.uint64(multiple[at - 3])
                + (f4 & _MASK) * np.uint64(multiple[at - 4])
                + (f5 & _MASK) * np.uint64(multiple[at - 5])
                + (f6 & _MASK) * np.uint64(multiple[at - 6])
                + (f7 & _MASK) * np.uint64(multiple[at - 7])
            )
        part[0] += carry
    _settle(columns[length:], quotient)


@compiled
def _scratch(length: int) -> Scratch:
    """Two padded rows, columns of a low and a high product, and factors."""
    x, y = np.zeros(length + 2 * STEP, np.uint32), np.zeros(length + 2 * STEP, np.uint32)
    return x, y, np.zeros(2 * length, np.uint64), np.zeros(2 * length, np.uint64), np.zeros(length, np.uint64)


@compiled
def _pad(padded: Rows, row: Rows) -> None:
    for k in range(len(row)):
        padded[STEP + k] = row[k]


@compiled
def _take(a: Rows, key: Key, scratch: Scratch) -> None:
    """a becomes what is in the columns, divided by R; the columns become zero.

    The lower ones are r · R - f · t · n, where t · n is the multiple of n that the division adds f times; so f · t is
    taken off the higher ones, and another multiple of n keeps these above zero.
    """
    multiple, times, cover = key
    _, _, lows, highs, factors = scratch
    _divide(lows, multiple, factors, a[0])
    for k in range(len(cover)):
        highs[k] += cover[k] - (times & _MASK) * (factors[k] & _MASK)
    _divide(highs, multiple, factors, a[1])
    lows[:] = 0
    highs[:] = 0


@compiled
def _multiply_low(a: Rows, low: Rows, key: Key, scratch: Scratch) -> None:
    """a becomes a · b, where b has no higher part."""
    x, _, lows, highs, _ = scratch
    _pad(x, low)
    _add_product(lows, x, a[0])
    _add_product(highs, x, a[1])
    _take(a, key, scratch)


@compiled
def _multiply(a: Rows, b: Rows, key: Key, scratch: Scratch) -> None:
    """a becomes a · b; both are low and high, and what their high parts give is a multiple of n²."""
    x, y, lows, highs, _ = scratch
    _pad(x, a[0])
    _pad(y, b[0])
    _add_product(lows, y, a[0])
    _add_product(highs, y, a[1])
    _add_product(highs, x, b[1])
    _take(a, key, scratch)


@compiled
def _square(a: Rows, key: Key, scratch: Scratch) -> None:
    for k in range(a.shape[1]):
        a[1, k] *= np.uint32(2)
    _multiply_low(a, a[0], key, scratch)


@compiled
def leave(numbers: Rows, key: Key) -> None:
    """From c · R to c."""
    scratch, one = _scratch(numbers.shape[2]), np.zeros(numbers.shape[2], np.uint32)
    one[0] = 1
    for number in range(len(numbers)):
        _multiply_low(numbers[number], one, key, scratch)


@compiled
def multiply_runs(numbers: Rows, order: Rows, lengths: Places, key: Key, products: Rows) -> None:
    """For each run of places in `order` the product of the numbers there, word by word; of none it stays as it is."""
    scratch, begin = _scratch(numbers.shape[3]), 0
    for run in range(len(lengths)):
        end = begin + lengths[run]
        for word in range(numbers.shape[1] if end > begin else 0):
            product = products[run, word]
            product[:] = numbers[order[begin], word]
            for place in range(begin + 1, end):
                _multiply(product, numbers[order[place], word], key, scratch)
        begin = end


@compiled
def stack(cells: Rows, places: Places, bits: int, key: Key, stacks: Rows) -> None:
    """For each line of places the cells there, word by word, each shifted by `bits` against the one before.

    A negative place is an empty cell; where all are empty, the stack stays as it is.
    """
    scratch = _scratch(cells.shape[3])
    for number in range(len(places)):
        for word in range(cells.shape[1]):
            total, empty = stacks[number, word], True
            for place in places[number, ::-1]:
                for _ in range(0 if empty else bits):
                    _square(total, key, scratch)
                if place >= 0 and empty:
                    total[:] = cells[place, word]
                    empty = False
                elif place >= 0:
                    _multiply(total, cells[place, word], key, scratch)


@compiled
def comb(lows: Rows, slopes: Rows, places: Rows, one: Rows, key: Key, noises: Rows) -> None:
    """Noise from a table: for each, line by line, the product of the entries at `places`, squared between the lines.

    An entry is low · (1 + slope · n), see `keys.NoiseTable`, with its slope times R. `one` is R.
    """
    length = lows.shape[1]
    scratch, total, sloped = _scratch(length), np.empty(length, np.uint64), one.copy()
    for number in range(len(places)):
        noise = noises[number]
        noise[:] = 0
        total[:] = 0
        for line in range(places.shape[1]):
            if line:
                _square(noise, key, scratch)
            for k in range(length):
                total[k] *= np.uint64(2)
            for block in range(places.shape[2]):
                entry = places[number, line, block]
                if line or block:
                    _multiply_low(noise, lows[entry], key, scratch)
                else:
                    noise[0] = lows[entry]
                for k in range(length):
                    total[k] += np.uint64(slopes[entry, k])
        for k in range(length):
            total[k] += np.uint64(one[1, k])
        _settle(total, sloped[1])
        _multiply(noise, sloped, key, scratch)
