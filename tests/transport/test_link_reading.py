"""A party that waits reads the connection itself, and otherwise a thread does: nothing else differs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from link_peer import LONG, Blob, Peer, arrives, blob, linked
from unpooled.errors import PeerLost, PeerSilent
from unpooled.ledger import Ledger
from unpooled.transport.link import CHUNK_BYTES, Link, pieces
from unpooled.transport.mailbox import FREE_BYTES, Mailbox
from unpooled.wire import read_body

pytestmark = pytest.mark.usefixtures("who_reads")


@contextmanager
def later(link: Link, act: Callable[[], object]) -> Iterator[None]:
    """Act while the party waits: at once where a thread reads, otherwise when the party itself does."""

    def run() -> None:
        until = time.monotonic() + LONG
        while link._ears and not link._reading.locked():
            assert time.monotonic() < until
            time.sleep(0.001)
        act()

    until = time.monotonic() + LONG
    while link._ears and link._for_thread:  # it reads first what came with the handshake
        assert time.monotonic() < until
        time.sleep(0.001)
    acting = threading.Thread(target=run)
    acting.start()
    try:
        yield
    finally:
        acting.join()


def readers(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that deliver frames."""
    names: list[str] = []
    deliver = mailbox.deliver

    def noting(peer: str, data: bytes) -> None:
        names.append(threading.current_thread().name)
        deliver(peer, data)

    monkeypatch.setattr(mailbox, "deliver", noting)
    return names


def take(mailbox: Mailbox) -> int:
    return read_body(mailbox.take("telco", "Blob", LONG), Blob).data.size


def say(peer: Peer, *sizes: int) -> Callable[[], None]:
    return lambda: peer.say(b"".join(piece for size in sizes for piece in pieces(blob(size))))


def test_a_party_that_waits_reads_itself(certs: Path, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    names, me = readers(mailbox, monkeypatch), threading.current_thread().name
    with linked(certs, mailbox) as (link, peer):
        with later(link, say(peer, 10, 20)):
            assert take(mailbox) == 10
        assert take(mailbox) == 20
        assert names == [me if link._ears else "unpooled-from-telco"] * 2


def test_while_the_party_does_not_wait_a_thread_reads(
    certs: Path, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = readers(mailbox, monkeypatch)
    with linked(certs, mailbox) as (link, peer):
        with later(link, say(peer, 1)):
            take(mailbox)
        say(peer, 2)()
        until = time.monotonic() + LONG
        while len(names) < 2:
            assert time.monotonic() < until
            time.sleep(0.001)
        assert take(mailbox) == 2
        assert names[1] == "unpooled-from-telco"


@pytest.mark.parametrize("sizes", [(FREE_BYTES, FREE_BYTES + 1, 3), (CHUNK_BYTES, 0, 4 * CHUNK_BYTES)])
def test_large_frames_arrive_at_a_party_that_reads_itself(certs: Path, mailbox: Mailbox, sizes: list[int]) -> None:
    with linked(certs, mailbox) as (link, peer):
        for size in sizes:
            with later(link, say(peer, size)):
                assert take(mailbox) == size


def test_frames_for_which_there_is_no_room_arrive_at_a_party_that_reads_itself(certs: Path, tmp_path: Path) -> None:
    with Ledger(tmp_path / "small.jsonl", "bank", "abc") as ledger:
        box = Mailbox("bank", ("telco",), ledger, room=1)
        with linked(certs, box) as (link, peer), later(link, say(peer, *range(50))):
            assert [take(box) for _ in range(50)] == list(range(50))


def test_a_party_that_reads_itself_hears_that_another_peer_failed(certs: Path, mailbox: Mailbox) -> None:
    with (
        linked(certs, mailbox) as (link, _),
        later(link, lambda: mailbox.lose("shop", "hung up")),
        pytest.raises(PeerLost, match="shop: hung up"),
    ):
        take(mailbox)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda peer: peer.connection.close(), "the connection was lost"),
        (lambda peer: peer.connection.sendall(peer.secured.farewell()), "the connection was lost"),
        (lambda peer: peer.announce(0), "invalid data: a frame of 0 bytes"),
        (lambda peer: peer.connection.sendall(b"GET / HTTP/1.1"), "the connection was lost"),
    ],
)
def test_a_party_that_reads_itself_hears_how_the_connection_ends(
    certs: Path, mailbox: Mailbox, end: Callable[[Peer], None], why: str
) -> None:
    with (
        linked(certs, mailbox) as (link, peer),
        later(link, lambda: end(peer)),
        pytest.raises(PeerLost, match=f"telco: {why}"),
    ):
        take(mailbox)


def test_a_party_that_reads_itself_does_not_wait_for_ever(certs: Path, mailbox: Mailbox) -> None:
    told: list[str] = []
    mailbox.tell_waiting = told.append
    with linked(certs, mailbox), pytest.raises(PeerSilent, match=r"bank waited 0\.2 s for Blob from telco"):
        mailbox.take("telco", "Blob", 0.2)
    assert told == ["telco"]


def test_a_party_that_is_interrupted_while_it_reads_can_leave(
    certs: Path, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(peer: str, data: bytes) -> None:
        raise KeyboardInterrupt

    with linked(certs, mailbox) as (link, peer):
        if not link._ears:
            pytest.skip("only a main thread is interrupted")
        monkeypatch.setattr(mailbox, "deliver", interrupted)
        with later(link, say(peer, 1)), pytest.raises(KeyboardInterrupt):
            take(mailbox)
        link.send(blob(1))  # such as the notice that it failed
        arrives(peer, blob(1))
