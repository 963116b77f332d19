"""Two parties over real TLS: who may talk, who dials, what is said of somebody else at an address."""

import logging
import re
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from network_parties import Answer, Load, ask, both, echo, free_address, identity, open_session
from unpooled.control import Abort
from unpooled.errors import CertificateError, InputError, PeerFailed, PeerLost, PeerSilent, PlanError, UnpooledError
from unpooled.ledger import Ledger, read_ledger, reconcile
from unpooled.session import Session
from unpooled.transport import certificates, trust
from unpooled.transport.link import CHUNK_BYTES
from unpooled.transport.mailbox import FREE_BYTES, SMALL_BYTES, Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.wire import kind_of


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    certificates.make_trial(tmp_path / "certs", ["bank", "telco", "shop"])
    return tmp_path / "certs"


def test_messages_of_any_size_arrive_whole(certs: Path) -> None:
    sizes = (0, 1, SMALL_BYTES, CHUNK_BYTES - 100, CHUNK_BYTES, 3 * CHUNK_BYTES + 1, FREE_BYTES)

    def each(role: Callable[[int], Callable[[Session], int]]) -> Callable[[Session], list[int]]:
        return lambda session: [role(size)(session) for size in sizes]

    assert both(each(lambda _: echo), each(ask), certs) == [list(sizes)] * 2


def test_either_side_may_dial(certs: Path) -> None:
    assert both(ask(10), echo, certs) == [10, 10]
    assert both(ask(10), echo, certs, names=("telco", "bank")) == [10, 10]


def test_ledgers_of_both_sides_agree(certs: Path) -> None:
    both(echo, ask(5000), certs)
    ledgers = {record.party: record for record in map(read_ledger, certs.glob("*.jsonl"))}
    assert reconcile(ledgers["bank"], ledgers["telco"]) == []
    assert len(ledgers["bank"].entries) == 4
    assert ledgers["bank"].closed


def held(session: Session) -> int:
    """Say something that another message follows, then wait, or end."""
    session.send(session.peers[0], Load(np.ones(10, np.uint8)), more=True)
    answer = session.recv(session.peers[0], Answer)
    session.send(session.peers[0], answer, more=True)
    return answer.total


def heard(session: Session) -> int:
    total = echo(session)
    return total + session.recv(session.peers[0], Answer).total


def test_nothing_is_held_back_while_a_party_waits_or_when_it_ends(certs: Path) -> None:
    assert both(heard, held, certs) == [20, 10]
    ledgers = {record.party: record for record in map(read_ledger, certs.glob("*.jsonl"))}
    assert reconcile(ledgers["bank"], ledgers["telco"]) == []


def test_what_was_held_back_precedes_the_notice_of_a_failure(certs: Path) -> None:
    def fails(session: Session) -> None:
        session.send(session.peers[0], Load(np.ones(10, np.uint8)), more=True)
        raise InputError("row 7")

    def listens(session: Session) -> None:
        session.recv(session.peers[0], Load)  # unless it has heard of the failure by then
        session.recv(session.peers[0], Answer)

    accepted, dialled = both(listens, fails, certs)
    assert isinstance(dialled, InputError)
    assert isinstance(accepted, PeerFailed)
    (ledger,) = map(read_ledger, certs.glob("bank-*.jsonl"))
    assert [entry.kind for entry in ledger.entries if entry.way == "received"] == [kind_of(Load), kind_of(Abort)]


# who may talk


def expire(certs: Path, party: str) -> None:
    authority = trust.read_authority(certs / "trial_authority")
    key = trust.read_key(certs / "trial_authority" / "authority-key.pem")
    now = datetime.now(UTC)
    public = trust.read_key(certs / party / "key.pem").public_key()
    old = certificates.issue(authority, key, party, public, now - timedelta(days=9), now - timedelta(days=1))
    (certs / party / "certificate.pem").write_bytes(old.public_bytes(Encoding.PEM))


def swap_authority(certs: Path, party: str) -> None:
    certificates.make_trial(certs / "elsewhere", [party])
    for name in ("key.pem", "certificate.pem"):
        shutil.copy(certs / "elsewhere" / party / name, certs / party / name)


def revoke(certs: Path, party: str) -> None:
    certificates.revoke(certs / "trial_authority", certs / party / "certificate.pem")
    for other in ("bank", "telco"):
        shutil.copy(certs / "trial_authority" / "revoked.pem", certs / other / "revoked.pem")


def impersonate(certs: Path, party: str) -> None:
    for name in ("key.pem", "certificate.pem"):
        shutil.copy(certs / "shop" / name, certs / party / name)


SPOIL = {"expired": expire, "another authority": swap_authority, "revoked": revoke, "another party's": impersonate}


