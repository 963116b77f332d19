"""Two parties over real TLS: who may talk, who dials, what a large message costs, what slowness causes."""

import logging
import re
import shutil
import socket
import ssl
import subprocess
import sys
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

from unpooled.arrays import Bytes
from unpooled.errors import CertificateError, PeerFailed, PeerLost, PeerSilent, PlanError, ProtocolError, UnpooledError
from unpooled.ledger import Ledger, read_ledger, reconcile
from unpooled.session import Session
from unpooled.transport import certificates, trust
from unpooled.transport.link import CHUNK_BYTES, QUEUED_BYTES
from unpooled.transport.mailbox import FREE_BYTES, ROOM_BYTES, SMALL_BYTES, Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.wire import message

MEGABYTE = 2**20


@message(discloses="nothing: a test")
class Load:
    content: Bytes


@message(discloses="nothing: a test")
class Answer:
    length: int
    total: int


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    certificates.make_trial(tmp_path / "certs", ["bank", "telco", "shop"])
    return tmp_path / "certs"


def identity(folder: Path, party: str) -> trust.Identity:
    """What a folder holds, in order or not: `load_identity` would refuse most of what is tried here."""
    key, certificate, authority = ((folder / n).read_bytes() for n in ("key.pem", "certificate.pem", "authority.pem"))
    revoked = trust.read_revoked(folder / "revoked.pem", trust.read_authority(folder))
    return trust.Identity(party, folder, key, certificate, authority, revoked)


def open_session(folder: Path, party: str, peer: str, addresses: Addresses, timeout: float) -> Session:
    ledger = Ledger(folder.parent / f"{party}-{time.monotonic_ns()}.jsonl", party, "plan")
    transport = NetworkTransport(identity(folder, party), Mailbox(party, (peer,), ledger), addresses, timeout)
    session = Session(transport, ledger, seed=1, timeout=timeout)
    try:
        session.open()
    except UnpooledError as error:
        session.abort(error)
        raise
    session.agreed()
    return session


def free_address(host: str = "127.0.0.1") -> str:
    with socket.create_server((host, 0)) as listener:
        return f"{host}:{listener.getsockname()[1]}"


def both(
    acceptor: Callable[[Session], object],
    dialler: Callable[[Session], object],
    certs: Path,
    timeout: float = 60,
    names: tuple[str, str] = ("bank", "telco"),
) -> list[object]:
    """Run an accepting and a dialling party; each one's result, or the error that ended it."""
    address = free_address()

    def run(party: str, peer: str, addresses: Addresses, role: Callable[[Session], object]) -> object:
        try:
            session = open_session(certs / party, party, peer, addresses, timeout)
        except UnpooledError as error:
            return error
        try:
            result = role(session)
            session.finish()
        except UnpooledError as error:
            session.abort(error)
            return error
        return result

    first, second = names
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(run, first, second, Addresses(address, {}), acceptor),
            pool.submit(run, second, first, Addresses(None, {first: address}), dialler),
        ]
        return [r.result() for r in runs]


def echo(session: Session) -> int:
    load = session.recv(session.peers[0], Load)
    session.send(session.peers[0], Answer(len(load.content), int(load.content.sum())))
    return len(load.content)


def ask(size: int) -> Callable[[Session], int]:
    def role(session: Session) -> int:
        session.send(session.peers[0], Load(np.ones(size, np.uint8)))
        answer = session.recv(session.peers[0], Answer)
        assert answer.length == answer.total
        return answer.total

    return role


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


def refused_by_the_bank(certs: Path, call: Callable[[tuple[str, int]], object], timeout: float = 3) -> str:
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
            open_session(certs / "telco", "telco", "bank", Addresses(None, {"bank": session_address[0]}), 5)
        seen.append("refused")
        return ask(1)(session)

    session_address = [address]
    with ThreadPoolExecutor(2) as pool:

        def accept() -> object:
            session = open_session(certs / "bank", "bank", "telco", Addresses(address, {}), 10)
            result = echo(session)
            session.finish()
            return result

        accepting = pool.submit(accept)
        session = open_session(certs / "telco", "telco", "bank", Addresses(None, {"bank": address}), 10)
        assert second(session) == 1
        session.finish()
        assert accepting.result() == 1
    assert seen == ["refused"]


