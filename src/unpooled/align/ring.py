"""Several parties find their common ids in a ring: every party multiplies every list, a party without a key compares.

1. openings: sizes, limits, the exchange's name; the coordinator takes part without ids
2. each member hashes its ids to points, in a secret order, multiplies them by its secret and sends them to the next
   member, which multiplies and forwards them; the member before the owner sends the list to the coordinator
3. the coordinator, which has no secret and so cannot test an id, compares the lists and tells each owner the
   positions of the common ids in its list, in the order of the points

The coordinator learns the lists' sizes and the sizes of all their intersections, no ids. A member learns which of its
own ids are common to all, and the sizes of all lists; nobody learns which ids only some members have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from unpooled.align.ecdh import CHUNK, HiddenIds
from unpooled.align.lists import (
    Chunk,
    by_turns,
    checked_positions,
    common_positions,
    cut,
    joined,
    receiving,
    secret_order,
    sending,
)
from unpooled.align.opening import Intersection, TooFew, tell_too_few
from unpooled.align.ristretto import POINT_BYTES, checked, chunk_by_chunk, hashed_and_raised, new_secret, raised
from unpooled.arrays import Bytes, Ints
from unpooled.errors import ProtocolError
from unpooled.session import Session
from unpooled.wire import message

SALT_BYTES = 32


@message(
    discloses="how many ids any of the lists have in common, but no ids: points raised by every member's secret",
    to="the coordinator, which has no secret",
)
class Tags(Chunk):
    pass


@dataclass(frozen=True)
class Common:
    """A party's rows that are common to all, in the common order, and a salt for their digest."""

    rows: Ints
    salt: bytes


@message(discloses="which of the receiver's own ids are common to all", to="their owner")
class CommonRows:
    exchange: bytes
    salt: bytes
    positions: Ints


def member(
    session: Session, ring: Sequence[str], coordinator: str, keys: Sequence[bytes], exchange: Intersection
) -> Common | None:
    """A member's part; returns the rows of its own that are common to all, or None if there are too few."""
    secret, order = new_secret(), secret_order(len(keys))
    place, rounds = ring.index(session.party), len(ring)
    before, behind = ring[place - 1], ring[(place + 1) % rounds]
    held: list[Bytes] = []
    for step in range(rounds):  # 2
        owner, next_owner = ring[place - step], ring[place - step - 1]
        last = step == rounds - 1
        with session.scope("raise", step + 1):
            if step == 0:
                hide = partial(hashed_and_raised, secret, exchange.name)
                raising = chunk_by_chunk(hide, cut([keys[row] for row in order], CHUNK))
            else:
                raising = chunk_by_chunk(partial(raised, secret, before), held)
            to, kind = (coordinator, Tags) if last else (behind, HiddenIds)
            outgoing = sending(session, to, kind, exchange.name, raising, exchange.ids[owner])
            expected = 0 if last else exchange.ids[next_owner]
            incoming = receiving(session, before, HiddenIds, exchange.name, expected, POINT_BYTES, CHUNK)
            held = by_turns(outgoing, incoming)[1]
    return told_common(session, coordinator, exchange, order)  # 3


def compare(session: Session, ring: Sequence[str], exchange: Intersection) -> int | None:
    """The coordinator's part: tell each owner which of its ids are common; None if there are too few."""
    with session.scope("raise", len(ring)):  # 2
        lists = zip_longest(
            *(
                chunk_by_chunk(
                    partial(checked, ring[place - 1]),
                    receiving(session, ring[place - 1], Tags, exchange.name, exchange.ids[owner], POINT_BYTES, CHUNK),
                )
                for place, owner in enumerate(ring)
            )
        )
        pieces = list(zip(*lists, strict=True)) or [()] * len(ring)
    tags = [joined([piece for piece in one if piece is not None], POINT_BYTES) for one in pieces]
    positions = common_positions(tags, ring)  # 3
    if len(positions[0]) < exchange.overlap:
        tell_too_few(session, ring)
        return None
    salt = session.secret.randbytes(SALT_BYTES)
    for owner, rows in zip(ring, positions, strict=True):
        session.send(owner, CommonRows(exchange.name, salt, rows))
    return len(positions[0])


def told_common(session: Session, teller: str, exchange: Intersection, order: Ints) -> Common | None:
    """Receive which rows of this party are common to all, in the common order; None if there are too few."""
    told = session.recv(teller, CommonRows, TooFew, at_most=order.nbytes)
    if isinstance(told, TooFew):
        return None
    if told.exchange != exchange.name:
        raise ProtocolError(f"invalid CommonRows from {teller}: they belong to another exchange")
    if len(told.salt) != SALT_BYTES:
        raise ProtocolError(
            f"invalid CommonRows from {teller}: a salt of {len(told.salt)} bytes, expected {SALT_BYTES}"
        )
    positions = checked_positions(told.positions, len(order), teller)
    if len(positions) < exchange.overlap:
        raise ProtocolError(f"invalid CommonRows from {teller}: fewer than {exchange.overlap} ids")
    return Common(order[positions], told.salt)
