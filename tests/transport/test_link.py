"""Frames travel as chunks: any size goes in and comes out, and whatever else comes in is refused."""

from __future__ import annotations

import random
import threading
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.codec import ALIGNMENT, Bytes
from unpooled.errors import PeerLost, PeerSilent, WireError
from unpooled.ledger import Ledger
from unpooled.transport import link as link_module
from unpooled.transport.link import CHUNK_BYTES, QUEUED_CHUNKS, Link, from_chunks, to_chunks
from unpooled.transport.mailbox import Mailbox
from unpooled.wire import MAX_FRAME_BYTES, Frame, encode, message, read_body, read_header

LONG = 20.0


@message(discloses="nothing: made for this test")
class Blob:
    data: Bytes


def blob(size: int) -> Frame:
    return encode(Blob(np.arange(size, dtype=np.uint64).astype(np.uint8)))


def announce(size: int) -> bytes:
    return size.to_bytes(8, "little") + b"\0"


def frames_in(chunks: Iterable[bytes]) -> list[bytes]:
    return [bytes(frame) for frame in from_chunks(chunks)]


# chunks


@given(st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), max_size=5), st.integers(2, 50))
def test_frames_of_any_size_come_back_whatever_the_chunks(contents: list[list[bytes]], size: int) -> None:
    frames = [Frame(tuple(parts), sum(map(len, parts))) for parts in contents]
    chunks = [chunk for frame in frames for chunk in to_chunks(frame, size)]
    assert all(len(chunk) <= max(size, 9) for chunk in chunks)
    assert frames_in(chunks) == [frame.joined() for frame in frames]


@pytest.mark.parametrize("size", [0, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_arrays_stay_aligned_and_read_only_on_either_side_of_the_chunk_size(size: int) -> None:
    [frame] = from_chunks(to_chunks(blob(size)))
    data = read_body(read_header(frame), Blob).data
    assert data.size == size
    assert data.ctypes.data % ALIGNMENT == 0
    assert not data.flags.writeable


@pytest.mark.parametrize(
    ("chunks", "complaint"),
    [
        ([b""], "neither is a frame nor announces one"),
        ([b"\2"], "neither is a frame nor announces one"),
        ([b"1234567\0"], "neither is a frame nor announces one"),
        ([b"123456789\0"], "neither is a frame nor announces one"),
        ([announce(0)], "a frame of 0 bytes was announced"),
        ([announce(MAX_FRAME_BYTES + 1)], f"a frame of {MAX_FRAME_BYTES + 1} bytes was announced"),
        ([b"\xff" * 8 + b"\0"], "a frame of 18446744073709551615 bytes was announced"),
        ([announce(5), b""], "a chunk of 0 bytes where 1 to 5 were to come"),
        ([announce(5), b"123456"], "a chunk of 6 bytes where 1 to 5 were to come"),
        ([announce(5), b"123", b"456"], "a chunk of 3 bytes where 1 to 2 were to come"),
        ([announce(5)], "the stream ended 5 bytes before the end of a frame"),
        ([b"whole\1", announce(5), b"1234"], "the stream ended 1 bytes before the end of a frame"),
    ],
)
def test_a_stream_that_is_not_of_frames_is_refused(chunks: list[bytes], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        frames_in(chunks)


def test_streams_at_random_are_frames_or_refused() -> None:
    r = random.Random(1)
    frames = refused = 0
    for _ in range(20_000):
        pieces = [b"", b"\0", b"\1", announce(r.randrange(4)), b"ab", b"ab\1", r.randbytes(r.randrange(12))]
        stream = r.choices(pieces, k=r.randrange(6))
        try:
            found = frames_in(stream)
        except WireError:
            refused += 1
        else:
            frames += len(found)
            assert sum(map(len, found)) <= sum(map(len, stream))
    assert min(frames, refused) > 2_000


def test_memory_grows_with_what_arrives_not_with_what_is_announced() -> None:
    def little() -> Iterator[bytes]:
        yield announce(MAX_FRAME_BYTES)
        for _ in range(100):
            yield bytes(1000)

    tracemalloc.start()
    with pytest.raises(WireError, match="the stream ended"):
        frames_in(little())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000


# links


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    """The bank's."""
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    yield Mailbox("bank", ("telco", "shop"), ledger)
    ledger.close()


def test_what_is_sent_on_one_link_is_delivered_by_the_other(mailbox: Mailbox) -> None:
    sizes = [0, 10, 3 * CHUNK_BYTES, 20 * CHUNK_BYTES, 1]
    sender, receiver = Link("bank", mailbox, LONG), Link("telco", mailbox, LONG)
    reading = threading.Thread(target=receiver.incoming, args=(sender.outgoing(),))
    reading.start()
    for size in sizes:
        sender.send(blob(size))
    sender.end()
    reading.join(LONG)
    assert not reading.is_alive()
    received = [read_body(mailbox.take("telco", "Blob", LONG), Blob).data.size for _ in sizes]
    assert received == sizes


def test_a_link_hands_over_a_few_chunks_and_then_waits_for_the_stream_to_take_them(mailbox: Mailbox) -> None:
    link = Link("telco", mailbox, timeout=0.05)
    for _ in range(QUEUED_CHUNKS):
        link.send(blob(1))
    with pytest.raises(PeerSilent, match=r"bank waited 0\.05 s for telco to take a message, in vain") as caught:
        link.send(blob(1))
    assert caught.value.origin == "telco"
    stream = link.outgoing()
    next(stream)
    link.send(blob(2))
    link.end()
    assert len(frames_in(stream)) == QUEUED_CHUNKS


def test_a_link_that_waits_hears_that_another_peer_failed(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "_GLANCE_SECONDS", 0.01)
    link = Link("telco", mailbox, LONG)
    for _ in range(QUEUED_CHUNKS):
        link.send(blob(1))
    mailbox.lose("shop", "hung up")
    with pytest.raises(PeerLost, match="shop: hung up"):
        link.send(blob(1))


def test_a_stream_that_is_not_of_frames_ends_the_conversation(mailbox: Mailbox) -> None:
    link = Link("telco", mailbox, LONG)
    link.incoming([*to_chunks(blob(1)), b"nonsense"])
    with pytest.raises(PeerLost, match="telco: broke off: a chunk that neither is a frame nor announces one"):
        mailbox.take("shop", "Blob", LONG)
