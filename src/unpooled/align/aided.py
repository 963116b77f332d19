"""Several parties find their common ids by tags under a key that they share; a party without the key compares.

This is server-aided private set intersection (Kamara, Mohassel, Raykova and Sadeghian 2014), in steps that have the
same numbers in all roles:

1. openings: sizes, limits, the exchange's name; the coordinator takes part without ids
2. each member sends every other one a random part, which the coordinator cannot read; the key comes from all parts and
   the exchange's name, so nobody chooses it
3. each member makes two tags of each of its ids. It does the same for dummies, some that all members get from the key,
   and as many that it draws alone. It sends all tags to the coordinator in increasing order: they look like random
   numbers, so that order says nothing
4. the coordinator compares the lists, and tells a member with a bit for each of its tags which of them all have
5. the member finds its rows in the order of their first tags, which is the same at all members, and checks the answer:
   both tags of an id must be there or none, all common dummies and none of its own

The coordinator learns the lists' sizes and the sizes of all their intersections, no ids. A member learns which of its
own ids are common to all, and the sizes of all lists. Whoever has the key and the tags can test guesses of ids: a
coordinator that colludes with a member can do that with the ids of all others.

Of a coordinator that makes up its answer: to leave out an id, or to add one, it would have to find two tags that belong
together and are no dummy's. With c ids and d dummies to choose from, it finds them with a chance of
c / ((c + d) (2 c + 2 d - 1)), which is at most 1 in 8 d, and in 2 c where ids are many; otherwise it is found out. For
several ids the chance is smaller. Members that are told different ids find that by their digests.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from unpooled.align.lists import Chunk, marked_in_all, receiving, sending
from unpooled.align.opening import Intersection, TooFew, tell_too_few
from unpooled.align.ring import SALT_BYTES, Common
from unpooled.align.tags import TAG_BYTES, encrypted, in_order_of_value, tags_of
from unpooled.arrays import Bools, Bytes, Ints, unpacked
from unpooled.errors import ProtocolError
from unpooled.secure.randomness import SEED_BYTES, expand_bytes
from unpooled.session import Session
from unpooled.wire import message

CHUNK = 8192
DUMMIES = 2048
"""How many dummies all members have, and how many each has alone."""
_KEY = b"unpooled align aided key v1"
_TAG, _TWIN, _DUMMY, _DIGEST = (f"align aided {what}".encode() for what in ("tag", "twin", "dummy", "digest"))


@message(
    discloses="nothing about ids: a random part of a fresh key for tags; whoever has that key and the tags of others, "
    "as a coordinator that colludes with the receiver would, can test guesses of their ids",
    to="another party whose ids are compared, never the coordinator",
)
class KeyPart:
    exchange: bytes
    part: bytes


@message(
    discloses="how many ids any of the lists have in common, but no ids: tags under a key that the receiver does not "
    "have; if it colludes with a party that has the key, the two can test guesses of ids",
    to="the coordinator, which has no key",
)
class KeyedTags(Chunk):
    pass


@message(discloses="which of the receiver's own ids are common to all", to="their owner")
class CommonTags:
    exchange: bytes
    bits: Bytes


DUMMY_BYTES: Mapping[type, int] = {KeyedTags: 4 * DUMMIES * TAG_BYTES, CommonTags: 4 * DUMMIES // 8}
"""What dummies add to the bytes of a list and of what is told about it, however many ids it has."""


@dataclass(frozen=True, eq=False)
class _Sent:
    """What a member has sent: the tag at each place of its list, counted from the first tags on, and a digest's salt.

    Tags are numbered by what they stand for: `ids` ids, then dummies of all, then dummies of its own; then the twins of
    all these.
    """

    ids: int
    order: Ints
    salt: bytes = field(repr=False)


def member(
    session: Session, members: Sequence[str], coordinator: str, ids: pl.DataFrame, exchange: Intersection
) -> Common | None:
    """The part of a member that learns which of its rows are common to all; None if there are too few."""
    sent = _hand_in(session, members, coordinator, ids, exchange)
    told = session.recv(coordinator, CommonTags, TooFew, at_most=(len(sent.order) + 7) // 8)  # 4
    if isinstance(told, TooFew):
        return None
    if told.exchange != exchange.name:
        raise ProtocolError(f"invalid CommonTags from {coordinator}: they belong to another exchange")
    rows = _checked_rows(sent, unpacked(told.bits, len(sent.order), "CommonTags", coordinator), coordinator)  # 5
    if len(rows) < exchange.overlap:
        raise ProtocolError(f"invalid CommonTags from {coordinator}: fewer than {exchange.overlap} ids")
    return Common(rows, sent.salt)


def answer(
    session: Session, members: Sequence[str], coordinator: str, ids: pl.DataFrame, exchange: Intersection
) -> None:
    """The part of a member that is told nothing."""
    _hand_in(session, members, coordinator, ids, exchange)


def compare(session: Session, members: Sequence[str], exchange: Intersection, told: Sequence[str]) -> int | None:
    """The coordinator's part: tell some members which of their ids are common; None if there are too few."""
    with session.scope("tags"):  # 3
        lists = {
            party: receiving(session, party, KeyedTags, exchange.name, _length(exchange.ids[party]), TAG_BYTES, CHUNK)
            for party in members
        }
        marks = marked_in_all(lists, KeyedTags)  # 4
    common, odd = divmod(int(marks[members[0]].sum()), 2)
    if odd or common < DUMMIES:
        raise ProtocolError(
            f"invalid KeyedTags from {' or '.join(members)}: the dummies that all should have are not in common, so a "
            "party has another key or made up its tags"
        )
    if common - DUMMIES < exchange.overlap:
        tell_too_few(session, told)
        return None
    for party in told:
        session.send(party, CommonTags(exchange.name, np.packbits(marks[party])))
    return common - DUMMIES


