"""Two parties over real gRPC and TLS: who may talk, who dials, what a large message costs, what slowness causes."""

import logging
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from unpooled.codec import Bytes
from unpooled.errors import CertificateError, PeerLost, PeerSilent, PlanError, UnpooledError
from unpooled.ledger import Ledger, read_ledger, reconcile
from unpooled.session import Session
from unpooled.transport import certificates, trust
from unpooled.transport.grpc import Addresses, GrpcTransport
from unpooled.transport.link import CHUNK_BYTES, QUEUED_CHUNKS
from unpooled.transport.mailbox import ROOM_BYTES, Mailbox
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
    transport = GrpcTransport(identity(folder, party), Mailbox(party, (peer,), ledger), addresses, timeout)
    session = Session(transport, ledger, seed=1, timeout=timeout)
    try:
        session.open()
    except UnpooledError as error:
        session.abort(error)
        raise
    return session


def free_address(host: str = "127.0.0.1") -> str:
    with socket.create_server((host, 0)) as listener:
        return f"{host}:{listener.getsockname()[1]}"


def both(
    acceptor: Callable[[Session], object],
    dialler: Callable[[Session], object],
    certs: Path,
    timeout: float = 20,
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


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 100, CHUNK_BYTES, 3 * CHUNK_BYTES + 1])
def test_messages_of_any_size_arrive_whole(certs: Path, size: int) -> None:
    assert both(echo, ask(size), certs) == [size, size]


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


@pytest.mark.parametrize(
    ("fault", "dialler_says", "acceptor_says"),
    [
        ("expired", "hung up on seeing telco's certificate", "its TLS handshake failed"),
        ("another authority", "hung up on seeing telco's certificate", "its TLS handshake failed"),
        ("revoked", "bank refused the connection: telco's certificate", "telco's certificate"),
        ("another party's", "shop is not a party that bank waits for", "shop is not a party that bank waits for"),
    ],
)
def test_a_bad_dialler_is_refused_with_a_line_on_both_sides(
    certs: Path, caplog: pytest.LogCaptureFixture, fault: str, dialler_says: str, acceptor_says: str
) -> None:
    SPOIL[fault](certs, "telco")
    with caplog.at_level(logging.WARNING, "unpooled.transport"):
        accepting, dialling = both(echo, ask(1), certs, timeout=4)
    assert isinstance(dialling, CertificateError)
    assert dialler_says in str(dialling)
    assert isinstance(accepting, PeerLost)
    assert "waited 4 s for telco to connect" in str(accepting)
    assert acceptor_says in str(accepting)
    assert acceptor_says in caplog.text
    assert "bank refused" in caplog.text


@pytest.mark.parametrize(
    ("fault", "dialler_says", "acceptor_says"),
    [
        ("expired", "has expired", "its TLS handshake failed"),
        ("another authority", "is not signed by the authority that telco trusts", "its TLS handshake failed"),
        (
            "revoked",
            "bank's certificate",
            "telco: the connection was lost before its first message; does it accept bank's",
        ),
        ("another party's", "bank was expected, but the certificate", "its TLS handshake failed"),
    ],
)
def test_a_bad_acceptor_is_refused_with_a_line_on_both_sides(
    certs: Path, fault: str, dialler_says: str, acceptor_says: str
) -> None:
    SPOIL[fault](certs, "bank")
    accepting, dialling = both(echo, ask(1), certs, timeout=4)
    assert isinstance(dialling, CertificateError)
    assert dialler_says in str(dialling)
    assert isinstance(accepting, PeerLost)
    assert acceptor_says in str(accepting)


def test_a_caller_without_a_certificate_is_refused(certs: Path, caplog: pytest.LogCaptureFixture) -> None:
    address = free_address()
    credentials = grpc.ssl_channel_credentials((certs / "bank" / "authority.pem").read_bytes())
    options = [("grpc.ssl_target_name_override", "bank")]

    def call() -> None:
        with grpc.secure_channel(address, credentials, options=options) as channel:
            with suppress(grpc.FutureTimeoutError):
                grpc.channel_ready_future(channel).result(timeout=3)
            exchange: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/unpooled.Link/Exchange")
            with pytest.raises(grpc.RpcError):
                next(exchange(iter([b"hello\1"]), timeout=1))

    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING, "unpooled.transport"):
        calling = pool.submit(call)
        with pytest.raises(PeerLost, match="certificate is missing, expired or not signed"):
            open_session(certs / "bank", "bank", "telco", Addresses(address, {}), timeout=6)
        calling.result()
    assert "bank refused" in caplog.text


