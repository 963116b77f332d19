"""The two steps of an alignment: the rows that all owners have, and which of these the seeker has too.

After the first step every owner holds the same ids in the same order, which comes from random tags and not from the
ids. They verify that without showing the rows' digest (`same`): positions from another party may be wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.align import aided, blind_rsa, ecdh, ring
from unpooled.align.ecdh import Matches
from unpooled.align.ids import ids_of, keys_in
from unpooled.align.lists import secret_order
from unpooled.align.normalise import IdRules
from unpooled.align.opening import (
    Intersection,
    Limits,
    TooFew,
    end_with_hint,
    open_intersection,
    tell_too_few,
    wait_for_the_end,
)
from unpooled.align.ring import SALT_BYTES, Common, CommonRows, told_common
from unpooled.align.same import require_same_rows
from unpooled.arrays import Ints
from unpooled.data.table import Table
from unpooled.errors import RefusedError
from unpooled.session import Session
from unpooled.wire import message

Psi = Literal["ecdh", "blind-rsa", "aided"]

POSITIVE, UNLABELLED = 1, -1
_DIGEST = b"unpooled align rows v1"
_KEYS_AT_ONCE = 2**16


@dataclass(frozen=True)
class Method:
    """How ids are compared."""

    psi: Psi
    key_bits: int
    ids: IdRules = field(default_factory=IdRules)


@dataclass(frozen=True)
class Places:
    """The parties by role: active and passive parties own columns, the seeker positives, the coordinator nothing."""

    active: str
    passive: tuple[str, ...] = ()
    seeker: str | None = None
    coordinator: str | None = None

    @property
    def owners(self) -> tuple[str, ...]:
        return (self.active, *self.passive)

    def meets(self, psi: Psi) -> bool:
        """Whether all owners compare ids at once, with the help of the coordinator, and not by pairs."""
        return bool(self.passive and self.coordinator) and psi != "blind-rsa"


@dataclass(frozen=True, eq=False)
class Aligned:
    """A party's rows that all owners have, in the common order, and their digest."""

    rows: Ints
    digest: str


@message(discloses="how many ids all owners of columns have in common", to="the seeker, who is asked about as many")
class CommonCount:
    count: int


@message(discloses="that at least as many ids are in common as both insist on", to="the seeker")
class Enough:
    pass


def find_common(session: Session, places: Places, table: Table, method: Method, limits: Limits) -> Aligned:
    """Step 1 at an owner: its rows that all owners have."""
    ids = ids_of(table, method.ids)
    with session.scope("common"):
        if not places.passive:
            common = Common(secret_order(ids.height), session.secret.randbytes(SALT_BYTES))
        elif places.coordinator and places.meets(method.psi):
            exchange = _meeting(session, places, ids.height, len(table.id), limits)
            if method.psi == "aided":
                found = aided.member(session, places.owners, places.coordinator, ids, exchange)
            else:
                found = ring.member(session, places.owners, places.coordinator, keys_in(ids), exchange)
            if found is None:
                end_with_hint(session, places.owners, table, method.ids, exchange.overlap, limits.setting)
            common = found
        else:
            common = _by_pairs(session, places, table, keys_in(ids), method, limits)
        aligned = Aligned(common.rows, _digest_of(_keys_at(ids, common.rows), common.salt))
        require_same_rows(session, places.owners, aligned.digest)
        if places.seeker and session.party != places.active:
            session.send(places.seeker, CommonCount(len(aligned.rows)))
    return aligned


def help_find_common(session: Session, places: Places, method: Method, limits: Limits) -> int | None:
    """At the coordinator, which compares hidden ids; returns how many rows are common, if it knows.

    Its part is step 1, and with aided the labels too.
    """
    without_ids, common = replace(limits, peer_ids=0, overlap=0), None
    if places.meets(method.psi):
        with session.scope("common"):
            exchange = _meeting(session, places, 0, 0, without_ids)
            if method.psi == "aided":
                common = aided.compare(session, places.owners, exchange, told=places.owners)
            else:
                common = ring.compare(session, places.owners, exchange)
            if common is None:
                wait_for_the_end(session, places.active)
    if method.psi == "aided" and places.seeker:
        with session.scope("label"):
            exchange = _label_opening(session, places, 0, 0, without_ids, method)
            pair = (places.active, places.seeker)
            if aided.compare(session, pair, exchange, told=[places.active]) is None:
                wait_for_the_end(session, places.active)
    return common


def label(
    session: Session, places: Places, table: Table, aligned: Aligned, method: Method, limits: Limits
) -> NDArray[np.int8]:
    """Step 2 at the active party: 1 for each aligned row whose id the seeker has, -1 for the others."""
    if places.seeker is None:
        raise ValueError("labels need a seeker")
    chosen = table.take(aligned.rows)
    ids = ids_of(chosen, method.ids)
    parties = (places.active, places.seeker)
    with session.scope("label"):
        exchange = _label_opening(session, places, ids.height, len(table.id), limits, method)
        if method.psi == "aided" and places.coordinator:
            told = aided.member(session, parties, places.coordinator, ids, exchange)
            found = None if told is None else told.rows
        else:
            found = _ask(session, places.seeker, keys_in(ids), exchange, method).mine
        if found is None or len(found) < exchange.overlap:
            tell_too_few(session, parties)
            end_with_hint(session, parties, chosen, method.ids, exchange.overlap, limits.setting)
        session.send(places.seeker, Enough())
    labels = np.full(ids.height, UNLABELLED, np.int8)
    labels[found] = POSITIVE
    return labels


