"""What is dealt for secret lookups: random numbers for each of two parties, by somebody who sees no positions.

A lookup's random position s is below 2^bits, and e_s is the vector that is 1 there and 0 elsewhere. As a matrix with
`high` rows and `low` columns, e_s has its 1 in one row and one column, so it is the product of two short vectors u and
v. Dealt are secret shares mod 2^64 of s, u and v, a mask ρ for what each party sends the other, and shares of what
these masks add up to (`lookup` explains what for). A dot product is dealt a mask for either side, and shares of the
masks' own product. Whoever holds the numbers of both parties knows what they look up: the dealer must not collude with
either.

The second party's numbers all come from a short random seed. So do the first party's masks; the rest it is sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Ring
from unpooled.errors import ProtocolError
from unpooled.secure.engine import Serving
from unpooled.secure.randomness import SEED_BYTES, expand, new_seed
from unpooled.session import ITEM_BYTES, Session
from unpooled.wire import message

MOST_BITS = 24
_WORD = 8
_WORDS_AT_ONCE = 2**20
"""Of what travels between the two parties in one message."""


@message(
    discloses="how many positions are looked up together, in how many tables, and about how long these are",
    to="whoever deals random numbers",
)
class Lookups:
    """Positions are below 2^bits."""

    count: int
    bits: int
    tables: int


@message(
    discloses="how many dot products are computed together, and of how many numbers each",
    to="whoever deals random numbers",
)
class DotProducts:
    count: int
    length: int


@message(
    discloses="for each passive party how many positions are looked up, in how many tables, and about how long these "
    "are; how many dot products are computed, and of how many numbers each",
    to="the coordinator",
)
class Wanted:
    """For each pair of the active party and another, in their order: all that the two will do, in this order."""

    parties: tuple[str, ...]
    lookups: tuple[tuple[Lookups, ...], ...]
    products: tuple[tuple[DotProducts, ...], ...]


@message(discloses="nothing: random numbers")
class DealtAhead:
    """A seed for a party's random numbers, and those that complement the other party's: an array for each step."""

    seed: bytes
    lookups: tuple[Ring, ...]
    products: tuple[Ring, ...]


@dataclass(frozen=True, eq=False)
class LookupNumbers:
    """One party's numbers for some lookups: shares of u and v, its masks ρ, and its shares of what these add up to.

    By lookup; `masks` are lookups × tables × low, `sums` lookups × tables.
    """

    u: Ring
    v: Ring
    masks: Ring
    sums: Ring


def high_of(bits: int) -> int:
    return int(2 ** (bits // 2))


def low_of(bits: int) -> int:
    return int(2 ** (bits - bits // 2))


def blocks_of(item: Lookups) -> list[slice]:
    """Lookups that are computed together, so that what travels stays short."""
    step = max(1, _WORDS_AT_ONCE // (item.tables * low_of(item.bits)))
    return [slice(start, min(start + step, item.count)) for start in range(0, item.count, step)]


def sent_words(item: Lookups) -> int:
    """How many numbers the first party is sent for each lookup."""
    return 1 + high_of(item.bits) + low_of(item.bits) + item.tables


def second_numbers(seed: bytes, step: int, item: Lookups, block: slice) -> LookupNumbers:
    """The second party's numbers, all from its seed."""
    shape = block.stop - block.start, sent_words(item) - 1
    words = expand(seed, b"shares" + _name(step, block.start), shape)
    return _parted(item, words, _masks(seed, step, item, block))


def second_positions(seed: bytes, step: int, item: Lookups) -> Ring:
    """The second party's shares of random positions."""
    return expand(seed, b"positions" + _name(step, 0), (item.count,))


def first_numbers(seed: bytes, step: int, item: Lookups, block: slice, dealt: Ring) -> LookupNumbers:
    """The first party's: masks from its seed, the rest as dealt, behind its shares of random positions."""
    return _parted(item, dealt[block, 1:], _masks(seed, step, item, block))


def product_masks(seed: bytes, step: int, item: DotProducts) -> Ring:
    """One party's masks of what it multiplies."""
    return expand(seed, b"multiplied" + _name(step, 0), (item.count, item.length))


def product_sums(seed: bytes, step: int, item: DotProducts) -> Ring:
    """The second party's shares of what the masks' own products are."""
    return expand(seed, b"products" + _name(step, 0), (item.count,))


def deal(lookups: Sequence[Lookups], products: Sequence[DotProducts]) -> tuple[DealtAhead, DealtAhead]:
    """Numbers for the first and the second party of a pair."""
    seeds = new_seed(), new_seed()
    first = tuple(
        np.concatenate([_complement(*seeds, step, item, block) for block in blocks_of(item)])
        for step, item in enumerate(lookups)
    )
    dots = tuple(
        np.einsum("ij,ij->i", *(product_masks(seed, step, item) for seed in seeds)) - product_sums(seeds[1], step, item)
        for step, item in enumerate(products)
    )
    return DealtAhead(seeds[0], first, dots), DealtAhead(seeds[1], (), ())


