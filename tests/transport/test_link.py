"""Frames on a TLS connection: any size goes in and comes out, and whatever else comes in is refused."""

from __future__ import annotations

import io
import random
import re
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from link_peer import LONG, Blob, Count, blob, linked
from unpooled.codec import ALIGNMENT
from unpooled.control import Goodbye
from unpooled.errors import PeerFailed, PeerLost, WireError
from unpooled.ledger import Ledger
from unpooled.transport import link
from unpooled.transport.link import CHUNK_BYTES, Link, pieces
from unpooled.transport.mailbox import EARLY_BYTES, FREE_BYTES, SMALL_BYTES, Mailbox
from unpooled.wire import MAX_FRAME_BYTES, Frame, encode, kind_of, read_body

pytestmark = pytest.mark.usefixtures("who_reads")


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.integers(1, 50))
def test_a_frame_is_cut_into_pieces_after_its_size(parts: list[bytes], size: int) -> None:
    frame = Frame(tuple(parts), sum(map(len, parts)))
    cut = list(pieces(frame, size))
    assert all(len(piece) <= max(size, 8) + 8 for piece in cut)
    assert b"".join(cut) == frame.size.to_bytes(8, "little") + frame.joined()


SIZES = [0, 10, SMALL_BYTES, CHUNK_BYTES, 20 * CHUNK_BYTES, 1]


def test_what_is_sent_arrives(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (link, peer):
        sending = threading.Thread(target=lambda: [link.send(blob(size)) for size in SIZES])
        sending.start()
        for size in SIZES:
            frame = blob(size)
            assert peer.read(8) == frame.size.to_bytes(8, "little")
            assert peer.read(frame.size) == frame.joined()
        sending.join()


def test_what_arrives_is_delivered_whatever_the_records(certs: Path, mailbox: Mailbox) -> None:
    stream = b"".join(piece for size in SIZES for piece in pieces(blob(size)))
    r = random.Random(1)
    with linked(certs, mailbox) as (_, peer):
        while stream:
            count = r.choice([1, 7, 100, 2**15, 2**19])
            peer.say(stream[:count])
            stream = stream[count:]
        for size in SIZES:
            data = read_body(mailbox.take("telco", "Blob", LONG), Blob).data
            assert data.size == size
            assert data.ctypes.data % ALIGNMENT == 0
            assert not data.flags.writeable


@pytest.mark.parametrize("size", [0, MAX_FRAME_BYTES + 1, 2**64 - 1])
def test_a_size_that_cannot_be_ends_the_conversation(certs: Path, mailbox: Mailbox, size: int) -> None:
    with linked(certs, mailbox) as (_, peer):
        peer.announce(size)
        with pytest.raises(PeerLost, match=rf"telco.*{size}"):
            mailbox.take("shop", "Blob", LONG)


@pytest.mark.parametrize("cut", [lambda frame: frame[:4], lambda frame: frame[:-1]])
def test_a_connection_that_ends_within_a_frame_is_lost(
    certs: Path, mailbox: Mailbox, cut: Callable[[bytes], bytes]
) -> None:
    with linked(certs, mailbox) as (_, peer):
        peer.say(cut(b"".join(pieces(blob(10)))))
        peer.connection.sendall(peer.secured.farewell())
        with pytest.raises(PeerLost, match="telco"):
            mailbox.take("telco", "Blob", LONG)


def test_bytes_that_are_not_tls_end_the_conversation(certs: Path, mailbox: Mailbox) -> None:
    with linked(certs, mailbox) as (_, peer):
        peer.connection.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(PeerLost, match="telco"):
            mailbox.take("telco", "Blob", LONG)


def test_streams_at_random_are_frames_or_refused(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(1)
    whole = b"".join(pieces(encode(Count(1, 0.5))))
    delivered: list[int] = []
    monkeypatch.setattr(mailbox, "deliver", lambda peer, data: delivered.append(len(data)))
    made, refused = Link("telco", mailbox, LONG), 0
    for _ in range(5_000):
        sizes = [r.choice([0, 1, 3, 2**20, 2**33, 2**63]).to_bytes(8, "little"), r.randbytes(r.randrange(12))]
        stream = io.BytesIO(b"".join(r.choices([whole, *sizes], k=r.randrange(6))))

        def fill(view: memoryview, stream: io.BytesIO = stream) -> Iterator[bool]:
            if stream.readinto(view) < len(view):
                raise EOFError
            yield False

        monkeypatch.setattr(made, "_fill", fill)
        try:
            while True:
                list(made._frame())
        except WireError:
            refused += 1
        except EOFError:
            pass
    assert min(len(delivered), refused) > 500
    assert max(delivered) <= SMALL_BYTES


# what is judged by its head


def refusal(certs: Path, mailbox: Mailbox, size: int, head: bytes) -> str:
    """What the bank says to the head of a frame, of which no more ever comes."""
    with linked(certs, mailbox) as (_, peer):
        peer.announce(size, head.ljust(2048, b"\0"))
        with pytest.raises((PeerFailed, PeerLost)) as caught:
            mailbox.take("shop", "Blob", LONG)
    return str(caught.value)


def test_news_are_short_for_ever(certs: Path, mailbox: Mailbox) -> None:
    said = refusal(certs, mailbox, 3 * 2**29, encode(Goodbye()).joined())
    assert re.search(rf"telco.*Goodbye.*{3 * 2**29}.*{SMALL_BYTES}", said)


def test_a_message_of_fixed_size_is_no_larger_than_declared(certs: Path, mailbox: Mailbox) -> None:
    head = encode(Count(1, 0.5)).joined()
    assert re.search(f"{kind_of(Count)}.*{2**20}", refusal(certs, mailbox, 2**20, head))


def test_a_large_frame_that_is_no_message_is_refused_at_once(certs: Path, mailbox: Mailbox) -> None:
    assert "telco" in refusal(certs, mailbox, 2**20, b"GET / HTTP/1.1")


@pytest.mark.parametrize(("agreed", "size"), [(True, FREE_BYTES + 1), (False, EARLY_BYTES + 1)])
def test_a_large_frame_takes_no_memory_until_it_is_awaited(
    certs: Path, tmp_path: Path, agreed: bool, size: int
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    box = Mailbox("bank", ("telco",), ledger)
    if agreed:
        box.agreed()
    frame = blob(size)
    with linked(certs, box) as (_, peer):
        tracemalloc.start()
        sending = threading.Thread(target=lambda: [peer.say(bytes(piece)) for piece in pieces(frame)])
        sending.start()
        until = time.monotonic() + LONG
        while not box.somebody_waits():  # the system's buffers may hold the whole frame before its head is read
            assert time.monotonic() < until
            time.sleep(0.01)
        before = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, link.__file__)])
        assert sum(trace.size for trace in before.traces) < EARLY_BYTES
        tracemalloc.stop()
        assert read_body(box.take("telco", "Blob", LONG), Blob).data.size == size
        sending.join()
    ledger.close()