def test_an_address_in_use_is_said_so(certs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        addresses = Addresses(f"127.0.0.1:{taken.getsockname()[1]}", {})
        with pytest.raises(PlanError, match=rf"bank.*{addresses.listen}"):
            open_session(certs / "bank", "bank", "telco", addresses, 2)


# large and slow


def test_a_slow_reader_makes_the_sender_wait(certs: Path) -> None:
    sent: list[float] = []
    senders: list[Session] = []

    def pour(session: Session) -> int:
        senders.append(session)
        for _ in range(60):
            session.send("bank", Load(np.ones(4 * MEGABYTE, np.uint8)))
            sent.append(time.monotonic())
        return len(sent)

    def waits() -> bool:
        return bool(senders) and senders[0]._transport._links["bank"]._unsent > QUEUED_BYTES  # type: ignore[attr-defined]

    def sip(session: Session) -> int:
        deadline = time.monotonic() + 120
        while not waits() or session._transport.mailbox._queued["telco"] < ROOM_BYTES:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        before = len(sent)
        for _ in range(60):
            session.recv("telco", Load)
        return before

    before, total = both(sip, pour, certs, timeout=120)
    assert total == 60
    limit = (ROOM_BYTES + QUEUED_BYTES) // (4 * MEGABYTE)
    assert isinstance(before, int)
    assert limit // 2 <= before <= limit + 12, (
        "what the reader has not taken is bounded, the network's own buffers aside"
    )


def test_two_parties_that_send_much_to_each_other_first_do_not_wait_in_a_circle(certs: Path) -> None:
    size = 40 * MEGABYTE  # more than is free, and more than the system's buffers hold

    def swap(session: Session) -> int:
        session.send(session.peers[0], Load(np.ones(size, np.uint8)))
        return len(session.recv(session.peers[0], Load, at_most=size).content)

    assert both(swap, swap, certs) == [size, size]


def test_a_message_that_is_larger_than_allowed_is_refused_and_its_sender_named(certs: Path) -> None:
    def take(session: Session) -> None:
        session.recv("telco", Load)

    def pour(session: Session) -> None:
        session.send("bank", Load(np.ones(40 * MEGABYTE, np.uint8)))
        session.recv("bank", Answer)

    error, told = both(take, pour, certs)
    assert isinstance(error, ProtocolError)
    assert re.search(r"telco.*Load.*\d+ bytes.* 16842752 ", str(error))
    assert isinstance(told, PeerFailed)
    assert told.origin == "bank"


def test_a_sender_gives_up_on_a_reader_that_takes_nothing(certs: Path) -> None:
    gave_up = threading.Event()

    def pour(session: Session) -> None:
        try:
            for _ in range(100):
                session.send("bank", Load(np.ones(4 * MEGABYTE, np.uint8)))
        finally:
            gave_up.set()

    def sleep(session: Session) -> None:
        assert gave_up.wait(120)

    _, error = both(sleep, pour, certs, timeout=3)
    assert isinstance(error, PeerSilent)
    assert re.search("telco.*3 s.*bank", str(error))


def test_a_large_message_takes_its_size_and_little_more(certs: Path) -> None:
    address = free_address()
    script = str(Path(__file__).parent / "gigabyte_party.py")
    processes = {
        party: subprocess.Popen([sys.executable, script, str(certs), party, address], stdout=subprocess.PIPE, text=True)
        for party in ("bank", "telco")
    }
    for party, process in processes.items():
        output, _ = process.communicate(timeout=280)
        length, growth = map(int, output.split())
        assert length == 256 * MEGABYTE
        assert growth < (256 + 100) * MEGABYTE, f"{party} needed {growth / MEGABYTE:.0f} MB for a message of 256 MB"


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


def dial(certs: Path, address: str, timeout: float = 1.5) -> UnpooledError:
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
