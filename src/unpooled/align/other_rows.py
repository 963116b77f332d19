"""The rows that the passive parties have and the active party lacks, under handles instead of ids.

After the common rows are found, nothing is dropped: the passive parties keep the other rows that all of them have,
behind the common ones, in an order that the ids do not show. The active party is told how many there are, and a random
seed that gives every row, common or not, a handle: a short text that only the passive parties can trace to an id.

1. several passive parties find the rows that they have in common among themselves, as all owners did before
2. the first of them gives the others the seeds of the order and of the handles
3. they compare that order among themselves, as all owners do that of the common rows
4. each tells the active party how many other rows there are, and the seed of the handles

>>> extended = ExtendedRows(np.array([4, 2]), 2, 3, bytes(32), "")
>>> len(set(extended.handles)), len(extended.handles[0])
(5, 16)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.align.ids import keys_of
from unpooled.align.opening import Limits
from unpooled.align.rows import Aligned, Method, Places, find_common, help_find_common
from unpooled.align.same import require_same_rows
from unpooled.arrays import Ints
from unpooled.data.handles import HANDLE_DIGITS
from unpooled.data.table import Table
from unpooled.errors import ProtocolError, RefusedError
from unpooled.session import Session
from unpooled.wire import message

_SEED_BYTES = 32
_DIGEST, _ORDER, _HANDLE, _ORDERED = (
    f"unpooled align {what} v1".encode() for what in ("other rows", "order", "handle", "ordered rows")
)


@message(
    discloses="nothing: random seeds of the order of rows and of their handles",
    to="a passive party, which has the same rows",
)
class RowSeeds:
    order: bytes
    handles: bytes


@message(
    discloses="how many rows all passive parties have that the receiver lacks, and random handles in place of ids",
    to="the active party",
)
class OtherRows:
    common: int
    others: int
    handles: bytes


@dataclass(frozen=True, eq=False)
class ExtendedRows:
    """A party's common rows, and behind them its other ones; the active party has no rows for those.

    `digest` stands for all of them, as that of an alignment does for the common rows.
    """

    rows: Ints
    common: int
    others: int
    seed: bytes
    digest: str

    @property
    def handles(self) -> list[str]:
        """A handle for each row, common ones first."""
        prefix = _HANDLE + self.seed
        return [
            hashlib.sha256(prefix + number.to_bytes(8, "little")).hexdigest()[:HANDLE_DIGITS]
            for number in range(self.common + self.others)
        ]


def keep_other_rows(
    session: Session, places: Places, table: Table, aligned: Aligned, method: Method, limits: Limits, least: int = 1
) -> ExtendedRows:
    """At a passive party: the common rows in the order given, then the others that all passive parties have.

    If these are fewer than `least`, but some, it refuses.
    """
    first, *rest = places.passive
    with session.scope("other rows"):
        shared = np.arange(table.frame.height)
        if rest:
            shared = find_common(session, among_passive(places), table, method, limits).rows  # 1
        others = np.setdiff1d(shared, aligned.rows)
        check_others(session.party, len(others), least)
        if session.party == first:
            seeds = RowSeeds(session.rng.bytes(_SEED_BYTES), _handles_seed(session, table.take(shared), method))
            for party in rest:
                session.send(party, seeds)  # 2
        else:
            seeds = session.recv(first, RowSeeds)
            if {len(seeds.order), len(seeds.handles)} != {_SEED_BYTES}:
                raise ProtocolError(f"invalid RowSeeds from {first}: wrong length")
        keys = keys_of(table.take(others), method.ids)
        hidden = [hashlib.sha256(_ORDER + seeds.order + key).digest() for key in keys]
        order = sorted(range(len(others)), key=hidden.__getitem__)
        if rest:
            require_same_rows(session, places.passive, _ordered([keys[place] for place in order], seeds))  # 3
        others = others[np.array(order, np.int64)]
        session.send(places.active, OtherRows(len(aligned.rows), len(others), seeds.handles))  # 4
    return _extended(np.concatenate([aligned.rows, others]), aligned, len(others), seeds.handles)


def check_others(party: str, others: int, least: int) -> None:
    """Refuse to let values be made of a few people: one other person under a handle is that person."""
    if 0 < others < least:
        raise RefusedError(
            f"{party} lets values be made of at least {least} people whom the active party lacks "
            "(policy.minimum_rows), and there are fewer"
        )


def _ordered(keys: Sequence[bytes], seeds: RowSeeds) -> str:
    """A digest of the other rows in their order, and of the seeds."""
    found = hashlib.sha256(_ORDERED + seeds.order + seeds.handles)
    for key in keys:
        found.update(hashlib.sha256(key).digest())
    return found.hexdigest()


def _handles_seed(session: Session, table: Table, method: Method) -> bytes:
    """Where handles come from: a draw, and who has them. So the same handle never stands for two people."""
    seeded = hashlib.sha256(_HANDLE + session.rng.bytes(_SEED_BYTES))
    for key in sorted(keys_of(table, method.ids)):
        seeded.update(key)
    return seeded.digest()


def learn_other_rows(
    session: Session, places: Places, aligned: Aligned, most: int = Limits().most_peer_ids
) -> ExtendedRows:
    """At the active party: how many rows it lacks, and handles for all; more than `most` rows are refused."""
    with session.scope("other rows"):
        told = {party: session.recv(party, OtherRows) for party in places.passive}  # 4
    first = told[places.passive[0]]
    for party, other in told.items():
        if (other.common, other.others, other.handles) != (first.common, first.others, first.handles):
            raise ProtocolError(
                f"invalid OtherRows from {party}: other numbers or handles than {places.passive[0]} has"
            )
    if first.common != len(aligned.rows) or not 0 <= first.others <= most or len(first.handles) != _SEED_BYTES:
        raise ProtocolError(f"invalid OtherRows from {places.passive[0]}: a number is out of range")
    return _extended(aligned.rows, aligned, first.others, first.handles)


def help_keep_other_rows(session: Session, places: Places, method: Method, limits: Limits) -> int | None:
    """At the coordinator, which compares the passive parties' hidden ids; how many rows they have in common."""
    if len(places.passive) < 2:
        return None
    with session.scope("other rows"):
        return help_find_common(session, among_passive(places), method, limits)


def among_passive(places: Places) -> Places:
    """The passive parties as those who align, the first of them in the place of the active one."""
    first, *rest = places.passive
    return Places(first, tuple(rest), None, places.coordinator)


def _extended(rows: Ints, aligned: Aligned, others: int, seed: bytes) -> ExtendedRows:
    numbers = f"{len(aligned.rows)} {others}".encode()
    digest = hashlib.sha256(_DIGEST + seed + numbers + aligned.digest.encode()).hexdigest()
    return ExtendedRows(rows, len(aligned.rows), others, seed, digest)
