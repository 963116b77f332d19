"""Numbers mod p = 2^255 - 19 in compiled loops, many side by side, for `kernels`; importing this imports numba.

A block is `LANES` numbers. Each is ten limbs, of 26 and 25 bits by turns, the lowest first; a block has the first limb
of all numbers, then the second of all, and so on, in words of 64 bits. So what a loop does to one number a processor
does to several at once: products of limbs are of 32 by 32 bits, and masks of 32 bits tell the compiler so.

Limbs may be larger than they should. A number is n-fold if no limb is above n times what its bits hold, and a hundredth
of that; results are one-fold but where it says otherwise. Sums of products fit 64 bits if one factor is n-fold, the
other m-fold and at most three-fold, and n · m is at most 30.

No branch and no place in memory depends on what is in a block. Blocks that are written must not be among those that
are read, or the loop is not done to several numbers at once.

numba keeps what it has compiled until a function's own file changes, so whoever changes this file has to delete what is
kept of `points` and `kernels` (`*.nbc` in `__pycache__`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unpooled.compiled import inlined, lean

Block = NDArray[np.uint64]
Room = NDArray[np.uint64]
"""Blocks one after the other."""

Limbs = tuple[
    np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64
]

LANES = 64
SIZE = 10 * LANES

_AT1, _AT2, _AT3, _AT4, _AT5, _AT6, _AT7, _AT8, _AT9 = (LANES * limb for limb in range(1, 10))
_LOW = np.uint64(2**32 - 1)
_MASK26, _MASK25 = np.uint64(2**26 - 1), np.uint64(2**25 - 1)
_26, _25 = np.uint64(26), np.uint64(25)
_0, _1, _4, _19, _63 = np.uint64(0), np.uint64(1), np.uint64(4), np.uint64(19), np.uint64(63)
_12, _13, _38, _51 = np.uint64(12), np.uint64(13), np.uint64(38), np.uint64(51)

NONE = (_0, _0, _0, _0, _0, _0, _0, _0, _0, _0)
_P0, _P_EVEN, _P_ODD = (np.uint64(2 * limb) for limb in (2**26 - 19, 2**26 - 1, 2**25 - 1))
"""The limbs of 2 · p: the lowest, the other even ones, the odd ones."""


@inlined
def load(f: Block, k: int) -> Limbs:
    return (
        f[k] & _LOW,
        f[k + _AT1] & _LOW,
        f[k + _AT2] & _LOW,
        f[k + _AT3] & _LOW,
        f[k + _AT4] & _LOW,
        f[k + _AT5] & _LOW,
        f[k + _AT6] & _LOW,
        f[k + _AT7] & _LOW,
        f[k + _AT8] & _LOW,
        f[k + _AT9] & _LOW,
    )


@inlined
def store(f: Block, k: int, limbs: Limbs) -> None:
    f[k], f[k + _AT1], f[k + _AT2], f[k + _AT3], f[k + _AT4] = limbs[:5]
    f[k + _AT5], f[k + _AT6], f[k + _AT7], f[k + _AT8], f[k + _AT9] = limbs[5:]


@inlined
def _by_19(limb: np.uint64) -> np.uint64:
    """By shifts, since multiplying words of 64 bits takes longer."""
    return _19 * limb


@inlined
def settled(limbs: Limbs) -> Limbs:
    """What is too much for a limb is carried to the next one; what is above 255 bits counts 19 times at the lowest."""
    h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 = limbs
    h1, h5 = h1 + (h0 >> _26), h5 + (h4 >> _26)
    h0, h4 = h0 & _MASK26, h4 & _MASK26
    h2, h6 = h2 + (h1 >> _25), h6 + (h5 >> _25)
    h1, h5 = h1 & _MASK25, h5 & _MASK25
    h3, h7 = h3 + (h2 >> _26), h7 + (h6 >> _26)
    h2, h6 = h2 & _MASK26, h6 & _MASK26
    h4, h8 = h4 + (h3 >> _25), h8 + (h7 >> _25)
    h3, h7 = h3 & _MASK25, h7 & _MASK25
    h5, h9 = h5 + (h4 >> _26), h9 + (h8 >> _26)
    h4, h8 = h4 & _MASK26, h8 & _MASK26
    h0, h9 = h0 + _by_19(h9 >> _25), h9 & _MASK25
    return h0 & _MASK26, h1 + (h0 >> _26), h2, h3, h4, h5, h6, h7, h8, h9


@inlined
def product(f: Limbs, g: Limbs) -> Limbs:
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = g
    m1, m2, m3 = _by_19(g1) & _LOW, _by_19(g2) & _LOW, _by_19(g3) & _LOW
    m4, m5, m6 = _by_19(g4) & _LOW, _by_19(g5) & _LOW, _by_19(g6) & _LOW
    m7, m8, m9 = _by_19(g7) & _LOW, _by_19(g8) & _LOW, _by_19(g9) & _LOW
    d1, d3, d5, d7, d9 = (f1 + f1) & _LOW, (f3 + f3) & _LOW, (f5 + f5) & _LOW, (f7 + f7) & _LOW, (f9 + f9) & _LOW
    return settled(
        (
            f0 * g0 + d1 * m9 + f2 * m8 + d3 * m7 + f4 * m6 + d5 * m5 + f6 * m4 + d7 * m3 + f8 * m2 + d9 * m1,
            f0 * g1 + f1 * g0 + f2 * m9 + f3 * m8 + f4 * m7 + f5 * m6 + f6 * m5 + f7 * m4 + f8 * m3 + f9 * m2,
            f0 * g2 + d1 * g1 + f2 * g0 + d3 * m9 + f4 * m8 + d5 * m7 + f6 * m6 + d7 * m5 + f8 * m4 + d9 * m3,
            f0 * g3 + f1 * g2 + f2 * g1 + f3 * g0 + f4 * m9 + f5 * m8 + f6 * m7 + f7 * m6 + f8 * m5 + f9 * m4,
            f0 * g4 + d1 * g3 + f2 * g2 + d3 * g1 + f4 * g0 + d5 * m9 + f6 * m8 + d7 * m7 + f8 * m6 + d9 * m5,
            f0 * g5 + f1 * g4 + f2 * g3 + f3 * g2 + f4 * g1 + f5 * g0 + f6 * m9 + f7 * m8 + f8 * m7 + f9 * m6,
            f0 * g6 + d1 * g5 + f2 * g4 + d3 * g3 + f4 * g2 + d5 * g1 + f6 * g0 + d7 * m9 + f8 * m8 + d9 * m7,
            f0 * g7 + f1 * g6 + f2 * g5 + f3 * g4 + f4 * g3 + f5 * g2 + f6 * g1 + f7 * g0 + f8 * m9 + f9 * m8,
            f0 * g8 + d1 * g7 + f2 * g6 + d3 * g5 + f4 * g4 + d5 * g3 + f6 * g2 + d7 * g1 + f8 * g0 + d9 * m9,
            f0 * g9 + f1 * g8 + f2 * g7 + f3 * g6 + f4 * g5 + f5 * g4 + f6 * g3 + f7 * g2 + f8 * g1 + f9 * g0,
        )
    )


@inlined
def squared(f: Limbs) -> Limbs:
    """Not settled; f is at most three-fold."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    d0, d1, d2, d3 = (f0 + f0) & _LOW, (f1 + f1) & _LOW, (f2 + f2) & _LOW, (f3 + f3) & _LOW
    d4, d5, d6, d7, d9 = (f4 + f4) & _LOW, (f5 + f5) & _LOW, (f6 + f6) & _LOW, (f7 + f7) & _LOW, (f9 + f9) & _LOW
    m5, m6, m7, m8, m9 = _by_19(d5) & _LOW, _by_19(f6) & _LOW, _by_19(d7) & _LOW, _by_19(f8) & _LOW, _by_19(d9) & _LOW
    return (
        f0 * f0 + d1 * m9 + d2 * m8 + d3 * m7 + d4 * m6 + f5 * m5,
        d0 * f1 + f2 * m9 + d3 * m8 + f4 * m7 + d5 * m6,
        d0 * f2 + d1 * f1 + d3 * m9 + d4 * m8 + d5 * m7 + f6 * m6,
        d0 * f3 + d1 * f2 + f4 * m9 + d5 * m8 + f6 * m7,
        d0 * f4 + d1 * d3 + f2 * f2 + d5 * m9 + d6 * m8 + f7 * m7,
        d0 * f5 + d1 * f4 + d2 * f3 + f6 * m9 + d7 * m8,
        d0 * f6 + d1 * d5 + d2 * f4 + d3 * f3 + d7 * m9 + f8 * m8,
        d0 * f7 + d1 * f6 + d2 * f5 + d3 * f4 + f8 * m9,
        d0 * f8 + d1 * d7 + d2 * f6 + d3 * d5 + f4 * f4 + f9 * m9,
        d0 * f9 + d1 * f8 + d2 * f7 + d3 * f6 + d4 * f5,
    )


