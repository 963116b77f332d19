"""One port for many runs: callers say which run they want, and its process gets the connection."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from network_parties import ask, echo, open_session
from unpooled.errors import CertificateError, InputError, PeerLost
from unpooled.session import Session
from unpooled.transport import certificates, doorway
from unpooled.transport.doorway import Doorway, listen_at
from unpooled.transport.handover import PassedConnections, inherited, pass_connection, passing_on, preface
from unpooled.transport.network import Addresses
from unpooled.transport.tls import context_of
from unpooled.transport.trust import load_identity

LONG = 100.0
KEYS = ("0" * 31 + "1", "abcdef0123456789" * 2)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "certs"
    certificates.make_trial(folder, ["bank", "telco", "shop"])
    return folder


class Service:
    """The bank's only port, with the sockets to its runs."""

    def __init__(self, certs: Path) -> None:
        self.certs = certs
        self.runs: dict[str, socket.socket] = {}
        self.asked = threading.Event()
        listener = listen_at("127.0.0.1:0", "bank")
        host, port = listener.getsockname()
        self.address = f"{host}:{port}"
        context = context_of(load_identity(certs / "bank", "bank"), server=True)

        def run_at(key: str) -> socket.socket | None:
            self.asked.set()
            return self.runs.get(key)

        def nobody(certificate: bytes) -> str:
            raise CertificateError("nobody is a peer here")

        self.doorway = Doorway(
            "bank", listener, lambda: context, nobody, lambda *_: None, lambda: False, passing_on(run_at)
        )
        self.doorway.open()

    def start(self, key: str) -> PassedConnections:
        """What the process of a run inherits."""
        self.runs[key], end = socket.socketpair()
        return PassedConnections(fileno=end.detach())

    def caller(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=LONG)

    def close(self) -> None:
        self.doorway.close()
        for end in self.runs.values():
            end.close()


@pytest.fixture
def service(certs: Path) -> Iterator[Service]:
    with closing(Service(certs)) as made:
        yield made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def converse(certs: Path, party: str, addresses: Addresses, role: Callable[[Session], int], timeout: float) -> int:
    peer = "telco" if party == "bank" else "bank"
    session = open_session(certs / party, party, peer, addresses, timeout)
    result = role(session)
    session.finish()
    return result


def test_two_runs_at_once_over_one_port_and_a_dialler_waits_for_its_run(service: Service) -> None:
    with ThreadPoolExecutor(4) as pool:
        diallers = [
            pool.submit(
                *(converse, service.certs, "telco", Addresses(None, {"bank": service.address}, preface(key))),
                *(ask(size), LONG),
            )
            for key, size in zip(KEYS, (10, 20), strict=True)
        ]
        assert service.asked.wait(LONG), "a dialler came before the run was there"
        acceptors = [
            pool.submit(converse, service.certs, "bank", Addresses(service.start(key), {}), echo, LONG) for key in KEYS
        ]
        assert [run.result() for run in diallers] == [10, 20]
        assert [run.result() for run in acceptors] == [10, 20]


def test_a_run_that_never_comes_is_said_so(service: Service) -> None:
    addresses = Addresses(None, {"bank": service.address}, preface(KEYS[0]))
    with pytest.raises(PeerLost, match=r"bank at .* has not started its part of the run"):
        converse(service.certs, "telco", addresses, ask(1), 0.5)


def test_who_is_passed_on_must_still_prove_who_it_is(service: Service) -> None:
    """The service knows nobody here, and passes on; the run's own doorway refuses the shop."""
    called = Addresses(None, {"bank": service.address}, preface(KEYS[0]))
    with ThreadPoolExecutor(1) as pool:
        bank = pool.submit(converse, service.certs, "bank", Addresses(service.start(KEYS[0]), {}), echo, LONG)
        with pytest.raises(CertificateError, match="shop is not a party of this plan"):
            open_session(service.certs / "shop", "shop", "bank", called, LONG)
        assert converse(service.certs, "telco", called, ask(7), LONG) == bank.result() == 7


