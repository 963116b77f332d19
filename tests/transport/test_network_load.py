"""Two parties over real TLS: what a large message costs, what slowness causes."""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from network_parties import Answer, Load, both, free_address
from unpooled.errors import PeerFailed, PeerSilent, ProtocolError
from unpooled.session import Session
from unpooled.transport import certificates
from unpooled.transport.link import QUEUED_BYTES
from unpooled.transport.mailbox import ROOM_BYTES

MEGABYTE = 2**20


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    certificates.make_trial(tmp_path / "certs", ["bank", "telco", "shop"])
    return tmp_path / "certs"


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