@inlined
def plus(f: Limbs, g: Limbs) -> Limbs:
    """Of an n-fold and an m-fold number, (n + m)-fold."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = g
    return f0 + g0, f1 + g1, f2 + g2, f3 + g3, f4 + g4, f5 + g5, f6 + g6, f7 + g7, f8 + g8, f9 + g9


@inlined
def minus(f: Limbs, g: Limbs) -> Limbs:
    """f - g + 2 · p: of an n-fold f, (n + 2)-fold; g is one-fold."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = g
    return (
        f0 + _P0 - g0,
        f1 + _P_ODD - g1,
        f2 + _P_EVEN - g2,
        f3 + _P_ODD - g3,
        f4 + _P_EVEN - g4,
        f5 + _P_ODD - g5,
        f6 + _P_EVEN - g6,
        f7 + _P_ODD - g7,
        f8 + _P_EVEN - g8,
        f9 + _P_ODD - g9,
    )


@inlined
def chosen(mask: np.uint64, f: Limbs, g: Limbs) -> Limbs:
    """f where the mask is all ones, g where it is zero."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = g
    return (
        g0 ^ ((f0 ^ g0) & mask),
        g1 ^ ((f1 ^ g1) & mask),
        g2 ^ ((f2 ^ g2) & mask),
        g3 ^ ((f3 ^ g3) & mask),
        g4 ^ ((f4 ^ g4) & mask),
        g5 ^ ((f5 ^ g5) & mask),
        g6 ^ ((f6 ^ g6) & mask),
        g7 ^ ((f7 ^ g7) & mask),
        g8 ^ ((f8 ^ g8) & mask),
        g9 ^ ((f9 ^ g9) & mask),
    )


@inlined
def canonical(limbs: Limbs) -> Limbs:
    """The same number below p; this is one-fold."""
    h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 = limbs
    over = (h0 + _19) >> _26  # becomes 1 if the number is at least p, as adding 19 then reaches 2^255
    over = (h1 + over) >> _25
    over = (h2 + over) >> _26
    over = (h3 + over) >> _25
    over = (h4 + over) >> _26
    over = (h5 + over) >> _25
    over = (h6 + over) >> _26
    over = (h7 + over) >> _25
    over = (h8 + over) >> _26
    over = (h9 + over) >> _25
    h0 += _by_19(over)
    h1 += h0 >> _26
    h2 += h1 >> _25
    h3 += h2 >> _26
    h4 += h3 >> _25
    h5 += h4 >> _26
    h6 += h5 >> _25
    h7 += h6 >> _26
    h8 += h7 >> _25
    h9 += h8 >> _26
    return (
        h0 & _MASK26,
        h1 & _MASK25,
        h2 & _MASK26,
        h3 & _MASK25,
        h4 & _MASK26,
        h5 & _MASK25,
        h6 & _MASK26,
        h7 & _MASK25,
        h8 & _MASK26,
        h9 & _MASK25,
    )


@inlined
def is_zero(limbs: Limbs) -> np.uint64:
    """A mask: whether a canonical number is zero."""
    h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 = limbs
    return _0 - (((h0 | h1 | h2 | h3 | h4 | h5 | h6 | h7 | h8 | h9) - _1) >> _63)


@inlined
def is_negative(limbs: Limbs) -> np.uint64:
    """A mask: whether a canonical number is odd, which the standard calls negative."""
    return _0 - (limbs[0] & _1)


@inlined
def absolute(limbs: Limbs) -> Limbs:
    """The number or its negative, whichever is even, canonical; this is one-fold."""
    number = canonical(limbs)
    negative = canonical(settled(minus(NONE, number)))
    return chosen(is_negative(number), negative, number)


@inlined
def from_words(w0: np.uint64, w1: np.uint64, w2: np.uint64, w3: np.uint64) -> Limbs:
    """The lower 255 bits, the lowest word first."""
    return (
        w0 & _MASK26,
        (w0 >> _26) & _MASK25,
        ((w0 >> _51) | (w1 << _13)) & _MASK26,
        (w1 >> _13) & _MASK25,
        (w1 >> _38) & _MASK26,
        w2 & _MASK25,
        (w2 >> _25) & _MASK26,
        ((w2 >> _51) | (w3 << _13)) & _MASK25,
        (w3 >> _12) & _MASK26,
        (w3 >> _38) & _MASK25,
    )


@inlined
def to_words(limbs: Limbs) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Of a canonical number."""
    h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 = limbs
    return (
        h0 | (h1 << _26) | (h2 << _51),
        (h2 >> _13) | (h3 << _13) | (h4 << _38),
        h5 | (h6 << _25) | (h7 << _51),
        (h7 >> _13) | (h8 << _12) | (h9 << _38),
    )