def serve_lookups(session: Session, driver: str, parties: Sequence[str], serving: Serving) -> int:
    """The coordinator's part: deal what the driver wants for itself and others; the number of bytes sent for that."""
    wanted = session.recv(driver, Wanted)
    total = _checked(wanted, session.party, driver, parties, serving)
    for place, party in enumerate(wanted.parties):
        session.progress(place, len(wanted.parties))
        first, second = deal(wanted.lookups[place], wanted.products[place])
        session.send(party, first)
        session.send(driver, second)
    return total


def take_dealt(
    session: Session, dealer: str, lookups: Sequence[Lookups], products: Sequence[DotProducts], *, first: bool
) -> DealtAhead:
    """What was dealt to this party, as the first or the second of a pair."""
    shapes = [(item.count, sent_words(item)) for item in lookups] if first else []
    lengths = [(item.count,) for item in products] if first else []
    most = _WORD * sum(math.prod(shape) for shape in (*shapes, *lengths)) + ITEM_BYTES * (len(shapes) + len(lengths))
    dealt = session.recv(dealer, DealtAhead, at_most=most)
    found = [array.shape for array in (*dealt.lookups, *dealt.products)]
    if len(dealt.seed) != SEED_BYTES or found != [*shapes, *lengths] or len(dealt.lookups) != len(shapes):
        raise ProtocolError(f"invalid DealtAhead from {dealer}: it is not for the lookups of {session.party}")
    return dealt


def _checked(wanted: Wanted, party: str, driver: str, parties: Sequence[str], serving: Serving) -> int:
    """Refuse an invalid or too large request before any of it is computed; the number of bytes to be sent."""
    others = [one for one in parties if one != driver]
    if not set(wanted.parties) <= set(others) or len(set(wanted.parties)) < len(wanted.parties):
        raise ProtocolError(f"invalid Wanted from {driver}: unknown parties")
    if not len(wanted.parties) == len(wanted.lookups) == len(wanted.products):
        raise ProtocolError(f"invalid Wanted from {driver}: not one of each for every party")
    lookups = [item for items in wanted.lookups for item in items]
    products = [item for items in wanted.products for item in items]
    wrong = any(item.count < 1 or not 1 <= item.bits <= MOST_BITS or item.tables < 1 for item in lookups)
    if wrong or any(item.count < 1 or item.length < 1 for item in products):
        raise ProtocolError(f"invalid Wanted from {driver}: a count or a length is out of range")
    masks = max((item.count * item.length for item in products), default=0)
    sent = [sum(item.count * sent_words(item) for item in items) for items in wanted.lookups]
    serving.check(party, driver, _WORD * (max(sent, default=0) + 2 * masks), 0, 0)
    return _WORD * sum(sent) + 2 * SEED_BYTES * len(sent)


def _complement(first: bytes, second: bytes, step: int, item: Lookups, block: slice) -> Ring:
    """The first party's shares of random positions and their vectors, and of what the masks add up to."""
    theirs, masks = second_numbers(second, step, item, block), _masks(first, step, item, block)
    count, size = block.stop - block.start, 2**item.bits
    drawn = expand(new_seed(), b"positions", (count,)) & np.uint64(size - 1)
    s = drawn - second_positions(second, step, item)[block]
    u, v = (
        np.zeros((count, length), np.uint64) - share
        for length, share in ((high_of(item.bits), theirs.u), (low_of(item.bits), theirs.v))
    )
    rows = np.arange(count)
    row, column = np.divmod(drawn.astype(np.int64), low_of(item.bits))
    u[rows, row] += np.uint64(1)
    v[rows, column] += np.uint64(1)
    sums = np.einsum("itj,ij->it", masks, theirs.v) + np.einsum("itj,ij->it", theirs.masks, v) - theirs.sums
    return np.concatenate([s[:, np.newaxis], u, v, sums], axis=1)


def _masks(seed: bytes, step: int, item: Lookups, block: slice) -> Ring:
    shape = block.stop - block.start, item.tables, low_of(item.bits)
    return expand(seed, b"masks" + _name(step, block.start), shape)


def _parted(item: Lookups, words: Ring, masks: Ring) -> LookupNumbers:
    u, v, sums = np.split(words, np.cumsum([high_of(item.bits), low_of(item.bits)]), axis=1)
    return LookupNumbers(u, v, masks, sums)


def _name(step: int, start: int) -> bytes:
    return f" {step} {start}".encode()
