"""The proxy of benchmarks that stands for a long line: when data arrives, and that it arrives as it was sent."""

from __future__ import annotations

import socket
import threading
from asyncio.trsock import TransportSocket
from collections.abc import Iterator

import pytest

from slow_line import WAITING_SECONDS, Line, slow_lines

LONG = 100.0
FAST = 8e9


def test_data_arrives_when_it_has_left_and_come_all_the_way() -> None:
    line = Line(delay=0.05, bytes_per_second=1000)
    assert line.send(now=10.0, size=500) == pytest.approx(10.55)
    assert line.send(now=10.1, size=100) == pytest.approx(10.65), "after what was sent before"
    assert line.send(now=20.0, size=0) == pytest.approx(20.05)


def test_a_line_that_has_enough_to_send_takes_no_more() -> None:
    line = Line(delay=0.05, bytes_per_second=1000)
    assert line.full_for(10.0) == 0
    line.send(now=10.0, size=500)
    assert line.full_for(10.0) == pytest.approx(0.5 - WAITING_SECONDS)
    assert line.full_for(10.5) == 0


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LONG)
        yield listener


def dial(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), LONG)


def address_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


def read_all(connection: socket.socket) -> bytes:
    found = b""
    while data := connection.recv(2**16):
        found += data
    return found


def test_what_is_sent_arrives_both_ways_and_so_does_the_end(server: socket.socket) -> None:
    there, back = bytes(range(256)) * 4_000, b"an answer " * 50_000
    with slow_lines({"bank": address_of(server)}, delay=0.001, bits_per_second=FAST) as addresses:
        caller = dial(addresses["bank"])
        called, _ = server.accept()
        called.settimeout(LONG)

        def speak() -> None:
            caller.sendall(there)
            caller.shutdown(socket.SHUT_WR)

        speaking = threading.Thread(target=speak)
        speaking.start()
        assert read_all(called) == there
        called.sendall(back)
        called.close()
        assert read_all(caller) == back
        speaking.join()
        caller.close()


def test_nobody_at_the_other_end_looks_like_a_lost_connection(server: socket.socket) -> None:
    target = address_of(server)
    server.close()
    with (
        slow_lines({"bank": target}, delay=0.001, bits_per_second=FAST) as addresses,
        dial(addresses["bank"]) as caller,
    ):
        assert read_all(caller) == b""


def test_lines_in_use_end_with_the_block(server: socket.socket) -> None:
    with slow_lines({"bank": address_of(server)}, delay=LONG, bits_per_second=FAST) as addresses:
        caller = dial(addresses["bank"])
        called, _ = server.accept()
        caller.sendall(b"on its way for long")
    called.settimeout(LONG)
    assert read_all(called) == b""
    caller.close()
    called.close()


def test_small_pieces_are_not_held_back(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a small piece waits until the one before it was acknowledged, for up to 40 ms."""
    said = list[tuple[int, ...]]()
    monkeypatch.setattr(TransportSocket, "setsockopt", lambda _, *options: said.append(options))
    with slow_lines({"bank": address_of(server)}, delay=0.001, bits_per_second=FAST) as addresses:
        caller = dial(addresses["bank"])
        called, _ = server.accept()
        caller.sendall(b"a")
        assert called.recv(1) == b"a"
        caller.close()
        called.close()
    assert said == 2 * [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)], "at both ends"
