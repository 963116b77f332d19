"""Services that listen and call, over real TLS on this machine: who may come in, how often, and who polls."""

from __future__ import annotations

import secrets
import shutil
import socket
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from peering_services import LONG, Party, until

from unpooled.errors import CertificateError, PeerFailed
from unpooled.ledger import read_ledger
from unpooled.serve.peering import calling, door, talk
from unpooled.serve.peering.calling import _plan_next, _Turn
from unpooled.serve.peering.exchange import exchange
from unpooled.serve.peering.talk import MOST_BYTES
from unpooled.serve.state import audit_log
from unpooled.transport import certificates
from unpooled.transport.handover import PassedConnections, preface
from unpooled.transport.trust import REVOKED_FILE, read_certificate


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(calling, "_LEAST_PAUSE", 0.02)
    monkeypatch.setattr(calling, "_SHORTEST_POLL", 0.05)


@pytest.fixture
def listening(bank: Party, telco: Party) -> Party:
    """The bank, whose door the telco may come to."""
    bank.listens()
    bank.knows(telco)
    telco.knows(bank)
    return bank


def test_two_services_exchange_letters_as_they_are_written(bank: Party, telco: Party) -> None:
    for party in (bank, telco):
        party.listens()
    bank.knows(telco)
    telco.knows(bank)
    for party in (bank, telco):
        party.calls()
    texts = [str(number) for number in range(30)]
    for text in texts:
        bank.tell(telco, text)
        telco.tell(bank, text)
    telco.tell(bank, "ask")
    until(lambda: telco.heard[-1:] == ["bank: answer"] and not bank.pending() and not telco.pending())
    assert telco.heard == [*(f"bank: {text}" for text in texts), "bank: answer"]
    assert bank.heard == [*(f"telco: {text}" for text in texts), "telco: ask"]
    ends = read_certificate(telco.certs / "bank" / "certificate.pem").not_valid_after_utc
    until(lambda: telco.peer(bank)["contact"])
    row = telco.peer(bank)
    assert datetime.fromisoformat(row["certificate_ends"]) == ends
    assert row["problem"] == ""
    until(lambda: idle(bank) and idle(telco))
    for party in (bank, telco):
        party.close()
    assert recorded(bank, "sent") == recorded(telco, "received")
    assert recorded(telco, "sent") == recorded(bank, "received")


def idle(party: Party) -> bool:
    assert party.door is not None
    assert party.calling is not None
    return not party.door._busy.total() and not any(turn.busy for turn in party.calling._turns.values())


def recorded(party: Party, way: str) -> Counter[tuple[str, str, int]]:
    """The frames in a ledger; their order may differ where both have called at the same time."""
    entries = read_ledger(party.ledger.path).entries
    return Counter((entry.kind, entry.scope, entry.bytes) for entry in entries if entry.way == way)


def test_a_party_without_an_address_polls(listening: Party, telco: Party) -> None:
    telco.calls()
    listening.tell(telco, "for you")
    until(lambda: telco.heard == ["bank: for you"])
    telco.tell(listening, "ask")
    until(lambda: telco.heard == ["bank: for you", "bank: answer"])
    until(lambda: not listening.pending() and not telco.pending())
    assert listening.peer(telco)["contact"], "the bank knows that the telco was there"


def test_a_party_with_an_address_is_not_polled(bank: Party, telco: Party) -> None:
    """The bank calls nobody without a reason, and nobody who has no address."""
    telco.listens()
    bank.listens()
    bank.knows(telco)
    telco.knows(bank)
    bank.calls()
    time.sleep(0.2)
    assert read_ledger(bank.ledger.path).entries == ()
    bank.tell(telco, "now")
    until(lambda: telco.heard == ["bank: now"])


def test_a_peer_that_cannot_be_reached_is_noted_and_gets_its_letters_later(bank: Party, telco: Party) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        nowhere = f"127.0.0.1:{held.getsockname()[1]}"
    telco.knows(bank)
    with telco.database.transaction() as connection:
        connection.execute("UPDATE peers SET address = ?", (nowhere,))
    telco.tell(bank, "one")
    telco.calls()
    until(lambda: f"nobody listens at {nowhere}" in telco.peer(bank)["problem"])
    bank.knows(telco)
    bank.listens()
    with telco.database.transaction() as connection:
        connection.execute("UPDATE peers SET address = ?", (bank.address,))
    until(lambda: bank.heard == ["telco: one"])
    until(lambda: telco.peer(bank)["problem"] == "")