def test_a_preface_may_arrive_in_pieces_and_nothing_behind_it_is_read(service: Service) -> None:
    with closing(service.start(KEYS[0])) as listener, service.caller() as caller:
        words = preface(KEYS[0])
        for start in range(0, len(words) - 5, 7):
            caller.sendall(words[start : start + 7])
            time.sleep(0.001)
        caller.sendall(words[len(words) - len(words) % 7 :] + b"and more")
        connection, _ = listener.accept()
        with connection:
            connection.setblocking(True)
            assert connection.recv(100) == b"and more"
            assert not connection.get_inheritable()
            connection.sendall(b"answer")
            assert caller.recv(100) == b"answer"
    until(lambda: not service.doorway._callers)


@pytest.mark.parametrize(
    "words",
    [
        preface(KEYS[1]),
        preface(KEYS[0]).upper(),
        b"unpooled run " + b"A" * 32 + b"\n",
        b"unpooled run " + b"1" * 33,
        b"unpooled ran " + b"1" * 33,
        b"u" + b"\0" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_anything_else_is_hung_up_on(service: Service, words: bytes) -> None:
    with closing(service.start(KEYS[0])) as listener, service.caller() as caller:
        caller.sendall(words)
        with suppress(ConnectionResetError):
            assert caller.recv(1) == b""
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_caller_that_never_ends_its_preface_has_so_many_seconds(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorway, "CALLER_SECONDS", 0.2)
    with closing(Service(certs)) as service, service.caller() as caller:
        caller.sendall(preface(KEYS[0])[:-1])
        assert caller.recv(1) == b""
        assert "0.2 s" in service.doorway.refusals.hint()


def test_callers_of_a_run_that_has_ended_or_takes_no_more_are_hung_up_on(service: Service) -> None:
    service.start(KEYS[0]).close()
    with service.caller() as caller:
        caller.sendall(preface(KEYS[0]))
        assert caller.recv(1) == b""
    with ExitStack() as stack:
        listener = stack.enter_context(closing(service.start(KEYS[1])))
        passed = stack.enter_context(service.caller())
        with suppress(BlockingIOError):
            while True:
                pass_connection(service.runs[KEYS[1]], passed)
        late = stack.enter_context(service.caller())
        late.sendall(preface(KEYS[1]))
        assert late.recv(1) == b""
        listener.accept()[0].close()


def test_a_run_whose_service_has_gone_listens_no_more_and_does_not_spin(certs: Path) -> None:
    end, other = socket.socketpair()
    context = context_of(load_identity(certs / "bank", "bank"), server=True)
    listener = PassedConnections(fileno=end.detach())
    run = Doorway("bank", listener, lambda: context, lambda _: "", lambda *_: None, lambda: False)
    run.open()
    other.close()
    until(lambda: listener not in run._selector.get_map())
    run.close()
    assert listener.fileno() == -1


def test_a_connection_for_which_there_is_no_descriptor_is_as_one_that_cannot_be_accepted() -> None:
    end, other = socket.socketpair()
    with other, PassedConnections(fileno=end.detach()) as listener:
        other.sendall(b"\0")  # as the system delivers it then
        with pytest.raises(OSError, match="Too many open files") as caught:
            listener.accept()
        assert caught.value.errno == errno.EMFILE


def test_what_a_service_gives_a_run_is_checked() -> None:
    assert inherited(None, None) is None
    for descriptor, key in ((None, KEYS[0]), (3, None), (3, "xyz"), (3, KEYS[0].upper() + "A")):
        with pytest.raises(InputError, match="32 hexadecimal digits"):
            inherited(descriptor, key)
    with pytest.raises(InputError, match="999999"):
        inherited(999999, KEYS[0])
    one, other = socket.socketpair()
    with other:
        one.set_inheritable(True)
        through = inherited(one.detach(), KEYS[0])
        assert through is not None
        with through.listener:
            assert not through.listener.get_inheritable()
            assert through.preface == b"unpooled run " + KEYS[0].encode() + b"\n"
