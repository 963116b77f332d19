"""Strangers at the door: whatever they do, their places, bytes and seconds are bounded, and a party comes in."""

from __future__ import annotations

import errno
import logging
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from unpooled.errors import CertificateError
from unpooled.ledger import Ledger
from unpooled.transport import certificates, doorway
from unpooled.transport.doorway import CALLER_BYTES, MOST_CALLERS, Doorway, Refusals
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.transport.tls import Secured, context_of
from unpooled.transport.trust import check_peer, load_identity

LONG = 100.0
FLOOD = 500


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "certs"
    certificates.make_trial(folder, ["bank", "telco", "shop"])
    return folder


class Bank:
    """A doorway by itself, at which the telco is awaited."""

    def __init__(self, certs: Path) -> None:
        identity = load_identity(certs / "bank", "bank")
        self.certs = certs
        self.linked: dict[str, tuple[socket.socket, Secured]] = {}
        self.came = threading.Event()
        listener = socket.create_server(("127.0.0.1", 0), backlog=doorway.BACKLOG)
        self.address: tuple[str, int] = listener.getsockname()

        def admit(certificate: bytes) -> str:
            peer = check_peer(identity, certificate)
            if peer in self.linked:
                raise CertificateError(f"{peer} is connected already")
            return peer

        context = context_of(identity, server=True)
        self.doorway = Doorway("bank", listener, lambda: context, admit, self.welcome, lambda: bool(self.linked))
        self.doorway.open()

    def welcome(self, peer: str, connection: socket.socket, secured: Secured) -> None:
        self.linked[peer] = connection, secured
        self.came.set()

    def close(self) -> None:
        self.doorway.close()
        for connection, _ in self.linked.values():
            connection.close()

    def reasons(self) -> str:
        return self.doorway.refusals.hint()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LONG
        while not condition():
            assert time.monotonic() < deadline, self.reasons()
            time.sleep(0.01)

    def caller(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=LONG)

    def telco_comes(self, tmp_path: Path) -> None:
        """The real party, as it would call: again and again until it is let in."""
        ledger = Ledger(tmp_path / f"{time.monotonic_ns()}.jsonl", "telco", "plan")
        host, port = self.address
        addresses = Addresses(None, {"bank": f"{host}:{port}"})
        identity = load_identity(self.certs / "telco", "telco")
        transport = NetworkTransport(identity, Mailbox("telco", ("bank",), ledger), addresses, LONG)
        try:
            transport.open()
            assert self.came.wait(LONG)
        finally:
            transport.close()
            ledger.close()


@pytest.fixture
def bank(certs: Path) -> Iterator[Bank]:
    made = Bank(certs)
    yield made
    made.close()


