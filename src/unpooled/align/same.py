"""Whether owners hold the same rows in the same order, without anybody learning more than yes or no.

Ids can be tested on a digest: a party that knows all ids of a list but one hashes candidates until the digest matches.
And other parties tell an owner which of its rows are common, and may name a row that is not: the active party or the
coordinator by its positions, a member of the ring or an answerer by the order of its points. So no digest is sent.
Each two owners use it as the password of a key exchange (SPEKE, Jablon 1996), in numbered steps:

1. each hashes its digest to a point of the group, multiplies it by a fresh secret and sends it: a random point
2. each multiplies what arrived: both have the same point exactly if the digests are the same
3. the first of the two owners (the active party comes before all) proves with a hash that it has that point; the other
   answers with its own proof only if this one is right, and otherwise ends with an error

A deviating party can test one list of ids at each other owner, the one that it used in step 1.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.align.ristretto import POINT_BYTES, hashed_and_raised, new_secret, raised
from unpooled.errors import ProtocolError
from unpooled.session import Session
from unpooled.wire import message

_POINT, _PROOF = b"same rows", b"unpooled align same rows v1"
_ASKS, _ANSWERS = b"first", b"second"


@message(discloses="nothing: a digest of the common rows as a point of a group, raised by a secret")
class HiddenDigest:
    point: bytes


@message(
    discloses="that it holds the same rows as the receiver; to one that holds others, that it does not",
    to="another owner of columns",
)
class SameRows:
    proof: bytes


@dataclass(frozen=True)
class _Shared:
    """What two owners have after step 2; `parties` and `points` are in the order first owner, second owner."""

    parties: tuple[str, str]
    points: tuple[bytes, bytes]
    key: bytes

    def proof(self, whose: bytes) -> bytes:
        parts = (*(party.encode() for party in self.parties), *self.points, self.key, whose)
        return hashlib.sha256(_PROOF + b"".join(len(part).to_bytes(4, "little") + part for part in parts)).digest()


def require_same_rows(session: Session, owners: Sequence[str], digest: str) -> None:
    """Compare the digest of aligned rows with every other owner's; ProtocolError if any differs."""
    place = owners.index(session.party)
    before, behind = owners[:place], owners[place + 1 :]
    with session.scope("same rows"):
        shared = _exchange(session, before, behind, digest)
        for peer in before:
            _check(session, peer, shared[peer].proof(_ASKS))
            session.send(peer, SameRows(shared[peer].proof(_ANSWERS)))
        for peer in behind:
            session.send(peer, SameRows(shared[peer].proof(_ASKS)))
        for peer in behind:
            _check(session, peer, shared[peer].proof(_ANSWERS))


def _exchange(session: Session, before: Sequence[str], behind: Sequence[str], digest: str) -> dict[str, _Shared]:
    """Steps 1 and 2 with every other owner, with a secret for each."""
    secrets = {peer: new_secret() for peer in (*before, *behind)}
    mine = {peer: hashed_and_raised(secret, _POINT, [digest.encode()]).tobytes() for peer, secret in secrets.items()}
    for peer, point in mine.items():
        session.send(peer, HiddenDigest(point))
    shared = {}
    for peer, secret in secrets.items():
        theirs = session.recv(peer, HiddenDigest).point
        if len(theirs) != POINT_BYTES:
            raise ProtocolError(f"invalid HiddenDigest from {peer}: {len(theirs)} bytes, expected {POINT_BYTES}")
        key = raised(secret, peer, np.frombuffer(theirs, np.uint8).reshape(1, -1)).tobytes()
        if peer in before:
            shared[peer] = _Shared((peer, session.party), (theirs, mine[peer]), key)
        else:
            shared[peer] = _Shared((session.party, peer), (mine[peer], theirs), key)
    return shared


def _check(session: Session, peer: str, expected: bytes) -> None:
    if not hmac.compare_digest(session.recv(peer, SameRows).proof, expected):
        raise ProtocolError(f"{session.party} and {peer} do not hold the same rows in the same order: align again")