def test_a_plain_connection_gets_nothing(certs: Path) -> None:
    address = free_address()
    refused = []

    def call() -> None:
        time.sleep(0.5)
        with grpc.insecure_channel(address) as channel:
            exchange: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/unpooled.Link/Exchange")
            with pytest.raises(grpc.RpcError) as caught:
                next(exchange(iter([b"hello\1"]), timeout=1))
            refused.append(caught.value)

    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call)
        with pytest.raises(PeerLost, match="waited 3 s for telco"):
            open_session(certs / "bank", "bank", "telco", Addresses(address, {}), timeout=3)
        calling.result()
    assert len(refused) == 1


def test_a_second_connection_under_a_name_is_refused(certs: Path) -> None:
    address = free_address()
    seen: list[object] = []

    def second(session: Session) -> int:
        with pytest.raises(CertificateError, match="telco is connected already"):
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
        with pytest.raises(PlanError, match=r"bank cannot listen on .*: is it in use"):
            open_session(certs / "bank", "bank", "telco", addresses, 2)


# large and slow


def test_a_slow_reader_makes_the_sender_wait(certs: Path) -> None:
    sent = []
    released = threading.Event()

    def pour(session: Session) -> int:
        for _ in range(60):
            session.send("bank", Load(np.ones(4 * MEGABYTE, np.uint8)))
            sent.append(time.monotonic())
        return len(sent)

    def sip(session: Session) -> int:
        time.sleep(3)
        before = len(sent)
        released.set()
        for _ in range(60):
            session.recv("telco", Load)
        return before

    before, total = both(sip, pour, certs)
    assert total == 60
    limit = (ROOM_BYTES + QUEUED_CHUNKS * CHUNK_BYTES) // (4 * MEGABYTE)
    assert isinstance(before, int)
    assert limit // 2 <= before <= limit + 12, (
        "what the reader has not taken is bounded, the network's own buffers aside"
    )


def test_a_sender_gives_up_on_a_reader_that_takes_nothing(certs: Path) -> None:
    def pour(session: Session) -> None:
        for _ in range(100):
            session.send("bank", Load(np.ones(4 * MEGABYTE, np.uint8)))

    def sleep(session: Session) -> None:
        time.sleep(6)

    _, error = both(sleep, pour, certs, timeout=3)
    assert isinstance(error, PeerSilent)
    assert "telco waited 3 s for bank to take a message" in str(error)


def test_a_gigabyte_takes_a_gigabyte_and_little_more(certs: Path) -> None:
    address = free_address()
    script = str(Path(__file__).parent / "gigabyte_party.py")
    processes = {
        party: subprocess.Popen([sys.executable, script, str(certs), party, address], stdout=subprocess.PIPE, text=True)
        for party in ("bank", "telco")
    }
    for party, process in processes.items():
        output, _ = process.communicate(timeout=120)
        length, growth = map(int, output.split())
        assert length == 2**30
        assert growth < 2**30 + 128 * MEGABYTE, f"{party} needed {growth / MEGABYTE:.0f} MB for a message of 1024 MB"


def test_an_acceptor_that_does_not_answer_is_silent(certs: Path) -> None:
    """It has a valid certificate and takes the call, and then says nothing of itself."""
    folder = certs / "bank"
    pair = [((folder / "key.pem").read_bytes(), (folder / "certificate.pem").read_bytes())]
    credentials = grpc.ssl_server_credentials(pair, (folder / "authority.pem").read_bytes(), require_client_auth=True)
    over = threading.Event()

    def say_nothing(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        over.wait(20)
        yield b""

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(say_nothing)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("unpooled.Link", {"Exchange": handler}),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    addresses = Addresses(None, {"bank": f"127.0.0.1:{port}"})
    try:
        with pytest.raises(PeerSilent, match="bank accepted the connection of telco, but does not answer"):
            open_session(certs / "telco", "telco", "bank", addresses, timeout=2)
    finally:
        over.set()
        server.stop(None).wait()