@lean
def multiply(made: Block, f: Block, g: Block) -> None:
    """g is at most three-fold."""
    for k in range(LANES):
        store(made, k, product(load(f, k), load(g, k)))


@lean
def square(made: Block, f: Block) -> None:
    """f is at most three-fold."""
    for k in range(LANES):
        store(made, k, settled(squared(load(f, k))))


@lean
def add(made: Block, f: Block, g: Block) -> None:
    for k in range(LANES):
        store(made, k, settled(plus(load(f, k), load(g, k))))


@lean
def subtract(made: Block, f: Block, g: Block) -> None:
    """g is one-fold."""
    for k in range(LANES):
        store(made, k, settled(minus(load(f, k), load(g, k))))


@lean
def copy(made: Block, f: Block) -> None:
    for k in range(SIZE):
        made[k] = f[k]


@lean
def _square_often(made: Block, other: Block, f: Block, times: np.int64) -> None:
    """Square f so many times, at least twice; f may be `other` if the number is odd.

    The number is no plain one where this is called, as numba would compile it for each anew.
    """
    if times % 2:
        square(made, f)
    else:
        square(other, f)
        square(made, other)
    for _ in range((times - 1) // 2):
        square(other, made)
        square(made, other)


@lean
def raise_to_root(made: Block, f: Block, room: Room) -> None:
    """f to the power of (p - 5) / 8 = 2^252 - 3, by the usual chain."""
    a, b, c, d = room[0], room[1], room[2], room[3]
    square(a, f)
    _square_often(b, d, a, np.int64(2))
    multiply(c, f, b)  # f^9
    multiply(b, a, c)  # f^11
    square(a, b)
    multiply(b, c, a)  # f^(2^5 - 1)
    _square_often(a, d, b, np.int64(5))
    multiply(c, a, b)  # f^(2^10 - 1)
    _square_often(a, d, c, np.int64(10))
    multiply(b, a, c)  # f^(2^20 - 1)
    _square_often(a, d, b, np.int64(20))
    multiply(made, a, b)  # f^(2^40 - 1)
    _square_often(a, d, made, np.int64(10))
    multiply(b, a, c)  # f^(2^50 - 1)
    _square_often(a, d, b, np.int64(50))
    multiply(c, a, b)  # f^(2^100 - 1)
    _square_often(a, d, c, np.int64(100))
    multiply(made, a, c)  # f^(2^200 - 1)
    _square_often(a, d, made, np.int64(50))
    multiply(c, a, b)  # f^(2^250 - 1)
    _square_often(a, d, c, np.int64(2))
    multiply(made, a, f)
