"""Frames on a TLS connection: any size goes in and comes out, and whatever else comes in is refused."""

from __future__ import annotations

import io
import random
import re
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.arrays import Bytes
from unpooled.codec import ALIGNMENT
from unpooled.control import Goodbye, Working
from unpooled.errors import PeerFailed, PeerLost, PeerSilent, WireError
from unpooled.ledger import Ledger
from unpooled.transport import certificates, link, listening
from unpooled.transport.link import CHUNK_BYTES, HELD_BYTES, QUEUED_BYTES, SIZE_BYTES, Link, pieces
from unpooled.transport.mailbox import EARLY_BYTES, FREE_BYTES, SMALL_BYTES, Mailbox
from unpooled.transport.tls import Secured, context_of
from unpooled.transport.trust import load_identity
from unpooled.wire import MAX_FRAME_BYTES, Frame, encode, kind_of, message, read_body

LONG = 100.0


@message(discloses="nothing: made for this test")
class Blob:
    data: Bytes


@message(discloses="nothing: made for this test")
class Count:
    value: int
    share: float


def blob(size: int) -> Frame:
    return encode(Blob(np.arange(size, dtype=np.uint64).astype(np.uint8)))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.integers(1, 50))
def test_a_frame_is_cut_into_pieces_after_its_size(parts: list[bytes], size: int) -> None:
    frame = Frame(tuple(parts), sum(map(len, parts)))
    cut = list(pieces(frame, size))
    assert all(len(piece) <= max(size, 8) + 8 for piece in cut)
    assert b"".join(cut) == frame.size.to_bytes(8, "little") + frame.joined()


class Peer:
    """The other end of the bank's link, by hand."""

    def __init__(self, connection: socket.socket, secured: Secured) -> None:
        self.connection, self.secured = connection, secured

    def say(self, data: bytes) -> None:
        self.connection.sendall(self.secured.encrypt(data))

    def announce(self, size: int, head: bytes = b"") -> None:
        self.say(size.to_bytes(8, "little") + head)

    def read(self, count: int) -> bytes:
        data = bytearray(count)
        done = 0
        while (done := done + self.secured.decrypt_into(memoryview(data)[done:])) < count:
            self.secured.receive(self.connection.recv(2**16))
        return bytes(data)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "certs"
    certificates.make_trial(folder, ["bank", "telco"])
    return folder


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    """The bank's, once the plan is agreed on."""
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    box = Mailbox("bank", ("telco", "shop"), ledger)
    box.agreed()
    yield box
    ledger.close()


@pytest.fixture(scope="module", params=["the party reads too", "a thread reads"], autouse=True)
def who_reads(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "a thread reads":
            patch.setattr(listening, "alarm", lambda: None)
        yield


@contextmanager
def linked(certs: Path, mailbox: Mailbox, timeout: float = LONG) -> Iterator[tuple[Link, Peer]]:
    """The bank's link to the telco, and the telco."""
    here, there = socket.create_server(("127.0.0.1", 0)), socket.socket()
    there.connect(here.getsockname())
    accepted, _ = here.accept()
    here.close()
    bank = Secured(context_of(load_identity(certs / "bank", "bank"), server=True), server=True)
    telco = Secured(context_of(load_identity(certs / "telco", "telco"), server=False), server=False)
    done = [False, False]
    while not all(done):
        for number, (one, other) in enumerate(((bank, telco), (telco, bank))):
            done[number] = one.shake_hands()
            other.receive(one.to_send())
    made, bell = Link("telco", mailbox, timeout), listening.alarm()
    if bell:
        mailbox.alarm = bell.ring
    made.begin(accepted, bank, bell)
    there.settimeout(LONG)
    try:
        yield made, Peer(there, telco)
    finally:
        made.end()
        mailbox.leave()
        there.close()
        made.close(time.monotonic() + LONG)
        assert not any(thread.is_alive() for thread in made._threads)


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


# sending


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


def arrives(peer: Peer, *frames: Frame) -> None:
    for frame in frames:
        assert peer.read(SIZE_BYTES) == frame.size.to_bytes(SIZE_BYTES, "little")
        assert peer.read(frame.size) == frame.joined()


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


# who reads


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
