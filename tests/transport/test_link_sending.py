"""Sending frames: a sender waits for its peer, and small frames are held back for others that follow."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from link_peer import LONG, arrives, blob, linked
from unpooled.control import Working
from unpooled.errors import PeerLost, PeerSilent
from unpooled.transport.link import CHUNK_BYTES, HELD_BYTES, QUEUED_BYTES, Link
from unpooled.transport.mailbox import Mailbox
from unpooled.wire import encode

pytestmark = pytest.mark.usefixtures("who_reads")


def fill(link: Link) -> None:
    """Send until a short frame cannot be sent without waiting: the system's buffers are full."""
    while link.can_send():
        link.send(blob(CHUNK_BYTES))


def pour(link: Link) -> None:
    while True:
        link.send(blob(CHUNK_BYTES))


def test_a_sender_waits_for_the_peer_to_take_what_was_sent(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox, timeout=0.5) as (link, _):
        with pytest.raises(PeerSilent, match=r"bank.*0\.5 s.*telco") as caught:
            pour(link)
        assert caught.value.origin == "telco"
        assert not link.can_send()
        assert link._unsent <= QUEUED_BYTES + 2 * CHUNK_BYTES


def test_what_the_system_did_not_take_is_sent_later(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (link, peer):
        fill(link)
        last = encode(Working())
        link.send(last)  # does not wait
        size = 0
        while size != last.size:
            size = int.from_bytes(peer.read(8), "little")
            content = peer.read(size)
        assert content == last.joined()


def test_the_timeout_of_a_sender_begins_anew_when_the_peer_is_at_work(
    certs: Path, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    mailbox.tell_waiting = told.append
    look = mailbox.patience("telco", 10)
    now = time.monotonic()
    monkeypatch.setattr("unpooled.transport.mailbox.time.monotonic", lambda: now + 9)
    look()
    assert told == ["telco"]
    mailbox.deliver("telco", encode(Working()).joined())
    monkeypatch.setattr("unpooled.transport.mailbox.time.monotonic", lambda: now + 18)
    look()
    monkeypatch.setattr("unpooled.transport.mailbox.time.monotonic", lambda: now + 20)
    with pytest.raises(PeerSilent, match=r"bank.*10 s.*telco"):
        look()


def test_a_sender_that_waits_hears_that_another_peer_failed(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (link, _):
        fill(link)
        mailbox.lose("shop", "hung up")
        with pytest.raises(PeerLost, match="shop: hung up"):
            pour(link)


def test_a_sender_hears_that_the_peer_is_gone(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (link, peer):
        peer.connection.close()
        with pytest.raises(PeerLost, match="telco"):
            pour(link)
        assert not link.can_send()


# what is held back


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what each sending call was given."""
    found: list[int] = []
    add = Link._hand_over

    def counted(self: Link, data: bytes) -> None:
        found.append(len(data))
        add(self, data)

    monkeypatch.setattr(Link, "_hand_over", counted)
    return found


def test_frames_that_follow_each_other_are_sent_by_one_call(certs: Path, mailbox: Mailbox, calls: list[int]) -> None:
    frames = [blob(size) for size in (10, 3000, 0)]
    with linked(certs, mailbox) as (link, peer):
        for frame in frames[:-1]:
            link.send(frame, more=True)
        assert not calls
        assert link.can_send()
        link.send(frames[-1])
        assert len(calls) == 1
        arrives(peer, *frames)
        link.flush()
        assert len(calls) == 1  # nothing was left


def test_what_is_held_is_sent_by_flush(certs: Path, mailbox: Mailbox, calls: list[int]) -> None:
    with linked(certs, mailbox) as (link, peer):
        link.send(blob(10), more=True)
        link.flush()
        link.flush()
        assert len(calls) == 1
        arrives(peer, blob(10))


def test_what_is_held_is_sent_before_the_end(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (link, peer):
        link.send(blob(10), more=True)
        link.end()
        arrives(peer, blob(10))
        with pytest.raises(EOFError):
            peer.read(1)


def test_little_is_held(certs: Path, mailbox: Mailbox, calls: list[int]) -> None:
    small, large = blob(HELD_BYTES // 4), blob(HELD_BYTES)
    with linked(certs, mailbox) as (link, peer):
        for _ in range(3):
            link.send(small, more=True)
        assert not calls
        assert link._held_bytes == sum(map(len, link._held)) <= HELD_BYTES
        link.send(small, more=True)  # with the others it is too much
        assert len(calls) == 1
        assert not link._held
        arrives(peer, *[small] * 4)
        link.send(large, more=True)
        assert len(calls) == 2
        arrives(peer, large)


def test_frames_keep_their_order_however_they_are_held(certs: Path, mailbox: Mailbox) -> None:
    r = random.Random(1)
    sizes = [0, 10, HELD_BYTES // 2, HELD_BYTES - 100, HELD_BYTES, CHUNK_BYTES, 3 * CHUNK_BYTES]
    frames = [blob(size) for size in r.choices(sizes, [9, 9, 4, 2, 2, 1, 1], k=200)]
    with linked(certs, mailbox) as (link, peer):

        def send_all() -> None:
            for frame in frames:
                link.send(frame, more=r.random() < 0.7)
                if r.random() < 0.1:
                    link.flush()
            link.flush()

        sending = threading.Thread(target=send_all)
        sending.start()
        arrives(peer, *frames)
        sending.join()


def test_what_is_held_for_others_is_sent_before_a_sender_waits(certs: Path, mailbox: Mailbox) -> None:
    flushed: list[bool] = []
    with linked(certs, mailbox, timeout=0.5) as (link, _):
        link._before_waiting = lambda: flushed.append(link._unsent > QUEUED_BYTES)
        with pytest.raises(PeerSilent):
            pour(link)
    assert flushed == [True]


def test_a_peer_that_is_gone_is_found_when_what_is_held_is_sent(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (link, peer):
        link.send(blob(10), more=True)
        peer.connection.close()
        with pytest.raises(PeerLost, match="telco"):
            pour(link)
        assert not link.can_send()
        with pytest.raises(PeerLost, match="telco: the connection was lost"):
            link.send(blob(10), more=True)


def test_what_is_held_for_a_peer_that_is_gone_does_not_keep_a_link_from_ending(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (link, _):
        link.send(blob(10), more=True)
        link._works = False  # the writing thread has found out
        mailbox.lose("telco", "hung up")
        with pytest.raises(PeerLost, match=r"telco: hung up.*bank was about to send"):
            link.flush()
        link.end()


def test_before_it_is_connected_a_link_holds_nothing(mailbox: Mailbox) -> None:
    link = Link("telco", mailbox, LONG)
    for more in (True, False):
        with pytest.raises(PeerLost, match="telco"):
            link.send(blob(1), more=more)
