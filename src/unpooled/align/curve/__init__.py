"""ristretto255 on many points at once, by compiled loops (`kernels`): the same bytes as libsodium's."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Bytes

LIMBS = 10

_LINE = 64
"""Bytes that a processor's cache keeps together; what is written should not begin in the middle of them."""
_P = 2**255 - 19
_ROOT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_AD_LESS_ONE = 25063068953384623474111414158702152701244531502492656460079210482610430750235
_INVERSE_ROOT_A_LESS_D = 54469307008909316920995813868745141605393597292927456921205312896311721017578


def _new_room() -> NDArray[np.uint64]:
    """What `kernels` works in, with the constants in the first blocks."""
    from unpooled.align.curve.field import SIZE
    from unpooled.align.curve.points import BLOCKS

    length = BLOCKS * SIZE
    space = np.zeros(length + _LINE // 8, np.uint64)
    skipped = -space.ctypes.data // 8 % (_LINE // 8)
    room = space[skipped : skipped + length].reshape(BLOCKS, SIZE)
    for place, number in enumerate(_constants()):
        room[place] = np.repeat(limbs(number), SIZE // LIMBS)
    return room


def _new_table() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """For a secret's digits, and for multiples of points."""
    from unpooled.align.curve.field import SIZE
    from unpooled.align.curve.points import ENTRIES, WINDOWS

    return np.empty((WINDOWS, ENTRIES + 2), np.uint32), np.empty((4, ENTRIES * SIZE), np.uint32)


@cache
def _constants() -> list[int]:
    numbers = [0, 1, 2, _ROOT_OF_MINUS_ONE, _D, 2 * _D % _P, (1 - _D**2) % _P, (_D - 1) ** 2 % _P]
    return [*numbers, _ROOT_AD_LESS_ONE, _INVERSE_ROOT_A_LESS_D]


def limbs(number: int) -> NDArray[np.uint64]:
    """A number mod p, of 26 and 25 bits by turns."""
    found = []
    for place in range(LIMBS):
        bits = 26 - place % 2
        found.append(number % 2**bits)
        number >>= bits
    return np.array(found, np.uint64)


def raised_digests(secret: bytes, digests: bytes) -> Bytes:
    """Digests of 64 bytes as points, multiplied by the secret."""
    from unpooled.align.curve import kernels

    words = _words(np.frombuffer(digests, np.uint8), 8)
    made = np.empty((len(words), 4), np.uint64)
    kernels.raise_digests(words, np.frombuffer(secret, np.uint8), *_new_table(), _new_room(), made)
    return _bytes(made)


def raised(secret: bytes, points: Bytes) -> tuple[Bytes, Bools]:
    """Points multiplied by the secret, and which of them are valid, as is the result; none is the identity."""
    from unpooled.align.curve import kernels

    words = _words(points, 4)
    made, valid = np.empty_like(words), np.empty(len(words), bool)
    kernels.raise_points(words, np.frombuffer(secret, np.uint8), *_new_table(), _new_room(), made, valid)
    return _bytes(made), valid


def valid(points: Bytes) -> Bools:
    """Which are the canonical encoding of a point other than the identity."""
    from unpooled.align.curve import kernels

    words = _words(points, 4)
    found = np.empty(len(words), bool)
    kernels.check(words, _new_room(), found)
    return found


def _words(data: Bytes, width: int) -> NDArray[np.uint64]:
    return np.ascontiguousarray(data).reshape(-1).view("<u8").astype(np.uint64).reshape(-1, width)


def _bytes(words: NDArray[np.uint64]) -> Bytes:
    return words.astype("<u8").view(np.uint8)
