"""Who will send which message in an alignment, told before it starts; how many chunks lists take depends on the tables.

>>> {one.kind for one in other_rows_outline(Places("clinic", ("registry",), None, "coordinator"), "ecdh")}
{'OtherRows'}
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from unpooled.align import aided, blind_rsa, ecdh, ring, rows, same
from unpooled.align.ids import IdLooks
from unpooled.align.opening import Opening, TooFew
from unpooled.align.other_rows import OtherRows, RowSeeds, among_passive
from unpooled.align.rows import Places, Psi
from unpooled.secure.outline import Exchange


def alignment_outline(places: Places, psi: Psi) -> list[Exchange]:
    """What finding the common rows sends, and where there is a seeker which of them it has."""
    owners = places.owners
    sent: list[Exchange] = []
    if places.coordinator and places.meets(psi) and psi == "aided":
        sent += _aided_outline(owners, places.coordinator, told=owners)
    elif places.coordinator and places.meets(psi):
        sent += _ring_outline(owners, places.coordinator)
    else:
        for peer in places.passive:
            sent += [*_pair_outline(places.active, peer, psi), Exchange(places.active, peer, ring.CommonRows, 1)]
    sent += _same_rows_outline(owners)
    if places.seeker:
        sent += [Exchange(party, places.seeker, rows.CommonCount, 1, 60) for party in places.passive]
        if psi == "aided" and places.coordinator:
            sent += _aided_outline((places.active, places.seeker), places.coordinator, told=(places.active,))
        else:
            sent += _pair_outline(places.active, places.seeker, psi)
        sent.append(Exchange(places.active, places.seeker, rows.Enough, 1, 60))
    return [*sent, *_ending_outline(places, psi)]


def other_rows_outline(places: Places, psi: Psi) -> list[Exchange]:
    """What keeping the rows that the active party lacks sends; several passive parties align among themselves."""
    first, *rest = places.passive
    return [
        *(alignment_outline(among_passive(places), psi) if rest else []),
        *(Exchange(first, party, RowSeeds, 1, 150) for party in rest),
        *_same_rows_outline(places.passive),
        *(Exchange(party, places.active, OtherRows, 1, 120) for party in places.passive),
    ]


def _same_rows_outline(owners: Sequence[str]) -> list[Exchange]:
    kinds = same.HiddenDigest, same.SameRows
    return [Exchange(a, b, kind, 1, 120) for kind in kinds for a, b in permutations(owners, 2)]


def _ending_outline(places: Places, psi: Psi) -> list[Exchange]:
    """What is sent besides when a step finds too few ids in common."""
    few = "if too few are in common"
    teller = places.coordinator if places.coordinator and places.meets(psi) else places.active
    told = [(teller, owner) for owner in places.owners if places.passive and owner != teller]
    told += [(places.active, places.seeker)] if places.seeker else []
    if places.seeker and places.coordinator and psi == "aided" and not places.passive:
        told.append((places.coordinator, places.active))
    askers = [*places.passive, *([places.seeker] if places.seeker else [])]
    return [
        *(Exchange(sender, receiver, TooFew, only_if=few) for sender, receiver in told),
        *(Exchange(party, places.active, IdLooks, only_if=few) for party in askers),
    ]


def _ring_outline(owners: Sequence[str], coordinator: str) -> list[Exchange]:
    everybody = (*owners, coordinator)
    return [
        *(Exchange(a, b, Opening, 1, 120) for a, b in permutations(everybody, 2)),
        *(Exchange(owners[place - 1], owner, ecdh.HiddenIds) for place, owner in enumerate(owners)),
        *(Exchange(owner, coordinator, ring.Tags) for owner in owners),
        *(Exchange(coordinator, owner, ring.CommonRows, 1) for owner in owners),
    ]


def _aided_outline(members: Sequence[str], coordinator: str, told: Sequence[str]) -> list[Exchange]:
    return [
        *(Exchange(a, b, Opening, 1, 120) for a, b in permutations((*members, coordinator), 2)),
        *(Exchange(a, b, aided.KeyPart, 1, 120) for a, b in permutations(members, 2)),
        *(Exchange(member, coordinator, aided.KeyedTags) for member in members),
        *(Exchange(coordinator, member, aided.CommonTags, 1) for member in told),
    ]


def _pair_outline(asker: str, peer: str, psi: Psi) -> list[Exchange]:
    openings = [Exchange(a, b, Opening, 1, 120) for a, b in permutations((asker, peer), 2)]
    if psi == "ecdh":
        there_and_back = [Exchange(asker, peer, ecdh.HiddenIds), Exchange(peer, asker, ecdh.HiddenIds)]
        return [*openings, *there_and_back, Exchange(peer, asker, ecdh.RaisedIds)]
    return [
        *openings,
        Exchange(peer, asker, blind_rsa.SigningKey, 1, 3_000),
        Exchange(peer, asker, blind_rsa.SignedTags),
        Exchange(asker, peer, blind_rsa.BlindedIds),
        Exchange(peer, asker, blind_rsa.Signatures),
    ]
