"""A slow line on this machine: a TCP proxy that delays what it forwards, and forwards only so much in a second.

Each connection has a line of its own each way. A piece of data leaves when all before it has left, takes its size
divided by the rate to leave, and arrives a delay later. What waits to leave is limited, so that a sender faster than
the line has to wait, as with TCP. Nothing is lost, and nothing is sent slowly at first: the proxy stands for a long,
good line between kernels with large windows. One thread serves all connections, and sleeps until a piece is due.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PIECE_BYTES = 2**14
WAITING_SECONDS = 0.1  # how much may wait to leave, in seconds of the line


@dataclass
class Line:
    """One direction of a connection: when what is sent arrives."""

    delay: float
    bytes_per_second: float
    free_at: float = field(default=0.0)

    def send(self, now: float, size: int) -> float:
        """The time at which so many bytes, sent now, have arrived."""
        self.free_at = max(now, self.free_at) + size / self.bytes_per_second
        return self.free_at + self.delay

    def full_for(self, now: float) -> float:
        """How long until the line takes more."""
        return max(0.0, self.free_at - now - WAITING_SECONDS)


@contextmanager
def slow_lines(targets: Mapping[str, str], delay: float, bits_per_second: float) -> Iterator[dict[str, str]]:
    """By name, an address from which slow lines lead to that of the target; they end with the block."""
    loop = asyncio.new_event_loop()
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in targets}

    async def serve() -> None:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
            await _forwarded(reader, writer, target, delay, bits_per_second / 8)

        for name, listener in listeners.items():
            await asyncio.start_server(lambda r, w, to=targets[name]: forward(r, w, to), sock=listener)

    loop.run_until_complete(serve())
    thread = threading.Thread(target=loop.run_forever, name="slow lines", daemon=True)
    thread.start()
    try:
        yield {name: f"127.0.0.1:{listener.getsockname()[1]}" for name, listener in listeners.items()}
    finally:
        asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        for listener in listeners.values():
            listener.close()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _forwarded(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, delay: float, rate: float
) -> None:
    """One connection, until both directions have ended; it is closed at once if nobody listens at the target."""
    host, _, port = target.rpartition(":")
    ends = [writer]
    try:
        with suppress(OSError):
            there, back = await asyncio.open_connection(host, int(port))
            ends.append(back)
            for end in ends:  # asyncio leaves it out for accepted connections, and small pieces would wait 40 ms more
                end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.gather(_one_way(reader, back, Line(delay, rate)), _one_way(there, writer, Line(delay, rate)))
    finally:
        task = asyncio.current_task()
        for end in ends:
            end.close()
            if task is not None and task.cancelling():
                end.transport.abort()  # nobody reads what is still on its way
        await asyncio.gather(*(end.wait_closed() for end in ends), return_exceptions=True)


async def _one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: Line) -> None:
    sent: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    await asyncio.gather(_take(reader, sent, line), _give(sent, writer))


async def _take(reader: asyncio.StreamReader, sent: asyncio.Queue[tuple[float, bytes]], line: Line) -> None:
    loop, data = asyncio.get_running_loop(), b"-"
    while data:
        try:
            data = await reader.read(PIECE_BYTES)
        except OSError:
            data = b""
        sent.put_nowait((line.send(loop.time(), len(data)), data))
        if wait := line.full_for(loop.time()):
            await asyncio.sleep(wait)


async def _give(sent: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    """Forward every piece when it is due; an empty one is the end."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while True:
            due, data = await sent.get()
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
