"""The entry of a public table at a position that two parties hold in secret shares, as secret shares mod 2^64.

The parties were dealt shares of a random position s and of two short vectors u and v (`lookup_dealer`): with the table,
turned by d, written as a matrix M, uᵀMv is its entry at s + d.
1. both open d, the position less s; s hides it
2. each turns the table by d and multiplies its share of u by it: r = uᵀM
3. each sends r, less a mask; times its own share of v that gives the products of one's r with the other's v, all but
   what the masks add up to, of which shares were dealt

Turning is free, and one entry of a table is read once per lookup, at each party. Who sees what: the two parties see
random numbers, the dealer sees how many lookups there are and how long the tables are. The dealer must not collude with
a party: the two would know every position.

`dot_products` multiplies a vector of one party by one of the other, with what was dealt for that. `shorter` takes the
last bits off shared numbers, exactly: the carry from what is cut off is looked up, some bits at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Ring
from unpooled.errors import ProtocolError
from unpooled.secure.lookup_dealer import (
    DealtAhead,
    DotProducts,
    LookupNumbers,
    Lookups,
    blocks_of,
    first_numbers,
    high_of,
    low_of,
    product_masks,
    product_sums,
    second_numbers,
    second_positions,
)
from unpooled.session import ITEM_BYTES, Session
from unpooled.wire import message

DIGIT_BITS = 11
"""Of what `shorter` cuts off at a time; the sum of two such digits and a carry has one bit more."""


@message(discloses="nothing: numbers hidden by random numbers that only their sender and the dealer know")
class Masked:
    values: Ring


@dataclass
class Pair:
    """One party's side of lookups with another; the first of the two parties is dealt what complements the second's.

    The steps are those that were dealt for, in the same order at both.
    """

    session: Session
    peer: str
    first: bool
    dealt: DealtAhead = field(repr=False)
    lookups: Sequence[Lookups]
    products: Sequence[DotProducts]
    looked_up: int = 0
    multiplied: int = 0

    def exchange(self, values: Ring) -> Ring:
        """Send what is hidden, and take as much of the peer's."""
        self.session.send(self.peer, Masked(values))
        theirs = self.session.recv(self.peer, Masked, at_most=values.nbytes + ITEM_BYTES).values
        if theirs.shape != values.shape:
            raise ProtocolError(f"invalid Masked from {self.peer}: shape {theirs.shape}, expected {values.shape}")
        return theirs


def look_up(pair: Pair, positions: Ring, tables: Sequence[Ring]) -> Ring:
    """This party's shares of what stands at the positions that the shares add up to, as positions × tables.

    Positions are taken mod the length of the tables, which is a power of two.
    """
    step, item = pair.looked_up, pair.lookups[pair.looked_up]
    pair.looked_up += 1
    size = 2**item.bits
    if positions.shape != (item.count,) or [len(table) for table in tables] != [size] * item.tables:
        raise ValueError("other lookups than were dealt for")
    dealt = pair.dealt.lookups[step][:, 0] if pair.first else second_positions(pair.dealt.seed, step, item)
    own = positions - dealt
    turns = ((own + pair.exchange(own & np.uint64(size - 1))) & np.uint64(size - 1)).astype(np.int64)  # 1
    twice, found = [np.concatenate([table, table]) for table in tables], np.empty((item.count, item.tables), np.uint64)
    for block in blocks_of(item):
        each = _numbers(pair, step, item, block)
        pair.session.progress(block.start, item.count)
        rows = np.empty_like(each.masks)
        for place, turn in enumerate(turns[block].tolist()):  # 2
            for number, table in enumerate(twice):
                matrix = table[turn : turn + size].reshape(high_of(item.bits), low_of(item.bits))
                rows[place, number] = np.einsum("i,ij->j", each.u[place], matrix)
        theirs = pair.exchange(rows - each.masks)  # 3
        found[block] = np.einsum("itj,ij->it", rows + theirs, each.v) + each.sums
    return found


def dot_products(pair: Pair, own: Ring) -> Ring:
    """This party's shares of its vectors times the peer's, one by one; `own` are products × numbers."""
    step, item = pair.multiplied, pair.products[pair.multiplied]
    pair.multiplied += 1
    if own.shape != (item.count, item.length):
        raise ValueError("other products than were dealt for")
    masks = product_masks(pair.dealt.seed, step, item)
    theirs = pair.exchange(own - masks)
    # x·y = (x - ρ)·y + ρ·(y - σ) + ρ·σ, of which the second party has the first part
    kept, masked = (
        (pair.dealt.products[step], masks) if pair.first else (product_sums(pair.dealt.seed, step, item), own)
    )
    found: Ring = np.einsum("ij,ij->i", masked, theirs) + kept
    return found


def steps_to_shorten(count: int, bits: int) -> list[Lookups]:
    """The lookups that `shorter` needs for so many numbers."""
    return [Lookups(count, DIGIT_BITS + 1, 1)] * -(-bits // DIGIT_BITS)


def shorter(pair: Pair, shares: Ring, bits: int) -> Ring:
    """Shares mod 2^(64 - bits) of numbers below 2^64 without their last bits."""
    carry = np.zeros_like(shares)
    for start in range(0, bits, DIGIT_BITS):
        width = min(DIGIT_BITS, bits - start)
        digit = (shares >> np.uint64(start)) & np.uint64(2**width - 1)
        passed = (np.arange(2 ** (DIGIT_BITS + 1)) >= 2**width).astype(np.uint64)
        carry = look_up(pair, digit + carry, [passed])[:, 0]
    found: Ring = ((shares >> np.uint64(bits)) + carry) & np.uint64(2 ** (64 - bits) - 1)
    return found


def _numbers(pair: Pair, step: int, item: Lookups, block: slice) -> LookupNumbers:
    if pair.first:
        return first_numbers(pair.dealt.seed, step, item, block, pair.dealt.lookups[step])
    return second_numbers(pair.dealt.seed, step, item, block)