def _hand_in(
    session: Session, members: Sequence[str], coordinator: str, ids: pl.DataFrame, exchange: Intersection
) -> _Sent:
    key = _shared_key(session, members, exchange)  # 2
    with session.scope("hide"):  # 3
        tags = _with_dummies(session, key, ids)
        order = in_order_of_value(tags)
    with session.scope("tags"):
        pieces = _taken(tags, order)
        for _ in sending(session, coordinator, KeyedTags, exchange.name, pieces, len(tags)):
            pass
    return _Sent(ids.height, order, expand_bytes(key, _DIGEST, SALT_BYTES))


def _shared_key(session: Session, members: Sequence[str], exchange: Intersection) -> bytes:
    parts = {session.party: session.secret.randbytes(SEED_BYTES)}
    others = [party for party in members if party != session.party]
    with session.scope("key"):
        for party in others:
            session.send(party, KeyPart(exchange.name, parts[session.party]))
        for party in others:
            received = session.recv(party, KeyPart)
            if received.exchange != exchange.name:
                raise ProtocolError(f"invalid KeyPart from {party}: it belongs to another exchange")
            if len(received.part) != SEED_BYTES:
                raise ProtocolError(f"invalid KeyPart from {party}: {len(received.part)} bytes, expected {SEED_BYTES}")
            parts[party] = received.part
    return hashlib.sha256(_KEY + exchange.name + b"".join(parts[party] for party in members)).digest()


def _with_dummies(session: Session, key: bytes, ids: pl.DataFrame) -> Bytes:
    """First and second tags of ids and dummies; a second tag is the first one encrypted under another key."""
    count = _length(ids.height) // 2
    tags = np.empty((2 * count, TAG_BYTES), np.uint8)
    start = 0
    for piece in _first_tags(key, ids):
        tags[start : start + len(piece)] = piece
        tags[count + start : count + start + len(piece)] = encrypted(expand_bytes(key, _TWIN, SEED_BYTES), piece)
        start += len(piece)
        session.progress(start, count)
    return tags


def _first_tags(key: bytes, ids: pl.DataFrame) -> Iterator[Bytes]:
    yield from tags_of(expand_bytes(key, _TAG, SEED_BYTES), ids)
    for dummies in (expand_bytes(key, _DUMMY, DUMMIES * TAG_BYTES), os.urandom(DUMMIES * TAG_BYTES)):
        yield np.frombuffer(dummies, np.uint8).reshape(-1, TAG_BYTES)


def _taken(tags: Bytes, order: Ints) -> Iterator[Bytes]:
    """Tags in an order, piece by piece; numpy picks them several times faster as one value each."""
    whole = tags.view(f"V{TAG_BYTES}").ravel()
    for start in range(0, len(order), CHUNK):
        yield whole[order[start : start + CHUNK]].view(np.uint8).reshape(-1, TAG_BYTES)


def _length(ids: int) -> int:
    """How many tags a list has."""
    return 2 * (ids + 2 * DUMMIES)


def _checked_rows(sent: _Sent, common: Bools, coordinator: str) -> Ints:
    """The rows that are common, in the order of their first tags, if the coordinator's answer can be right."""
    marked = np.zeros(len(sent.order), bool)
    marked[sent.order] = common
    firsts, twins = np.split(marked, 2)
    wrong = f"invalid CommonTags from {coordinator}"
    if not np.array_equal(firsts, twins):
        raise ProtocolError(f"{wrong}: of the two tags of an id only one is said to be common")
    of_all, of_its_own = np.split(firsts[sent.ids :], 2)
    if not of_all.all():
        raise ProtocolError(f"{wrong}: a dummy that all members have is said not to be common")
    if of_its_own.any():
        raise ProtocolError(f"{wrong}: a dummy that nobody else has is said to be common")
    places = sent.order[common]
    return places[places < sent.ids]