def hello() -> bytes:
    """The first words of a TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def test_a_flood_that_connects_and_hangs_up_is_counted_and_a_party_comes_in(bank: Bank, tmp_path: Path) -> None:
    for _ in range(FLOOD):
        bank.caller().close()
    bank.telco_comes(tmp_path)
    bank.until(lambda: not bank.doorway._callers)
    assert "hung up" in bank.reasons()


def test_a_flood_of_resets_is_survived(bank: Bank, tmp_path: Path) -> None:
    for _ in range(FLOOD):
        caller = bank.caller()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        caller.close()
    bank.telco_comes(tmp_path)


@pytest.mark.parametrize("words", [b"", b"\x16\x03\x01", hello()], ids=["nothing", "three bytes", "half a handshake"])
def test_callers_beyond_the_limit_make_way_and_a_party_comes_in_among_them(
    bank: Bank, tmp_path: Path, words: bytes
) -> None:
    with ExitStack() as stack:
        for _ in range(2 * MOST_CALLERS):
            stack.enter_context(bank.caller()).sendall(words)
        bank.until(lambda: "made way" in bank.reasons())
        assert len(bank.doorway._callers) <= MOST_CALLERS
        bank.telco_comes(tmp_path)


def test_who_says_something_stays_before_who_says_nothing(bank: Bank) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(bank.caller())
        first.sendall(hello()[:20])
        bank.until(lambda: any(caller.received for caller in bank.doorway._callers))
        for _ in range(2 * MOST_CALLERS):
            stack.enter_context(bank.caller())
        bank.until(lambda: "made way" in bank.reasons())
        first.sendall(hello()[20:])
        assert first.recv(1) == b"\x16", "it is answered"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "TLS"),
        (b"\0" * 1000, "TLS"),
        (b"\x16" * 1000, "handshake"),
        (hello()[:50] + b"\xff" * 5000, "handshake"),
    ],
)
def test_garbage_is_hung_up_on(bank: Bank, tmp_path: Path, words: bytes, reason: str) -> None:
    with bank.caller() as caller, suppress(ConnectionError):
        caller.sendall(words)
        while caller.recv(2**12):
            pass
    bank.until(lambda: reason in bank.reasons())
    bank.telco_comes(tmp_path)


def test_a_caller_has_so_many_bytes(bank: Bank) -> None:
    """A handshake that goes on for ever: pieces of a client's words, which may be long."""
    record = b"\x16\x03\x01\x40\x00" + b"\x01\x01\x00\x00" + bytes(2**14 - 4)
    with bank.caller() as caller, suppress(ConnectionError):
        for _ in range(CALLER_BYTES // 2**10):
            caller.sendall(record)
    bank.until(lambda: bool(bank.reasons()) and not bank.doorway._callers)


def test_a_caller_has_so_many_seconds(certs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorway, "CALLER_SECONDS", 0.2)
    bank = Bank(certs)
    try:
        with bank.caller() as idle, bank.caller() as half:
            half.sendall(hello())
            assert idle.recv(1) == b""
            with suppress(ConnectionError):
                while half.recv(2**12):
                    pass
        assert "0.2 s" in bank.reasons()
        monkeypatch.undo()
        bank.telco_comes(tmp_path)
    finally:
        bank.close()


def test_once_all_have_come_strangers_are_hung_up_on_unheard(bank: Bank, tmp_path: Path) -> None:
    bank.telco_comes(tmp_path)
    with ExitStack() as stack:
        callers = [stack.enter_context(bank.caller()) for _ in range(100)]
        bank.until(lambda: "awaited" in bank.reasons())
        assert len(bank.doorway._callers) <= doorway._HEARD_A_SECOND + 10
        assert any(caller.recv(1) == b"" for caller in reversed(callers))


def test_a_party_that_is_there_already_is_told_so_when_all_have_come(bank: Bank, tmp_path: Path) -> None:
    bank.telco_comes(tmp_path)
    with pytest.raises(CertificateError, match=r"bank.*telco"):
        bank.telco_comes(tmp_path)


@pytest.mark.parametrize("callers", [0, 3])
def test_without_descriptors_the_doorway_waits_and_goes_on(
    certs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: int
) -> None:
    accept, refused = socket.socket.accept, []

    def failing(self: socket.socket) -> tuple[socket.socket, object]:
        if threading.current_thread().name == "unpooled-doorway" and len(bank.doorway._callers) >= callers:
            refused.append(1)
            if len(refused) <= 5:
                raise OSError(errno.EMFILE, "Too many open files")
        return accept(self)

    bank = Bank(certs)
    monkeypatch.setattr(socket.socket, "accept", failing)
    try:
        with ExitStack() as stack:
            for _ in range(callers):
                stack.enter_context(bank.caller())
            bank.telco_comes(tmp_path)
        assert len(refused) > (1 if callers else 5)
    finally:
        bank.close()


def test_refusals_are_counted_not_listed(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals("bank")
    for number in range(1000):
        refusals.note("it did not speak TLS")
        refusals.note(f"reason {number}")
    with caplog.at_level(logging.WARNING, "unpooled.transport"):
        refusals.report()
        refusals.report()
    assert len(caplog.records) == 5
    assert re.search("bank.* 1000 .*it did not speak TLS", caplog.text)
    assert re.search("1000 .*it did not speak TLS", refusals.hint())
    assert "reason 999" in refusals.hint()
