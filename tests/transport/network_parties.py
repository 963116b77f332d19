"""Two parties over real TLS, for the tests of the network: their sessions, roles and messages."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from unpooled.arrays import Bytes
from unpooled.errors import UnpooledError
from unpooled.ledger import Ledger
from unpooled.session import Session
from unpooled.transport import trust
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.wire import message


@message(discloses="nothing: a test")
class Load:
    content: Bytes


@message(discloses="nothing: a test")
class Answer:
    length: int
    total: int


def identity(folder: Path, party: str) -> trust.Identity:
    """What a folder holds, in order or not: `load_identity` would refuse most of what is tried here."""
    certificate, authority = ((folder / name).read_bytes() for name in ("certificate.pem", "authority.pem"))
    revoked = trust.read_revoked(folder / "revoked.pem", trust.read_authority(folder))
    return trust.Identity(party, folder, certificate, authority, revoked)


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
