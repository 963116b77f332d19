"""ristretto255 in compiled loops, as RFC 9496 describes it, for `curve`; importing this imports numba.

What is done, and where in memory, depends neither on the secret nor on points or digests: masks choose. Only whether an
encoding is valid is looked at, afterwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unpooled.align.curve.field import (
    LANES,
    Block,
    Room,
    absolute,
    add,
    canonical,
    chosen,
    copy,
    from_words,
    is_negative,
    is_zero,
    load,
    minus,
    multiply,
    plus,
    raise_to_root,
    settled,
    square,
    store,
    subtract,
    to_words,
)
from unpooled.align.curve.points import (
    D_LESS_ONE_SQUARED,
    ENTRY,
    FLAGS,
    INVERSE_ROOT_A_LESS_D,
    ONE,
    ONE_LESS_D_SQUARED,
    OTHER,
    PICKED,
    POINT,
    ROOT_AD_LESS_ONE,
    ROOT_OF_MINUS_ONE,
    ROOTS,
    TOTAL,
    ZERO,
    D,
    Masks,
    Table,
    add_entry,
    masks_of,
    raise_point,
    to_entry,
)
from unpooled.arrays import Bytes
from unpooled.compiled import lean

Words = NDArray[np.uint64]


@lean
def _pick_root(
    made: Block, is_square: Words, found: Block, wanted: Block, turned: Block, root: Block, other: Block
) -> None:
    """Whichever root has the wanted square, of those that `found` may be, even."""
    for k in range(LANES):
        square_found, square_wanted = load(found, k), load(wanted, k)
        right = is_zero(canonical(settled(minus(square_found, square_wanted))))
        negative = is_zero(canonical(settled(plus(square_found, square_wanted))))
        neither = is_zero(canonical(settled(plus(square_found, load(turned, k)))))
        is_square[k] = right | negative
        store(made, k, absolute(chosen(negative | neither, load(other, k), load(root, k))))


@lean
def _root_of_ratio(made: Block, is_square: Words, u: Block, v: Block, room: Room) -> None:
    """The even square root of u / v, or of that times the root of -1; and as masks whether it is the former."""
    free = room[ROOTS:]
    a, b, c, d, e, f = free[0], free[1], free[2], free[3], free[4], free[5]
    square(a, v)
    multiply(e, a, v)
    square(a, e)
    multiply(b, a, v)
    multiply(f, b, u)
    raise_to_root(made, f, free)
    multiply(a, e, u)
    multiply(f, a, made)
    square(a, f)
    multiply(b, a, v)
    multiply(c, u, room[ROOT_OF_MINUS_ONE])
    multiply(d, f, room[ROOT_OF_MINUS_ONE])
    _pick_root(made, is_square, b, u, c, f, d)


@lean
def _absolute(made: Block, f: Block) -> None:
    """Canonical."""
    for k in range(LANES):
        store(made, k, absolute(load(f, k)))


@lean
def _choose(made: Block, masks: Words, f: Block, g: Block) -> None:
    """f where the mask is set, otherwise g."""
    for k in range(LANES):
        store(made, k, chosen(masks[k], load(f, k), load(g, k)))


@lean
def _negative(masks: Words, f: Block) -> None:
    for k in range(LANES):
        masks[k] = is_negative(canonical(load(f, k)))


@lean
def _is_flat(masks: Words, f: Block) -> None:
    """Where it is zero."""
    for k in range(LANES):
        masks[k] = is_zero(canonical(load(f, k)))


@lean
def _decode(room: Room, valid: Words, words: Words, start: int) -> None:
    """The points from `start` on, the last one again in what remains of the block; as masks whether each is valid."""
    point, first, second = room[POINT : POINT + 4], room[OTHER : OTHER + 4], room[ENTRY : ENTRY + 4]
    x, y, z, t = point[0], point[1], point[2], point[3]
    s, u, v, w = first[0], first[1], first[2], first[3]
    a, b, root = second[0], second[1], second[2]
    is_square, negative, flat = room[FLAGS, 0:LANES], room[FLAGS, LANES : 2 * LANES], room[FLAGS, 2 * LANES : 3 * LANES]
    for k in range(LANES):
        given = words[min(start + k, len(words) - 1)]
        number = from_words(given[0], given[1], given[2], given[3])
        w0, w1, w2, w3 = to_words(canonical(number))
        changed = (w0 ^ given[0]) | (w1 ^ given[1]) | (w2 ^ given[2]) | (w3 ^ given[3])
        valid[k] = np.uint64(0) - np.uint64((changed == 0) & (given[0] & np.uint64(1) == 0))
        store(s, k, number)
    square(a, s)
    subtract(u, room[ONE], a)
    add(z, room[ONE], a)
    square(w, z)
    square(a, u)
    multiply(b, a, room[D])
    add(a, b, w)
    subtract(v, room[ZERO], a)
    multiply(a, v, w)
    _root_of_ratio(root, is_square, room[ONE], a, room)
    multiply(a, root, z)
    multiply(b, root, a)
    multiply(w, b, v)
    multiply(y, u, w)
    multiply(b, a, s)
    add(a, b, b)
    _absolute(x, a)
    multiply(t, x, y)
    copy(z, room[ONE])
    _negative(negative, t)
    _is_flat(flat, y)
    for k in range(LANES):
        valid[k] &= is_square[k] & ~negative[k] & ~flat[k]


@lean
def _encode(words: Words, start: int, room: Room) -> None:
    """The points of a block as numbers of 64-bit words, as many as there is space for."""
    point, first, second = room[POINT : POINT + 4], room[OTHER : OTHER + 4], room[ENTRY : ENTRY + 4]
    x, y, z, t = point[0], point[1], point[2], point[3]
    u, v, a, b = first[0], first[1], first[2], first[3]
    ix, iy, root, inverse = second[0], second[1], second[2], second[3]
    masks = room[FLAGS, 0:LANES]
    add(a, z, y)
    subtract(b, z, y)
    multiply(u, a, b)
    multiply(v, x, y)
    square(a, v)
    multiply(b, a, u)
    _root_of_ratio(root, masks, room[ONE], b, room)
    multiply(a, root, u)
    multiply(b, root, v)
    multiply(u, a, b)
    multiply(inverse, u, t)
    multiply(u, a, room[INVERSE_ROOT_A_LESS_D])
    multiply(ix, x, room[ROOT_OF_MINUS_ONE])
    multiply(iy, y, room[ROOT_OF_MINUS_ONE])
    multiply(v, inverse, t)
    _negative(masks, v)
    _choose(a, masks, iy, x)
    _choose(root, masks, ix, y)
    _choose(t, masks, u, b)
    multiply(v, a, inverse)
    _negative(masks, v)
    subtract(u, room[ZERO], root)
    _choose(b, masks, u, root)
    subtract(a, z, b)
    multiply(b, a, t)
    _absolute(a, b)
    for k in range(min(LANES, len(words) - start)):
        w0, w1, w2, w3 = to_words(load(a, k))
        words[start + k, 0], words[start + k, 1], words[start + k, 2], words[start + k, 3] = w0, w1, w2, w3


@lean
def _map(point: Room, digests: Words, start: int, room: Room) -> None:
    """Half a digest to a point (elligator); the lower 255 bits of four words, a block of points from `start` on."""
    x, y, z, t, first, second = point[0], point[1], point[2], point[3], room[ENTRY:], room[PICKED:]
    s, r, u, v, a, b, c = first[0], first[1], first[2], first[3], second[0], second[1], second[2]
    is_square = room[FLAGS, 0:LANES]
    for k in range(LANES):
        given = digests[min(start + k, len(digests) - 1)]
        store(s, k, from_words(given[0], given[1], given[2], given[3]))
    square(a, s)
    multiply(r, a, room[ROOT_OF_MINUS_ONE])
    add(a, r, room[ONE])
    multiply(u, a, room[ONE_LESS_D_SQUARED])
    multiply(a, r, room[D])
    add(b, a, room[ONE])
    subtract(a, room[ZERO], b)
    add(b, r, room[D])
    multiply(v, a, b)
    _root_of_ratio(x, is_square, u, v, room)
    multiply(b, x, s)
    _absolute(a, b)
    subtract(c, room[ZERO], a)
    _choose(a, is_square, x, c)
    subtract(b, room[ZERO], room[ONE])
    _choose(c, is_square, b, r)
    subtract(b, r, room[ONE])
    multiply(u, b, c)
    multiply(b, u, room[D_LESS_ONE_SQUARED])
    subtract(u, b, v)
    multiply(b, u, room[ROOT_AD_LESS_ONE])
    multiply(c, a, v)
    add(u, c, c)
    square(c, a)
    subtract(v, room[ONE], c)
    add(s, room[ONE], c)
    multiply(x, u, s)
    multiply(y, v, b)
    multiply(z, b, s)
    multiply(t, u, v)


@lean
def check(words: Words, room: Room, valid: NDArray[np.bool_]) -> None:
    """Which encodings, numbers of four words, are of a point other than the identity."""
    decoded = room[FLAGS, 3 * LANES : 4 * LANES]
    for start in range(0, len(words), LANES):
        _decode(room, decoded, words, start)
        for k in range(min(LANES, len(words) - start)):
            given = words[start + k]
            valid[start + k] = (decoded[k] != 0) & (given[0] | given[1] | given[2] | given[3] != 0)


@lean
def raise_points(
    words: Words, secret: Bytes, masks: Masks, table: Table, room: Room, made: Words, valid: NDArray[np.bool_]
) -> None:
    """Each point times the secret; which points and results are valid, and not the identity."""
    decoded = room[FLAGS, 3 * LANES : 4 * LANES]
    masks_of(secret, masks)
    for start in range(0, len(words), LANES):
        _decode(room, decoded, words, start)
        raise_point(room, masks, table)
        _encode(made, start, room)
        for k in range(min(LANES, len(words) - start)):
            given = made[start + k]
            valid[start + k] = (decoded[k] != 0) & (given[0] | given[1] | given[2] | given[3] != 0)


@lean
def raise_digests(digests: Words, secret: Bytes, masks: Masks, table: Table, room: Room, made: Words) -> None:
    """Each digest, eight words, mapped to a point and multiplied by the secret."""
    one, other, entry = room[TOTAL : TOTAL + 4], room[OTHER : OTHER + 4], room[ENTRY : ENTRY + 4]
    masks_of(secret, masks)
    for start in range(0, len(digests), LANES):
        _map(one, digests[:, :4], start, room)
        _map(other, digests[:, 4:], start, room)
        to_entry(entry, other, room)
        add_entry(room[POINT : POINT + 4], one, entry)
        raise_point(room, masks, table)
        _encode(made, start, room)