def with_faults(certs: Path, spoiled: str) -> dict[str, list[object]]:
    """How the bank and the telco end for each fault of the certificate of one of them; all at once: they wait."""

    def end(fault: str) -> list[object]:
        folder = certs.parent / fault
        shutil.copytree(certs, folder)
        SPOIL[fault](folder, spoiled)
        return both(echo, ask(1), folder, timeout=8)

    with ThreadPoolExecutor(len(SPOIL)) as pool:
        return dict(zip(SPOIL, pool.map(end, SPOIL), strict=True))


def test_a_bad_dialler_is_refused_with_a_line_on_both_sides(certs: Path, caplog: pytest.LogCaptureFixture) -> None:
    named = {
        "expired": ("telco.*expired", "expired"),
        "another authority": ("telco.*authority", "authority.*bank"),
        "revoked": ("bank.*telco's certificate", "telco's certificate"),
        "another party's": ("shop.*bank", "shop.*bank"),
    }
    with caplog.at_level(logging.WARNING, "unpooled.transport"):
        ends = with_faults(certs, "telco")
    for fault, (dialler_says, acceptor_says) in named.items():
        accepting, dialling = ends[fault]
        assert isinstance(dialling, CertificateError), fault
        assert re.search(dialler_says, str(dialling))
        assert isinstance(accepting, PeerLost), fault
        assert re.search(f"8 s.*telco.*{acceptor_says}", str(accepting))
        assert re.search(f"bank.*{acceptor_says}", caplog.text)


def test_a_bad_acceptor_is_refused_with_a_line_on_both_sides(certs: Path) -> None:
    named = {
        "expired": ("bank at .*expired", "bank.*expired"),
        "another authority": ("authority.*telco", "bank.*authority"),
        "revoked": (r"bank's certificate \(serial .*\).*revoked", "bank's certificate"),
        "another party's": ("bank.*certificate", "bank"),
    }
    for fault, (accepting, dialling) in with_faults(certs, "bank").items():
        dialler_says, acceptor_says = named[fault]
        assert isinstance(dialling, CertificateError), fault
        assert re.search(dialler_says, str(dialling))
        assert isinstance(accepting, PeerLost), fault
        assert re.search(acceptor_says, str(accepting))


def client_context(certs: Path, party: str | None) -> ssl.SSLContext:
    """A dialler that accepts any certificate of the authority, and shows its own if it has one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(certs / "bank" / "authority.pem")
    if party:
        context.load_cert_chain(certs / party / "certificate.pem", certs / party / "key.pem")
    return context


def refused_by_the_bank(certs: Path, call: Callable[[tuple[str, int]], object], timeout: float = 6) -> str:
    """What the bank says at the end when nobody but this caller came."""
    address = free_address()
    host, _, port = address.rpartition(":")

    def at_last() -> object:
        deadline = time.monotonic() + 20
        while True:
            try:
                return call((host, int(port)))
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(at_last)
        with pytest.raises(PeerLost, match=rf"bank.*{timeout:g} s.*telco") as caught:
            open_session(certs / "bank", "bank", "telco", Addresses(address, {}), timeout=timeout)
        calling.result()
    return str(caught.value)


def test_a_caller_without_a_certificate_is_refused(certs: Path, caplog: pytest.LogCaptureFixture) -> None:
    def call(address: tuple[str, int]) -> None:
        with (
            socket.create_connection(address) as plain,
            client_context(certs, None).wrap_socket(plain) as connection,
            pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"),
        ):
            connection.recv(1)

    with caplog.at_level(logging.WARNING, "unpooled.transport"):
        assert "missing" in refused_by_the_bank(certs, call)
    assert re.search("bank.* 1 .*missing", caplog.text)


def test_a_caller_that_knows_no_newer_tls_is_refused(certs: Path) -> None:
    def call(address: tuple[str, int]) -> None:
        context = client_context(certs, "telco")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(address) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain)

    assert "UNSUPPORTED_PROTOCOL" in refused_by_the_bank(certs, call)


def test_a_plain_connection_gets_nothing(certs: Path) -> None:
    def call(address: tuple[str, int]) -> None:
        with socket.create_connection(address) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection.settimeout(10)
            with suppress(ConnectionResetError):  # hung up on before all was read
                assert connection.recv(1) == b""

    assert "TLS" in refused_by_the_bank(certs, call)


def test_a_second_connection_under_a_name_is_refused(certs: Path) -> None:
    address = free_address()
    seen: list[object] = []

    def second(session: Session) -> int:
        with pytest.raises(CertificateError, match="telco"):
            open_session(certs / "telco", "telco", "bank", Addresses(None, {"bank": session_address[0]}), 60)
        seen.append("refused")
        return ask(1)(session)

    session_address = [address]
    with ThreadPoolExecutor(2) as pool:

        def accept() -> object:
            session = open_session(certs / "bank", "bank", "telco", Addresses(address, {}), 60)
            result = echo(session)
            session.finish()
            return result

        accepting = pool.submit(accept)
        session = open_session(certs / "telco", "telco", "bank", Addresses(None, {"bank": address}), 60)
        assert second(session) == 1
        session.finish()
        assert accepting.result() == 1
    assert seen == ["refused"]


def test_an_address_in_use_is_said_so(certs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        addresses = Addresses(f"127.0.0.1:{taken.getsockname()[1]}", {})
        with pytest.raises(PlanError, match=rf"bank.*{addresses.listen}"):
            open_session(certs / "bank", "bank", "telco", addresses, 2)


@contextmanager
def acceptor(certs: Path, act: Callable[[socket.socket], socket.socket | None]) -> Iterator[str]:
    """Somebody at an address who does this with every caller."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)

        def serve() -> None:
            taken = []
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                connection.settimeout(10)
                taken.append((connection, act(connection)))
            for connection, secured in taken:
                (secured or connection).close()

        with ThreadPoolExecutor(1) as pool:
            serving = pool.submit(serve)
            try:
                yield f"127.0.0.1:{listener.getsockname()[1]}"
            finally:
                over.set()
            serving.result()


