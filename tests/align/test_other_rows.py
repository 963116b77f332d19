"""Rows that the active party lacks are kept by the passive parties, in one order, under handles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.align.opening import Limits
from unpooled.align.other_rows import (
    ExtendedRows,
    OtherRows,
    RowSeeds,
    help_keep_other_rows,
    keep_other_rows,
    learn_other_rows,
)
from unpooled.align.rows import Aligned, Method, Places, find_common, help_find_common
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import ProtocolError, RefusedError
from unpooled.ledger import Record
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session

METHOD, LIMITS = Method("ecdh", 1024), Limits(0, 0)
CLINIC = ["c", "x", "a", "e"]
REGISTRY = ["a", "b", "c", "d", "e", "f", "g"]
THREE = Aligned(np.arange(3), "digest")
INSURER = ["g", "f", "c", "a", "b", "e", "y"]


def run(
    owners: Mapping[str, Sequence[str]], seed: int = 0, least: int = 1, method: Method = METHOD
) -> tuple[dict[str, ExtendedRows], dict[str, Record]]:
    """Align, then keep the other rows; the first owner is the active one."""
    active, *passive = owners
    places = Places(active, tuple(passive), None, "coordinator")
    tables = {party: table_from_frame(pl.DataFrame({"id": ids}), "id", party) for party, ids in owners.items()}

    def owner(session: Session) -> ExtendedRows:
        table: Table = tables[session.party]
        aligned = find_common(session, places, table, method, LIMITS)
        if session.party == active:
            return learn_other_rows(session, places, aligned)
        return keep_other_rows(session, places, table, aligned, method, LIMITS, least)

    def coordinator(session: Session) -> Any:
        help_find_common(session, places, method, LIMITS)
        return help_keep_other_rows(session, places, method, LIMITS)

    roles: dict[str, Any] = dict.fromkeys(owners, owner)
    seeds = dict.fromkeys(owners, seed)
    outcome = simulate_roles(roles | {"coordinator": coordinator}, timeout=120, seeds=seeds)
    return {party: outcome.results[party] for party in owners}, outcome.ledgers


def test_one_passive_party_keeps_all_of_its_rows() -> None:
    found, _ = run({"clinic": CLINIC, "registry": REGISTRY})
    clinic, registry = found["clinic"], found["registry"]
    assert (clinic.common, clinic.others) == (registry.common, registry.others) == (3, 4)
    assert sorted(registry.rows) == list(range(7))
    common = [REGISTRY[row] for row in registry.rows[:3]]
    assert common == [CLINIC[row] for row in clinic.rows]
    assert clinic.digest == registry.digest
    assert clinic.handles == registry.handles
    assert len(set(clinic.handles)) == 7


@pytest.mark.parametrize("psi", ["ecdh", "aided"])
def test_several_passive_parties_keep_what_all_of_them_have(psi: Any) -> None:
    found, _ = run({"clinic": CLINIC, "registry": REGISTRY, "insurer": INSURER}, method=Method(psi, 1024))
    registry, insurer = found["registry"], found["insurer"]
    kept = [REGISTRY[row] for row in registry.rows]
    assert kept == [INSURER[row] for row in insurer.rows]
    assert set(kept[:3]) == {"a", "c", "e"}
    assert set(kept[3:]) == {"b", "f", "g"}
    assert len({each.digest for each in found.values()}) == 1


def test_the_order_of_other_rows_follows_the_seed_and_not_the_ids() -> None:
    ids = [f"p{number:03}" for number in range(40)]
    orders = []
    for seed in (1, 1, 2):
        found, _ = run({"clinic": ids[:10], "registry": ids}, seed)
        orders.append([ids[row] for row in found["registry"].rows[10:]])
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != sorted(orders[0])


@pytest.mark.parametrize("registry", [CLINIC, ["c", "a"]], ids=["the same rows", "fewer rows"])
def test_there_may_be_no_other_rows(registry: list[str]) -> None:
    found, _ = run({"clinic": CLINIC, "registry": registry})
    assert found["clinic"].others == 0
    assert len(found["clinic"].handles) == len(registry)


def test_the_active_party_gets_numbers_and_handles_only() -> None:
    _, ledgers = run({"clinic": CLINIC, "registry": REGISTRY, "insurer": INSURER})
    got = {entry.kind for entry in ledgers["clinic"].entries if entry.way == "received" and "other rows" in entry.scope}
    assert got == {"OtherRows"}


def test_an_order_that_the_first_party_tells_one_and_not_another_is_noticed() -> None:
    """Both hold the same rows, but columns of different people would lie side by side."""
    ids = [f"p{number:03}" for number in range(40)]
    owners = ("clinic", "registry", "insurer", "pharmacy")
    places = Places("clinic", owners[1:], None, "coordinator")

    def owner(session: Session) -> ExtendedRows:
        table = table_from_frame(pl.DataFrame({"id": ids[:10] if session.party == "clinic" else ids}), "id", "x")
        aligned, send = find_common(session, places, table, METHOD, LIMITS), session.send

        def deviating(party: str, one: Any, **how: Any) -> None:
            lies = isinstance(one, RowSeeds) and party == "pharmacy"
            send(party, RowSeeds(bytes(32), one.handles) if lies else one, **how)

        if session.party == "clinic":
            return learn_other_rows(session, places, aligned)
        if session.party == "registry":
            session.send = deviating  # type: ignore[method-assign]
        return keep_other_rows(session, places, table, aligned, METHOD, LIMITS)

    def coordinator(session: Session) -> Any:
        help_find_common(session, places, METHOD, LIMITS)
        return help_keep_other_rows(session, places, METHOD, LIMITS)

    roles: dict[str, Any] = dict.fromkeys(owners, owner)
    with pytest.raises(ProtocolError, match=r"pharmacy.* do not hold the same rows in the same order"):
        simulate_roles(roles | {"coordinator": coordinator}, timeout=120)


def test_a_handful_of_other_people_is_not_handed_out() -> None:
    with pytest.raises(RefusedError, match=r"registry lets .* at least 5 people .*policy\.minimum_rows"):
        run({"clinic": CLINIC, "registry": REGISTRY}, least=5)
    assert run({"clinic": CLINIC, "registry": REGISTRY}, least=4)[0]["clinic"].others == 4
    assert run({"clinic": CLINIC, "registry": CLINIC}, least=4)[0]["clinic"].others == 0


@pytest.mark.parametrize(
    "told",
    [
        OtherRows(2, 4, bytes(32)),
        OtherRows(3, -1, bytes(32)),
        OtherRows(3, 4, bytes(8)),
        OtherRows(3, 2**40, bytes(32)),
    ],
    ids=["another number of common rows", "a negative number", "a short seed", "too many rows"],
)
def test_wrong_numbers_are_refused(told: OtherRows) -> None:
    places = Places("clinic", ("registry",))

    def clinic(session: Session) -> None:
        learn_other_rows(session, places, THREE)

    def registry(session: Session) -> None:
        with session.scope("other rows"):
            session.send("clinic", told)

    with pytest.raises(ProtocolError, match="OtherRows from registry"):
        simulate_roles({"clinic": clinic, "registry": registry}, timeout=60)


def test_passive_parties_that_disagree_are_found() -> None:
    places = Places("clinic", ("registry", "insurer"))

    def clinic(session: Session) -> None:
        learn_other_rows(session, places, THREE)

    def other(session: Session) -> None:
        with session.scope("other rows"):
            session.send("clinic", OtherRows(3, 4 if session.party == "registry" else 5, bytes(32)))

    with pytest.raises(ProtocolError, match="insurer"):
        simulate_roles({"clinic": clinic, "registry": other, "insurer": other}, timeout=60)


def test_with_other_people_all_handles_are_others_even_with_the_same_random_seed() -> None:
    one, again = (run({"clinic": CLINIC, "registry": REGISTRY})[0]["registry"].handles for _ in range(2))
    other = run({"clinic": CLINIC, "registry": REGISTRY[:-1]})[0]["registry"].handles
    assert one == again
    assert not set(one) & set(other)
