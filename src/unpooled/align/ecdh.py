"""Two parties compare ids by elliptic-curve Diffie-Hellman; only the asker learns which are in common.

With secrets a and c, and H(id) a point, in steps that have the same numbers in both roles:

1. openings: sizes, limits, the exchange's name
2. each sends its ids in a secret order as c·H(id) or a·H(id)
3. the answerer multiplies the asker's points by a and returns them in the same order; the asker multiplies
   the answerer's points by c
4. the asker compares a·c·H(id) of both lists

The asker learns which of its ids the answerer has, and how many the answerer has; the answerer learns how many ids the
asker has. After step 2 neither can test an id that it does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from unpooled.align.lists import (
    Chunk,
    by_turns,
    common_positions,
    counted,
    cut,
    joined,
    receiving,
    secret_order,
    sending,
)
from unpooled.align.opening import Intersection
from unpooled.align.ristretto import POINT_BYTES, checked, chunk_by_chunk, hashed_and_raised, new_secret, raised
from unpooled.arrays import Bytes, Ints
from unpooled.session import Session
from unpooled.wire import message

CHUNK = 4096


@message(discloses="nothing: ids as points of a group, raised by a secret")
class HiddenIds(Chunk):
    pass


@message(discloses="which of the asker's ids this party has too, but no other id", to="the asker")
class RaisedIds(Chunk):
    pass


@dataclass(frozen=True)
class Matches:
    """What an asker learns: pairs of its own row and a position in the answerer's list, in the tags' order."""

    mine: Ints
    theirs: Ints


def ask(session: Session, peer: str, keys: Sequence[bytes], exchange: Intersection) -> Matches:
    """The asker's part."""
    secret, order = new_secret(), secret_order(len(keys))
    theirs = _swap(session, peer, secret, [keys[row] for row in order], exchange)  # 2
    with session.scope("raise"):  # 3
        raising = counted(session, chunk_by_chunk(partial(raised, secret, peer), theirs), exchange.ids[peer])
        answers = receiving(session, peer, RaisedIds, exchange.name, len(keys), POINT_BYTES, CHUNK)
        checking = chunk_by_chunk(partial(checked, peer), answers)
        tags = [joined(pieces, POINT_BYTES) for pieces in by_turns(checking, raising)]
    positions = common_positions(tags, [session.party, peer])  # 4
    return Matches(order[positions[0]], positions[1])


def answer(session: Session, peer: str, keys: Sequence[bytes], exchange: Intersection) -> Ints:
    """The answerer's part; returns the order in which it sent its ids, to interpret positions later."""
    secret, order = new_secret(), secret_order(len(keys))
    theirs = _swap(session, peer, secret, [keys[row] for row in order], exchange)  # 2
    with session.scope("raise"):  # 3
        raising = chunk_by_chunk(partial(raised, secret, peer), theirs)
        for _ in sending(session, peer, RaisedIds, exchange.name, raising, exchange.ids[peer]):
            pass
    return order


def _swap(session: Session, peer: str, secret: bytes, keys: Sequence[bytes], exchange: Intersection) -> list[Bytes]:
    with session.scope("hide"):
        hiding = chunk_by_chunk(partial(hashed_and_raised, secret, exchange.name), cut(keys, CHUNK))
        outgoing = sending(session, peer, HiddenIds, exchange.name, hiding, len(keys))
        incoming = receiving(session, peer, HiddenIds, exchange.name, exchange.ids[peer], POINT_BYTES, CHUNK)
        return by_turns(outgoing, incoming)[1]