def shake_hands(certs: Path, then: bytes | None = None) -> Callable[[socket.socket], socket.socket]:
    """Answer with the bank's certificate, whoever calls, and then say this, or nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "bank" / "certificate.pem", certs / "bank" / "key.pem")

    def act(connection: socket.socket) -> ssl.SSLSocket:
        secured = context.wrap_socket(connection, server_side=True, suppress_ragged_eofs=True)
        if then is not None:
            secured.sendall(then)
        return secured

    return act


def dial(certs: Path, address: str, timeout: float = 3) -> UnpooledError:
    """What the telco says about somebody at the bank's address."""
    began = time.monotonic()
    with pytest.raises(UnpooledError) as caught:
        open_session(certs / "telco", "telco", "bank", Addresses(None, {"bank": address}), timeout=timeout)
    assert time.monotonic() - began < timeout + 60, "it was not held for ever"
    return caught.value


def test_an_acceptor_that_does_not_answer_is_silent(certs: Path) -> None:
    """It has a valid certificate and shakes hands, and then says nothing, or not enough."""
    for said in (None, b"\1", b"\1\5\0tel"):
        with acceptor(certs, shake_hands(certs, said)) as address:
            error = dial(certs, address)
        assert isinstance(error, PeerSilent)
        assert error.origin == "bank"


def test_an_acceptor_of_another_version_says_so(certs: Path) -> None:
    with acceptor(certs, shake_hands(certs, b"\2\0\0")) as address:
        error = dial(certs, address)
    assert re.search("bank.*version 2", str(error))


def test_what_an_acceptor_says_is_shown_as_one_line(certs: Path) -> None:
    with acceptor(certs, shake_hands(certs, b"\1\6\0go\x1b\nno")) as address:
        error = dial(certs, address)
    assert str(error).endswith(": go  no")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda connection: None, "TLS"),
        (lambda connection: connection.sendall(b"220 mail ready\r\n"), "TLS 1.3"),
        (lambda connection: connection.close(), "TLS"),
    ],
)
def test_something_else_at_the_address_is_said_so(
    certs: Path, act: Callable[[socket.socket], None], words: str
) -> None:
    with acceptor(certs, act) as address:
        error = dial(certs, address)
    assert isinstance(error, PeerLost)
    assert f"bank at {address}" in str(error)
    assert words in str(error)


def test_nobody_at_the_address_is_said_so(certs: Path) -> None:
    address = free_address()
    error = dial(certs, address, timeout=0.5)
    assert isinstance(error, PeerLost)
    assert re.search(f"bank.*{address}", str(error))
    for host in ("no-such-host.invalid", "a..b"):
        assert f"{host}:443" in str(dial(certs, f"{host}:443", timeout=0.5))


def test_own_files_that_are_gone_are_said_so(certs: Path) -> None:
    telco = identity(certs / "telco", "telco")
    (certs / "telco" / "key.pem").unlink()
    addresses = Addresses(None, {"bank": free_address()})
    with (
        closing(Ledger(certs / "ledger.jsonl", "telco", "plan")) as ledger,
        pytest.raises(CertificateError, match=r"telco's own"),
    ):
        NetworkTransport(telco, Mailbox("telco", ("bank",), ledger), addresses, 1).open()


def test_links_are_kept_alive_by_the_system(certs: Path) -> None:
    def alive(session: Session) -> tuple[int, int]:
        connection = session._transport._links[session.peers[0]]._connection  # type: ignore[attr-defined]
        idle = connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 0) or socket.TCP_KEEPALIVE)
        each = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        count = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        return connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) > 0, idle + each * count <= 2 / 3 * 30

    assert both(alive, alive, certs, timeout=30) == [(True, True), (True, True)]
