"""Points of edwards25519 and their multiples in compiled loops, for `kernels`; importing this imports numba.

A point is four numbers: x · z, y · z, z and x · y · z. It is handled in a room for `LANES` points (see `field`),
all multiplied by the same secret. What is done, and where in memory, does not depend on the secret: of a table every
entry is read, and masks choose.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unpooled.align.curve.field import (
    LANES,
    NONE,
    SIZE,
    Block,
    Room,
    add,
    chosen,
    copy,
    load,
    minus,
    multiply,
    plus,
    settled,
    square,
    squared,
    store,
)
from unpooled.arrays import Bytes
from unpooled.compiled import inlined, lean

Masks = NDArray[np.uint32]
Table = NDArray[np.uint32]

ZERO, ONE, TWO, ROOT_OF_MINUS_ONE, D, TWICE_D, ONE_LESS_D_SQUARED, D_LESS_ONE_SQUARED = range(8)
ROOT_AD_LESS_ONE, INVERSE_ROOT_A_LESS_D = range(8, 10)
"""Where the constants are in a room."""
POINT, TOTAL, OTHER, ENTRY, PICKED, ROOTS, FLAGS = 10, 14, 18, 22, 26, 30, 36
"""Where points are, of four blocks each, what roots need, and masks of lanes."""
BLOCKS = 37

WINDOWS, ENTRIES = 64, 8
_1, _2, _3, _4, _5, _6, _7 = (SIZE * entry for entry in range(1, ENTRIES))


@lean
def masks_of(secret: Bytes, masks: Masks) -> None:
    """The secret's digits from -8 to 7, the lowest first; the last one is up to 8, and the 256th bit is left out.

    Of each, all bits or none: whether its absolute value is 0, 1, and so on to 8, and whether it is negative.
    """
    carry = np.int64(0)
    for window in range(WINDOWS):
        last = window == WINDOWS - 1
        digit = ((np.int64(secret[window // 2]) >> 4 * (window % 2)) & (7 if last else 15)) + carry
        if not last:
            carry = (digit + 8) >> 4
            digit -= carry << 4
        sign = digit >> 63
        size = (digit ^ sign) - sign
        for entry in range(ENTRIES + 1):
            masks[window, entry] = np.uint32((((size ^ entry) - 1) >> 63) & 0xFFFFFFFF)
        masks[window, ENTRIES + 1] = np.uint32(sign & 0xFFFFFFFF)


@lean
def _sum_and_difference(total: Block, less: Block, f: Block, g: Block) -> None:
    """f + g, two-fold, and f - g, three-fold."""
    for k in range(LANES):
        x, y = load(f, k), load(g, k)
        store(total, k, plus(x, y))
        store(less, k, minus(x, y))


@lean
def _square_twice(made: Block, z: Block, xx: Block, yy: Block) -> None:
    """2 · z² + xx - yy."""
    for k in range(LANES):
        zz = squared(load(z, k))
        store(made, k, settled(plus(plus(zz, zz), minus(load(xx, k), load(yy, k)))))


@lean
def _square_sum(made: Block, x: Block, y: Block, xx: Block, yy: Block) -> None:
    """(x + y)² - xx - yy."""
    for k in range(LANES):
        both = squared(plus(load(x, k), load(y, k)))
        store(made, k, settled(minus(minus(both, load(xx, k)), load(yy, k))))


@lean
def _double(made: Room, point: Room) -> None:
    """x · y · z is neither read nor made: it is the product of z and x of the point, which is overwritten."""
    x, y, z, t = point[0], point[1], point[2], point[3]
    square(made[0], x)
    square(made[1], y)
    _square_twice(t, z, made[0], made[1])
    _square_sum(z, x, y, made[0], made[1])
    _sum_and_difference(x, y, made[1], made[0])
    multiply(made[0], z, t)
    multiply(made[1], y, x)
    multiply(made[2], y, t)


@lean
def add_entry(made: Room, point: Room, entry: Room) -> None:
    """Add a point as `to_entry` makes it. The point is overwritten."""
    x, y, z, t = point[0], point[1], point[2], point[3]
    _sum_and_difference(made[1], made[0], y, x)
    multiply(made[2], made[0], entry[0])
    multiply(made[3], made[1], entry[1])
    _sum_and_difference(x, y, made[3], made[2])
    multiply(made[0], t, entry[2])
    multiply(made[1], z, entry[3])
    _sum_and_difference(z, t, made[1], made[0])
    multiply(made[0], y, t)
    multiply(made[1], z, x)
    multiply(made[2], t, z)
    multiply(made[3], y, x)


@lean
def to_entry(entry: Room, point: Room, room: Room) -> None:
    """A point as it is added to others: y - x, three-fold, y + x, 2 · d · x · y · z, and 2 · z."""
    _sum_and_difference(entry[1], entry[0], point[1], point[0])
    multiply(entry[2], point[3], room[TWICE_D])
    add(entry[3], point[2], point[2])


@lean
def _copy_point(made: Room, point: Room) -> None:
    for number in range(4):
        copy(made[number], point[number])


@lean
def _fill(room: Room, table: Table) -> None:
    """The point and its multiples up to the eighth; a line of the table has one number of all entries."""
    total, other = room[TOTAL : TOTAL + 4], room[OTHER : OTHER + 4]
    first, entry = room[ENTRY : ENTRY + 4], room[PICKED : PICKED + 4]
    _copy_point(total, room[POINT : POINT + 4])
    to_entry(first, total, room)
    for place in range(ENTRIES):
        to_entry(entry, total, room)
        for number in range(4):
            for k in range(SIZE):
                table[number, place * SIZE + k] = entry[number, k]
        add_entry(other, total, first)
        total, other = other, total


@lean
def _pick(made: Block, line: Table, none: Block, masks: Masks) -> None:
    """A number of the entry whose mask is set; `none` if it is the first mask."""
    m0, m1, m2, m3, m4 = masks[0], masks[1], masks[2], masks[3], masks[4]
    m5, m6, m7, m8 = masks[5], masks[6], masks[7], masks[8]
    for k in range(SIZE):
        made[k] = (
            (none[k] & m0)
            | (line[k] & m1)
            | (line[k + _1] & m2)
            | (line[k + _2] & m3)
            | (line[k + _3] & m4)
            | (line[k + _4] & m5)
            | (line[k + _5] & m6)
            | (line[k + _6] & m7)
            | (line[k + _7] & m8)
        )


@inlined
def _wide(mask: np.uint32) -> np.uint64:
    """A mask of twice as many bits, made such that no compiler sees that there are but two, and branches."""
    return np.uint64(mask) | (np.uint64(mask) << np.uint64(32))


@lean
def _swap(less: Block, more: Block, f: Block, g: Block, masks: Masks) -> None:
    """f and g, or g and f if the mask is set."""
    mask = _wide(masks[ENTRIES + 1])
    for k in range(SIZE):
        changed = (f[k] ^ g[k]) & mask
        less[k] = f[k] ^ changed
        more[k] = g[k] ^ changed


@lean
def _turn(made: Block, f: Block, masks: Masks) -> None:
    """f, or -f, two-fold, if the mask is set."""
    mask = _wide(masks[ENTRIES + 1])
    for k in range(LANES):
        number = load(f, k)
        store(made, k, chosen(mask, minus(NONE, number), number))


@lean
def raise_point(room: Room, masks: Masks, table: Table) -> None:
    """The point becomes its multiple by the secret."""
    _fill(room, table)
    total, other = room[TOTAL : TOTAL + 4], room[OTHER : OTHER + 4]
    entry, picked = room[ENTRY : ENTRY + 4], room[PICKED : PICKED + 4]
    copy(total[0], room[ZERO])
    copy(total[1], room[ONE])
    copy(total[2], room[ONE])
    copy(total[3], room[ZERO])
    for window in range(WINDOWS - 1, -1, -1):
        if window < WINDOWS - 1:
            _double(other, total)
            _double(total, other)
            _double(other, total)
            _double(total, other)
            multiply(total[3], other[2], other[0])
        of_window = masks[window]
        _pick(picked[0], table[0], room[ONE], of_window)
        _pick(picked[1], table[1], room[ONE], of_window)
        _pick(picked[2], table[2], room[ZERO], of_window)
        _pick(entry[3], table[3], room[TWO], of_window)
        _swap(entry[0], entry[1], picked[0], picked[1], of_window)
        _turn(entry[2], picked[2], of_window)
        add_entry(other, total, entry)
        total, other = other, total
    _copy_point(room[POINT : POINT + 4], total)