def test_calls_become_rare_while_nothing_comes_of_them() -> None:
    turn = _Turn(busy=True)
    pauses = []
    for _ in range(10):
        began = time.monotonic()
        _plan_next(turn, None)
        pauses.append(round(turn.may - began))
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == 60
    assert not turn.busy
    _plan_next(turn, 0)
    assert turn.retry_pause == 1
    for _ in range(20):
        _plan_next(turn, 0)
    assert turn.poll_pause == 15
    _plan_next(turn, 1)
    assert turn.poll_pause < 15


def test_a_service_calls_less_often_than_doors_allow(
    listening: Party, telco: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert calling._CALLS_A_MINUTE < door.EXCHANGES_A_MINUTE
    monkeypatch.setattr(calling, "_CALLS_A_MINUTE", 2)
    held, hold = [], listening.exchanges.hold

    def counted(peer: str, *words: Any, calls: bool) -> int:
        held.append(peer)
        return hold(peer, *words, calls=calls)

    monkeypatch.setattr(listening.exchanges, "hold", counted)
    telco.calls()
    until(lambda: len(held) == 2)
    time.sleep(0.3)
    assert held == ["telco", "telco"]


# who may come in


def test_a_stranger_is_refused_with_a_reason_and_noted_once(listening: Party, shop: Party) -> None:
    """The shop has a valid certificate, but is not among the bank's peers."""
    for _ in range(3):
        with pytest.raises(CertificateError, match="bank refused the connection: shop is not a peer of bank"):
            shop.call(listening)
    (act,) = audit_log.acts(listening.database)
    assert (act.who, act.what) == ("peer shop", "called and was refused")
    assert listening.door is not None
    assert "3 connection(s) refused: shop is not a peer" in listening.door.refusals.hint()
    listening.knows(shop)
    with shop.call(listening) as conversation:
        shop.knows(listening)
        assert exchange(conversation, shop.post, calls=True) == 0


def test_a_certificate_of_another_authority_is_refused_on_both_sides(
    listening: Party, telco: Party, tmp_path: Path
) -> None:
    certificates.make_trial(tmp_path / "elsewhere", ["telco"])
    shutil.copytree(tmp_path / "elsewhere" / "telco", telco.certs / "telco", dirs_exist_ok=True)
    telco.tell(listening, "one")
    telco.calls()
    until(lambda: "is not signed by the authority that telco trusts" in telco.peer(listening)["problem"])
    assert listening.heard == []


def renew(party: Party) -> None:
    folder, authority = party.certs / party.name, party.certs / certificates.TRIAL_AUTHORITY
    certificates.sign(authority, folder / certificates.REQUEST_FILE, out=folder, days=20)


def test_a_revocation_and_a_renewal_count_at_once(listening: Party, telco: Party) -> None:
    telco.tell(listening, "before")
    with telco.call(listening) as conversation:
        exchange(conversation, telco.post, calls=True)
    authority = telco.certs / certificates.TRIAL_AUTHORITY
    certificates.revoke(authority, telco.certs / "telco" / "certificate.pem")
    shutil.copy(authority / REVOKED_FILE, telco.certs / "bank" / REVOKED_FILE)
    with pytest.raises(CertificateError, match=r"bank refused the connection: telco's certificate .* was revoked"):
        telco.call(listening)
    assert listening.heard == ["telco: before"]
    renew(telco)
    telco.tell(listening, "after")
    with telco.call(listening) as conversation:
        exchange(conversation, telco.post, calls=True)
    until(lambda: listening.heard == ["telco: before", "telco: after"])


def test_an_own_certificate_that_is_not_in_order_lets_nobody_in_and_no_path_out(listening: Party, telco: Party) -> None:
    (telco.certs / "bank" / "key.pem").rename(telco.certs / "key.pem")
    with pytest.raises(Exception, match="not with TLS") as caught:
        telco.call(listening)
    assert "certs" not in str(caught.value)
    assert listening.door is not None
    assert "key.pem is missing" in listening.door.refusals.hint()
    with pytest.raises(Exception, match="bank itself is not in order"):
        listening.door._admit((telco.certs / "telco" / "certificate.pem").read_bytes())
    (telco.certs / "key.pem").rename(telco.certs / "bank" / "key.pem")
    with telco.call(listening) as conversation:
        assert exchange(conversation, telco.post, calls=True) == 0


# too much


def test_a_peer_that_calls_too_often_is_refused_and_loses_nothing(
    listening: Party, telco: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "EXCHANGES_A_MINUTE", 3)
    telco.tell(listening, "one")
    for _ in range(3):
        with telco.call(listening) as conversation:
            exchange(conversation, telco.post, calls=True)
        until(lambda: not listening.door or not listening.door._busy["telco"])
    telco.tell(listening, "two")
    with pytest.raises(CertificateError, match="telco called more than 3 times in a minute"):
        telco.call(listening)
    assert listening.heard == ["telco: one"]
    assert telco.pending() == 1


def test_a_peer_has_few_connections_at_once_and_others_are_served_meanwhile(
    listening: Party, telco: Party, shop: Party
) -> None:
    listening.knows(shop)
    shop.knows(listening)
    with ExitStack() as stack:
        for _ in range(door._PER_PEER):
            stack.enter_context(telco.call(listening)._connection)
        until(lambda: listening.door is not None and listening.door._busy["telco"] == door._PER_PEER)
        with pytest.raises(CertificateError, match=f"telco has {door._PER_PEER} connections"):
            telco.call(listening)
        shop.tell(listening, "served")
        with shop.call(listening) as conversation:
            exchange(conversation, shop.post, calls=True)
        assert listening.heard == ["shop: served"]
    until(lambda: listening.door is not None and not listening.door._busy["telco"])
    assert "connection was lost" in listening.peer(telco)["problem"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [((2**40).to_bytes(8, "little"), f"1 to {MOST_BYTES} are allowed"), (b"\1" + b"\0" * 8, "not a message")],
    ids=["huge", "garbage"],
)
def test_a_huge_letter_and_garbage_are_refused_and_noted(
    listening: Party, telco: Party, words: bytes, complaint: str
) -> None:
    conversation = telco.call(listening)
    with conversation._connection:
        conversation._connection.sendall(conversation._secured.encrypt(words))
        with pytest.raises(PeerFailed, match=f"bank failed: telco .*{complaint}"):
            conversation.receive()
    until(lambda: complaint in listening.peer(telco)["problem"])


def test_a_service_that_ends_does_not_wait_for_a_silent_peer(listening: Party, telco: Party) -> None:
    assert talk.FRAME_SECONDS >= 30
    with telco.call(listening)._connection:
        until(lambda: listening.exchanges._connections)
        began = time.monotonic()
        listening.close()
        assert time.monotonic() - began < 20
    assert listening.peer(telco)["problem"] == "", "that was not the peer's fault"
    listening.database.close()


def test_a_service_that_ends_does_not_wait_for_whom_it_has_called(
    bank: Party, telco: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, silent = time.monotonic(), []

    def hold(peer: str, connection: socket.socket, *_: object, **__: object) -> int:
        silent.append(connection)
        return 0

    monkeypatch.setattr(bank.exchanges, "hold", hold)
    bank.listens()
    bank.knows(telco)
    telco.knows(bank)
    telco.calls()
    until(lambda: silent and telco.exchanges._connections)
    telco.close()
    assert time.monotonic() - began < 20
    for connection in silent:
        connection.close()


# runs


def caller(party: Party, words: bytes) -> socket.socket:
    assert party.door is not None
    connection = socket.create_connection(("127.0.0.1", party.door.port), LONG)
    connection.sendall(words)
    return connection


def test_callers_of_runs_are_passed_on_and_those_of_unknown_runs_hung_up_on(listening: Party) -> None:
    keys = [secrets.token_hex(16) for _ in range(3)]
    with ExitStack() as stack:
        ends = []
        for key in keys[:2]:
            listening.runs[key], end = socket.socketpair()
            stack.enter_context(listening.runs[key])
            ends.append(stack.enter_context(closing(PassedConnections(fileno=end.detach()))))
        for number in (1, 0):
            calling = stack.enter_context(caller(listening, preface(keys[number]) + b"TLS follows"))
            connection, _ = ends[number].accept()
            stack.enter_context(connection).setblocking(True)
            assert connection.recv(100) == b"TLS follows"
            connection.sendall(b"from the run")
            assert calling.recv(100) == b"from the run"
        with caller(listening, preface(keys[2])) as unknown, suppress(ConnectionResetError):
            assert unknown.recv(1) == b""
    assert listening.door is not None
    assert "a run that is not here" in listening.door.refusals.hint()


def test_letters_and_runs_use_the_same_port(listening: Party, telco: Party) -> None:
    key = secrets.token_hex(16)
    listening.runs[key], end = socket.socketpair()
    with listening.runs[key], PassedConnections(fileno=end.detach()) as run, caller(listening, preface(key)):
        telco.tell(listening, "one")
        with telco.call(listening) as conversation:
            exchange(conversation, telco.post, calls=True)
        run.accept()[0].close()
    assert listening.heard == ["telco: one"]