def help_label(session: Session, places: Places, table: Table, method: Method, limits: Limits) -> int:
    """Step 2 at the seeker, which answers without seeing ids; returns how many rows the active party asked about."""
    ids = ids_of(table, method.ids)
    parties = (places.active, session.party)
    with session.scope("common"):
        counts = {party: session.recv(party, CommonCount).count for party in places.passive}
    with session.scope("label"):
        exchange = _label_opening(session, places, ids.height, len(table.id), limits, method)
        for party, count in counts.items():
            if exchange.ids[places.active] != count:
                me = session.party
                raise RefusedError(
                    f"{places.active} asks {me} about a different number of ids than {party} says are in common; "
                    f"{me} refuses"
                )
        if method.psi == "aided" and places.coordinator:
            aided.answer(session, parties, places.coordinator, ids, exchange)
        else:
            _answer(session, places.active, keys_in(ids), exchange, method)
        if isinstance(session.recv(places.active, Enough, TooFew), TooFew):
            end_with_hint(session, parties, table, method.ids, exchange.overlap, limits.setting)
    return exchange.ids[places.active]


def _meeting(session: Session, places: Places, ids: int, columns: int, limits: Limits) -> Intersection:
    coordinator = places.coordinator or ""
    return open_intersection(session, "ring", (*places.owners, coordinator), ids, columns, limits, keyless=coordinator)


def _label_opening(
    session: Session, places: Places, ids: int, columns: int, limits: Limits, method: Method
) -> Intersection:
    helper = (places.coordinator or "") if method.psi == "aided" else ""
    parties = [party for party in (places.active, places.seeker, helper) if party]
    return open_intersection(session, "label", parties, ids, columns, limits, keyless=helper)


def _by_pairs(
    session: Session, places: Places, table: Table, keys: Sequence[bytes], method: Method, limits: Limits
) -> Common:
    """The active party asks each passive one in turn, and tells each which of its rows are common to all."""
    columns = len(table.id)
    if session.party != places.active:
        parties = (places.active, session.party)
        exchange = open_intersection(session, "pair", parties, len(keys), columns, limits)
        order = _answer(session, places.active, keys, exchange, method)
        told = told_common(session, places.active, exchange, order)
        if told is None:
            end_with_hint(session, places.owners, table, method.ids, exchange.overlap, limits.setting)
        return told
    exchanges: dict[str, Intersection] = {}
    matches: dict[str, Matches] = {}
    for peer in places.passive:
        with session.scope(peer):
            exchanges[peer] = open_intersection(session, "pair", (places.active, peer), len(keys), columns, limits)
            matches[peer] = _ask(session, peer, keys, exchanges[peer], method)
    least = max(exchange.overlap for exchange in exchanges.values())
    rows, positions = _in_all(matches)
    if len(rows) < least:
        tell_too_few(session, places.passive)
        end_with_hint(session, places.owners, table, method.ids, least, limits.setting)
    common = Common(rows, session.secret.randbytes(SALT_BYTES))
    for peer in places.passive:
        session.send(peer, CommonRows(exchanges[peer].name, common.salt, positions[peer]))
    return common


def _in_all(matches: Mapping[str, Matches]) -> tuple[Ints, dict[str, Ints]]:
    """The asker's rows that all have, in the order of the first peer's tags, and their positions in each list."""
    first = next(iter(matches.values())).mine
    everywhere = reduce(np.intersect1d, (match.mine for match in matches.values()))
    rows = first[np.isin(first, everywhere)]
    positions = {}
    for peer, match in matches.items():
        order = np.argsort(match.mine)
        positions[peer] = match.theirs[order[np.searchsorted(match.mine[order], rows)]]
    return rows, positions


def _ask(session: Session, peer: str, keys: Sequence[bytes], exchange: Intersection, method: Method) -> Matches:
    if method.psi == "ecdh":
        return ecdh.ask(session, peer, keys, exchange)
    return blind_rsa.ask(session, peer, keys, exchange, method.key_bits)


def _answer(session: Session, peer: str, keys: Sequence[bytes], exchange: Intersection, method: Method) -> Ints:
    if method.psi == "ecdh":
        return ecdh.answer(session, peer, keys, exchange)
    return blind_rsa.answer(session, peer, keys, exchange, method.key_bits)


def _keys_at(ids: pl.DataFrame, rows: Ints) -> Iterator[bytes]:
    """The keys of some rows, of which only a part is in memory at once."""
    for start in range(0, len(rows), _KEYS_AT_ONCE):
        yield from keys_in(ids[rows[start : start + _KEYS_AT_ONCE]])


def _digest_of(keys: Iterable[bytes], salt: bytes) -> str:
    digest = hashlib.sha256(_DIGEST + salt)
    for key in keys:
        digest.update(key)
    return digest.hexdigest()
