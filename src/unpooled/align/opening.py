"""How an alignment opens: each party says how many ids it brings, and its limits, before anything is computed.

The openings determine the exchange's name, a digest that nobody can choose alone. It is hashed with every id and is
part of every later message, so that nothing from another exchange or another run is accepted in this one.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from unpooled.align.ids import IdLooks, advice, hint, looks_of
from unpooled.align.normalise import IdRules, comparable
from unpooled.data.table import Table
from unpooled.errors import ProtocolError, RefusedError
from unpooled.session import Session
from unpooled.wire import message

log = logging.getLogger("unpooled.align")

MOST_PEER_IDS = 10_000_000
_NONCE_BYTES = 32
_MOST = 2**40


@dataclass(frozen=True)
class Limits:
    """A party's limits: the fewest and most ids of others, and the fewest ids in common, which `setting` has set.

    `opened` is called with the purpose and how many ids each party brings, before any are compared, and may refuse.
    """

    peer_ids: int = 1
    overlap: int = 1
    most_peer_ids: int = MOST_PEER_IDS
    setting: str = "minimum_overlap"
    opened: Callable[[str, Mapping[str, int]], None] | None = None


@message(
    discloses="how many ids this party brings, in how many columns, and the smallest overlap it accepts",
    to="the parties it aligns with",
)
class Opening:
    nonce: bytes
    ids: int
    columns: int
    overlap: int


@message(discloses="that fewer ids are in common than a party insists on", to="the parties that were compared")
class TooFew:
    pass


@dataclass(frozen=True)
class Intersection:
    """An alignment that has begun: its name, how many ids each party brings, the fewest ids in common."""

    name: bytes
    ids: Mapping[str, int]
    overlap: int


def open_intersection(
    session: Session, purpose: str, parties: Sequence[str], ids: int, columns: int, limits: Limits, keyless: str = ""
) -> Intersection:
    """Intersection openings among `parties`, in the same order at all of them; the `keyless` one has no ids."""
    mine = Opening(session.secret.randbytes(_NONCE_BYTES), ids, columns, limits.overlap)
    openings = {session.party: mine}
    with session.scope("opening"):
        for peer in parties:
            if peer != session.party:
                session.send(peer, mine)
        for peer in parties:
            if peer != session.party:
                openings[peer] = session.recv(peer, Opening)
    owners = {party: openings[party] for party in parties if party != keyless}
    _check(session.party, openings, owners, limits)
    if limits.opened:
        limits.opened(purpose, {party: opening.ids for party, opening in owners.items()})
    digest = hashlib.sha256(f"unpooled align {purpose}".encode())
    for party in parties:
        opening = openings[party]
        for part in (party.encode(), opening.nonce, f"{opening.ids} {opening.columns} {opening.overlap}".encode()):
            digest.update(len(part).to_bytes(4, "little") + part)
    overlap = max(opening.overlap for opening in owners.values())
    return Intersection(digest.digest(), {party: opening.ids for party, opening in owners.items()}, overlap)


def _check(me: str, openings: Mapping[str, Opening], owners: Mapping[str, Opening], limits: Limits) -> None:
    for party, opening in openings.items():
        counts = (opening.ids, opening.columns, opening.overlap)
        if len(opening.nonce) != _NONCE_BYTES or not all(0 <= count < _MOST for count in counts):
            raise ProtocolError(
                f"invalid Opening from {party}: a number is out of range, or the nonce has the wrong length"
            )
    for party, opening in owners.items():
        for other, theirs in owners.items():
            if opening.columns != theirs.columns:
                both = f"{party} by {opening.columns}, {other} by {theirs.columns}"
                raise ProtocolError(f"the parties identify rows by different numbers of columns: {both}")
    check_sizes(me, {party: opening.ids for party, opening in owners.items()}, limits)


def check_sizes(me: str, ids: Mapping[str, int], limits: Limits) -> None:
    """Refuse parties that bring fewer or more ids than this one's limits allow."""
    for party, count in ids.items():
        if party != me and count < limits.peer_ids:
            raise RefusedError(
                f"{me} aligns with parties that bring at least {limits.peer_ids} ids (policy.minimum_peer_rows), "
                f"and {party} brings fewer"
            )
        if party != me and count > limits.most_peer_ids:
            raise RefusedError(
                f"{me} aligns with parties that bring at most {limits.most_peer_ids} ids (policy.maximum_peer_rows), "
                f"and {party} brings more"
            )


def tell_too_few(session: Session, owners: Collection[str]) -> None:
    """Tell the owners of the compared lists that too few ids are in common, without telling which."""
    for party in owners:
        if party != session.party:
            session.send(party, TooFew())


def end_with_hint(
    session: Session, owners: Sequence[str], table: Table, rules: IdRules, least: int, setting: str
) -> NoReturn:
    """End an alignment in which too few ids are in common: the active party is told what the others' ids look like.

    It comes first among the owners. It fails with a hint in its error, and all others end with that error. What a party
    alone sees in its own ids stays in its log.
    """
    for text in advice(table, rules):
        log.warning("%s: too few ids are in common: %s", session.party, text)
    active, looks = owners[0], looks_of(comparable(table, rules))
    with session.scope("why so few"):
        if session.party != active:
            session.send(active, looks)
            wait_for_the_end(session, active)
        answers = {party: session.recv(party, IdLooks) for party in owners[1:]}
    hints = [hint(looks, theirs, active, party, len(table.id)) for party, theirs in answers.items()]
    raise RefusedError(
        f"fewer than {least} ids are in common between {' and '.join(owners)} (policy.{setting}); " + "; ".join(hints)
    )


def wait_for_the_end(session: Session, active: str) -> NoReturn:
    """Wait until the active party ends the conversation with its error."""
    session.recv(active, TooFew)
    raise ProtocolError(f"{active} continued although too few ids are in common")
