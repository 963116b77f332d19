"""Alignments between parties that talk over TLS: the same is found, and tampering is refused as in memory."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unpooled.align import blind_rsa, ecdh, ring
from unpooled.align.opening import Limits
from unpooled.align.rows import Aligned, Method, Places, find_common, help_find_common, help_label, label
from unpooled.data.table import Table
from unpooled.errors import PeerFailed, ProtocolError
from unpooled.ledger import Ledger, read_ledger, reconcile
from unpooled.run.conversation import converse
from unpooled.session import Session
from unpooled.transport import certificates
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.transport.trust import load_identity

MakeTable = Callable[..., Table]
Role = Callable[[Session], Any]

PARTIES = ("bank", "telco", "shop", "coordinator")
IDS = {
    "bank": [f"customer {n}" for n in range(60)],
    "telco": [f"customer {n}" for n in range(30, 100)],
    "shop": [f"customer {n}" for n in range(50, 70)],
}
PLACES = Places("bank", ("telco",), "shop", "coordinator")
LIMITS = Limits(10, 10)
TIMEOUT = 100.0


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("alignment") / "certs"
    certificates.make_trial(folder, PARTIES)
    return folder


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def over_network(roles: Mapping[str, Role], certs: Path, folder: Path) -> dict[str, Any]:
    """Each party's result, or the error that it ended with. Each dials those before it."""
    addresses = {party: free_address() for party in roles}

    def run(party: str) -> Any:
        peers = tuple(peer for peer in roles if peer != party)
        earlier = list(roles)[: list(roles).index(party)]
        where = Addresses(addresses[party], {peer: addresses[peer] for peer in earlier})
        with closing(Ledger(folder / f"{party}.jsonl", party, "plan")) as ledger:
            transport = NetworkTransport(
                load_identity(certs / party, party), Mailbox(party, peers, ledger), where, TIMEOUT
            )
            try:
                return converse(Session(transport, ledger, seed=1, timeout=TIMEOUT), {}, roles[party])
            except Exception as error:
                return error

    with ThreadPoolExecutor(len(roles)) as pool:
        return dict(zip(roles, pool.map(run, roles), strict=True))


def roles_of(table: MakeTable, method: Method) -> dict[str, Role]:
    tables = {party: table(party, ids) for party, ids in IDS.items()}

    def bank(session: Session) -> tuple[Aligned, Any]:
        aligned = find_common(session, PLACES, tables["bank"], method, LIMITS)
        return aligned, label(session, PLACES, tables["bank"], aligned, method, LIMITS)

    return {
        "bank": bank,
        "telco": lambda session: find_common(session, PLACES, tables["telco"], method, LIMITS),
        "shop": lambda session: help_label(session, PLACES, tables["shop"], method, LIMITS),
        "coordinator": lambda session: help_find_common(session, PLACES, method, LIMITS),
    }


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa", "aided"])
def test_all_parties_over_the_network_find_what_sets_have_in_common(
    table: MakeTable, certs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, psi: Any
) -> None:
    for module in (ecdh, ring, blind_rsa):
        monkeypatch.setattr(module, "CHUNK", 16)
    monkeypatch.setattr("unpooled.workers.cores", lambda: 1)
    results = over_network(roles_of(table, Method(psi, 1024)), certs, tmp_path)
    assert not any(isinstance(result, Exception) for result in results.values()), results
    aligned, labels = results["bank"]
    bank = [IDS["bank"][row] for row in aligned.rows]
    assert set(bank) == set(IDS["bank"]) & set(IDS["telco"])
    assert [IDS["telco"][row] for row in results["telco"].rows] == bank
    assert dict(zip(bank, labels.tolist(), strict=True)) == {id: 1 if id in IDS["shop"] else -1 for id in bank}
    assert aligned.digest == results["telco"].digest
    assert results["shop"] == len(bank)
    records = [read_ledger(tmp_path / f"{party}.jsonl") for party in PARTIES]
    assert [reconcile(a, b) for a in records for b in records if a is not b] == [[]] * 12


def test_over_the_network_tampering_is_refused_and_all_hear_of_it(
    table: MakeTable, certs: Path, tmp_path: Path, changing: Callable[..., Any]
) -> None:
    roles = roles_of(table, Method("ecdh", 1024))
    honest = roles["telco"]

    def telco(session: Session) -> Any:
        changing(ecdh.HiddenIds, lambda message, number: replace(message, exchange=b"earlier"))(session)
        return honest(session)

    results = over_network(roles | {"telco": telco}, certs, tmp_path)
    assert isinstance(results["bank"], ProtocolError)
    for party in ("telco", "shop", "coordinator"):
        assert isinstance(results[party], PeerFailed)
        assert "HiddenIds" in str(results[party])
        assert "telco" in str(results[party])
        assert results[party].origin == "bank"
